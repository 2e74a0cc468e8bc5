/*
 * Memory that goes back: to the free ranges, and from there to the driver.
 */
#ifndef GP_POOL_RECLAIM_H
#define GP_POOL_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct gp_block;
struct gp_pool;

/* A block that its owner is done with goes to the free ranges or the bins.
 * Under the pool's lock. */
void gp_reclaim_block(struct gp_pool *pool, struct gp_block *b);

/* Blocks that were set aside and are idle now come back, after a wait if there
 * are any and no stream captures. Takes the lock; true if any came. */
bool gp_reclaim_aside(struct gp_pool *pool);

/* A block is freed but not idle. Takes the lock. */
void gp_reclaim_set_aside(struct gp_pool *pool, struct gp_block *b);

/* Give idle handles back to the driver, at least `bytes` if there are so many,
 * none that became idle after `before` on the pool's clock (UINT64_MAX: any).
 * Takes the lock. Returns the bytes given back. */
uint64_t gp_reclaim_release(struct gp_pool *pool, uint64_t bytes,
			    uint64_t before);

/* The same whenever they became idle, and never more than `most` bytes. */
uint64_t gp_reclaim_within(struct gp_pool *pool, uint64_t bytes, uint64_t most);

/* garbage_collection_threshold: what `bytes` more would put above it goes back,
 * the longest idle first. Takes the lock. */
void gp_reclaim_excess(struct gp_pool *pool, uint64_t bytes);

#endif
