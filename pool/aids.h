/*
 * Debug aids: what was freed is filled with a pattern (`poison`), and blocks lie
 * between red zones (`guard`) that are written when a block is handed out and
 * looked at when it is freed.
 *
 * The zones are part of the block, before and behind what the program gets: it
 * and everybody who asks sees its own bytes alone. A pool with aids hands out by
 * the slow path only, and marks every block as one whose free is told
 * (GP_WATCHED); a pool without them pays nothing.
 *
 * The order is that of zeros [19]: writes come after the block's last use and
 * before its next. A look waits on the host for all work up to the free.
 */
#ifndef GP_POOL_AIDS_H
#define GP_POOL_AIDS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/block.h"
#include "pool/pool.h"

#define GP_POISON_BYTE 0xdd /* of freed memory */
#define GP_GUARD_BYTE  0xfd /* of red zones */

/* The state of a block that the program has. One between red zones does not
 * start where the program's bytes do, and is not found as one that does. Any
 * thread. */
enum gp_state gp_aids_live(const struct gp_pool *pool);

/* What lies before a program's `bytes` in their block, and in all around them;
 * bytes. Any thread. */
uint64_t gp_aids_front(const struct gp_pool *pool, uint64_t bytes);
uint64_t gp_aids_around(const struct gp_pool *pool, uint64_t bytes);

/* The block of `bytes` at va, the program's address, is handed out: zeros and
 * red zones. 0 or -errno: it cannot be. No lock is held. */
int gp_aids_handed_out(struct gp_pool *pool, uint64_t va, uint64_t bytes);

/* It was freed, its stamp is set, and nobody else has it yet. `idle` false: it
 * could not be waited for, or others have it mapped; it is left as it is. No
 * lock is held. */
void gp_aids_freed(struct gp_pool *pool, struct gp_block *b, uint64_t va,
		   bool idle);

#endif
