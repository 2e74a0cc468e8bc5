/*
 * A request that no thread's cache could serve.
 *
 * The order of a miss: search; caches and blocks set aside, search again;
 * memory of the pool moved to where it fits; new memory; wait for what other
 * threads are giving back, search again; out of memory.
 */
#ifndef GP_POOL_SERVE_H
#define GP_POOL_SERVE_H

#include <stdint.h>

struct gp_block;
struct gp_cache;
struct gp_pool;

/* *b is a HELD block of `granules`: in a slab when below GP_LARGE_FROM, else a
 * tile of whole units. `cache` is the caller's, or NULL. Called without locks.
 * 0, -ENOMEM or -EIO. */
int gp_serve(struct gp_pool *pool, struct gp_cache *cache, uint32_t granules,
	     struct gp_block **b);

#endif
