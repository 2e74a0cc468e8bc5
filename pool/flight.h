/*
 * Operations that leave the pool's lock to call the driver.
 *
 * What takes part in one is HELD meanwhile, so that others cannot see it as
 * free memory. Whoever is about to report that memory is out waits for those
 * in flight first and looks again.
 */
#ifndef GP_POOL_FLIGHT_H
#define GP_POOL_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

struct gp_pool;

/* Leave the pool's lock; take it again. */
void gp_flight_begin(struct gp_pool *pool);
void gp_flight_end(struct gp_pool *pool);

/* Operations of other threads that have ended, as a number to compare. Taken
 * before the search that may miss what they have. Under the lock. */
uint64_t gp_flight_others(const struct gp_pool *pool);

/* Around blocks that leave a cache for the slabs without the pool's lock: they
 * are in neither for a moment. Counts as an operation. No lock is held. */
void gp_flight_return_begins(struct gp_pool *pool);
void gp_flight_return_ended(struct gp_pool *pool);

/* True if one has ended since that number was taken, or one is in flight and
 * has ended now. Under the lock, which is released while it waits. */
bool gp_flight_wait(struct gp_pool *pool, uint64_t since);

#endif
