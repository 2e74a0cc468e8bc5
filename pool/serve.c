/* The way of a miss; see serve.h. */
#include "pool/serve.h"

#include <errno.h>
#include <stddef.h>

#include "pool/grow.h"
#include "pool/large.h"
#include "pool/reclaim.h"
#include "pool/state.h"

/* Other threads' operations are waited for so many times at most. */
#define MAX_WAITS 64

static bool is_small(uint32_t granules)
{
	return granules < GP_LARGE_FROM >> GP_GRANULE_SHIFT;
}

/* What is there already; `slab`: a free range may become a new slab. */
static struct gp_block *search(struct gp_pool *pool, uint32_t granules,
			       bool slab)
{
	struct gp_block *b;

	if (!is_small(granules))
		return gp_large_take(pool, granules);
	b = gp_slab_take(pool, granules);
	if (b || !slab)
		return b;
	b = gp_large_take(pool, GP_SLAB_GRANULES);
	if (!b)
		return NULL;
	if (gp_slab_add(pool, b)) {
		gp_large_give(pool, b);
		return NULL;
	}
	return gp_slab_take(pool, granules);
}

/* More memory. Releases the lock meanwhile. */
static int grow(struct gp_pool *pool, uint32_t granules, struct gp_block **b)
{
	struct gp_block *tile;
	int rc;

	rc = gp_grow(pool, is_small(granules) ? GP_SLAB_GRANULES : granules,
		     &tile);
	if (rc)
		return rc;
	*b = tile;
	if (!is_small(granules))
		return 0;
	if (gp_objects_reserve(&pool->arena.blocks, 8) ||
	    gp_slab_add(pool, tile)) {
		gp_large_give(pool, tile);
		return -ENOMEM;
	}
	*b = gp_slab_take(pool, granules);
	return 0;
}

/* True if an operation of another thread ended since `landings`, or one is
 * under way and has ended now: what it held may serve us. */
static bool wait_for_others(struct gp_pool *pool, uint64_t landings)
{
	if (pool->landings == landings && pool->in_flight == 0)
		return false;
	while (pool->landings == landings)
		pthread_cond_wait(&pool->landed, &pool->lock.mutex);
	return true;
}

/* Free memory that is not where a search looks. Releases the lock meanwhile.
 * True if any came. */
static bool collect(struct gp_pool *pool)
{
	bool any = gp_cache_flush_all(pool);

	gp_unlock(&pool->lock);
	any |= gp_reclaim_aside(pool);
	gp_lock(&pool->lock);
	return any;
}

int gp_serve(struct gp_pool *pool, struct gp_cache *cache, uint32_t granules,
	     struct gp_block **b)
{
	bool retried = false;
	int rc = 0;

	*b = NULL;
	gp_lock(&pool->lock);
	/* Best fit means to look at all of this thread's free memory. */
	if (cache && !is_small(granules))
		gp_cache_flush(pool, cache, true);
	for (int i = 0; i < MAX_WAITS; i++) {
		rc = gp_objects_reserve(&pool->arena.blocks, 8);
		if (rc)
			break;
		*b = search(pool, granules, false);
		if (*b)
			break;
		collect(pool);
		rc = gp_objects_reserve(&pool->arena.blocks, 8);
		if (rc)
			break;
		*b = search(pool, granules, true);
		if (*b)
			break;
		uint64_t landings = pool->landings;

		rc = grow(pool, granules, b);
		if (!rc)
			pool->account.misses++;
		if (rc != -ENOMEM)
			break;
		/* One landing was ours. */
		retried = true;
		if (!wait_for_others(pool, landings + 1))
			break;
	}
	if (retried)
		pool->account.retries++;
	gp_unlock(&pool->lock);
	return *b ? 0 : rc ? rc : -ENOMEM;
}
