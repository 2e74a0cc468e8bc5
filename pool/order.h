/*
 * When may a freed block be used again?
 *
 * The only place that knows. A program may free memory that work in flight
 * still uses, because cuMemFree waits for it. The rule here is the plain one:
 * a free waits on the host, as cuMemFree does. Where it must not wait (a
 * stream captures) or cannot (the wait failed), the block carries a stamp and
 * is set aside until a later wait covers it.
 *
 * A stamp of 0 is idle: nothing uses the block.
 */
#ifndef GP_POOL_ORDER_H
#define GP_POOL_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct gp_pool;

struct gp_order {
	uint64_t issued; /* the newest stamp given out; atomic */
	uint64_t done;   /* stamps up to here are finished; atomic */
};

/* A block is freed now. *stamp says when it can be used: 0, at once. Returns 0,
 * or -EIO when the wait failed (the stamp is then not 0). Makes driver calls:
 * no lock is held. */
int gp_order_free(struct gp_pool *pool, uint64_t *stamp);

/* The wait that would make every stamp given out so far idle. 0, -EBUSY while
 * a stream captures, or -EIO. Makes driver calls: no lock is held. */
int gp_order_wait(struct gp_pool *pool);

/* May a block of this stamp be handed out, moved or unmapped? Any thread. */
bool gp_order_idle(const struct gp_pool *pool, uint64_t stamp);

#endif
