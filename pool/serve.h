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

#include "pool/state.h"

/* What lies ready, with nothing unusual: a block as below, but for its order, or
 * NULL. */
struct gp_block *gp_serve_at_once(struct gp_pool *pool, struct gp_cache *cache,
				  uint32_t granules);

/* Out of line: the rest of gp_serve(). *b: had at once, or NULL. */
int gp_serve_slowly(struct gp_pool *pool, struct gp_cache *cache,
		    uint32_t granules, struct gp_block **b);

/* *b is a HELD block of `granules`: in a slab when below GP_LARGE_FROM, else a
 * tile of whole units. `cache` is the caller's, or NULL. Called without locks.
 * 0, -ENOMEM or -EIO. */
static inline int gp_serve(struct gp_pool *pool, struct gp_cache *cache,
			   uint32_t granules, struct gp_block **b)
{
	*b = gp_serve_at_once(pool, cache, granules);
	if (__builtin_expect(*b && gp_order_reissue(&pool->order, (*b)->stamp),
			     1))
		return 0;
	return gp_serve_slowly(pool, cache, granules, b);
}

#endif
