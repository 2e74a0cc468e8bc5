/* The way of a miss; see serve.h. */
#include "pool/serve.h"

#include <errno.h>
#include <stddef.h>

#include "pool/flight.h"
#include "pool/grow.h"
#include "pool/large.h"
#include "pool/reclaim.h"
#include "pool/segments.h"
#include "pool/state.h"

/* Other threads' operations are waited for so many times at most. */
#define MAX_WAITS 64

static bool is_small(uint32_t granules)
{
	return granules < GP_LARGE_FROM >> GP_GRANULE_SHIFT;
}

/* Requests below 1 MiB, but from here on, bytes, take what is left between large
 * blocks before slabs grow. Smaller ones often live long: they would keep the
 * handle there from ever moving. */
#define SCRAP_FROM (768u << 10)

/* How far slabs grow at a time: with their number, a step up to 32 MiB. */
static double slab_factor(const struct gp_pool *pool)
{
	uint64_t step = pool->slabs.count / 8;

	return step < 1 ? 1.0 : step > 16 ? 16.0 : (double)step;
}

/* A HELD tile for a slab, or for a large request. */
static struct gp_block *take(struct gp_pool *pool, uint32_t granules, bool slab)
{
	struct gp_region *region =
		&pool->regions[slab ? GP_REGION_SLABS : GP_REGION_LARGE];

	return pool->has_vmm ? gp_large_take(pool, region, granules)
			     : gp_segment_take(pool, granules, slab);
}

/* The same from a region where it does not belong: better than nowhere. */
static struct gp_block *take_anywhere(struct gp_pool *pool, uint32_t granules)
{
	struct gp_block *b = NULL;

	for (int i = GP_NUM_REGIONS - 1; i >= 0 && !b; i--)
		b = gp_large_take(pool, &pool->regions[i], granules);
	return b;
}

/* The same from new or moved memory. Releases the lock meanwhile. */
static int grow(struct gp_pool *pool, uint32_t granules, bool slab,
		struct gp_block **tile)
{
	struct gp_region *region =
		&pool->regions[slab ? GP_REGION_SLABS : GP_REGION_LARGE];
	int rc;

	if (!pool->has_vmm) {
		gp_unlock(&pool->lock);
		gp_reclaim_excess(pool, (uint64_t)granules << GP_GRANULE_SHIFT);
		gp_lock(&pool->lock);
		return gp_segment_grow(pool, granules, slab, tile);
	}
	rc = gp_grow(pool, region, granules,
		     slab ? slab_factor(pool) : pool->config.growth_factor,
		     tile);
	if (rc != -ENOMEM && rc != -EAGAIN)
		return rc;
	if (gp_objects_reserve(&pool->arena.blocks, 8))
		return -ENOMEM;
	*tile = take_anywhere(pool, granules);
	return *tile ? 0 : rc;
}

/* A small block from a new slab in this tile. */
static struct gp_block *take_from(struct gp_pool *pool, struct gp_cache *cache,
				  struct gp_block *tile, uint32_t granules)
{
	struct gp_block *b = gp_slab_add(pool, cache, tile, granules);

	if (!b)
		gp_large_give(pool, tile);
	return b;
}

/* What is there already; `slab`: a free range may become a new slab. */
static struct gp_block *search(struct gp_pool *pool, struct gp_cache *cache,
			       uint32_t granules, bool slab)
{
	struct gp_block *b;

	if (!is_small(granules))
		return take(pool, granules, false);
	b = gp_slab_find(pool, cache, granules);
	if (b || !slab)
		return b;
	b = take(pool, GP_SLAB_GRANULES, true);
	if (!b && pool->has_vmm && granules >= SCRAP_FROM >> GP_GRANULE_SHIFT)
		b = gp_large_scrap(pool, &pool->regions[GP_REGION_LARGE],
				   granules);
	return b ? take_from(pool, cache, b, granules) : NULL;
}

/* More memory. Releases the lock meanwhile. */
static int more(struct gp_pool *pool, struct gp_cache *cache, uint32_t granules,
		struct gp_block **b)
{
	bool small = is_small(granules);
	struct gp_block *tile;
	int rc = grow(pool, small ? GP_SLAB_GRANULES : granules, small, &tile);

	if (rc)
		return rc;
	*b = small ? take_from(pool, cache, tile, granules) : tile;
	return *b ? 0 : -ENOMEM;
}

/* Free memory that is not where a search looks: these parts of the threads'
 * caches, and blocks set aside. Releases the lock meanwhile. */
static void collect(struct gp_pool *pool, const struct gp_cache *cache,
		    unsigned parts)
{
	if (parts)
		gp_cache_flush_all(pool, cache, parts);
	gp_unlock(&pool->lock);
	gp_reclaim_aside(pool);
	gp_order_poll(&pool->order); /* more may be moved then */
	gp_lock(&pool->lock);
}

/* The device is full: what it still works on is waited for, to be moved; else
 * idle memory that could not be used where it is goes back, as much as is
 * wanted. Releases the lock meanwhile. True if there was any. */
static bool give_back(struct gp_pool *pool, uint32_t granules)
{
	uint64_t bytes = (uint64_t)granules << GP_GRANULE_SHIFT;
	bool any;

	if (bytes < pool->config.large_segment_size)
		bytes = pool->config.large_segment_size;
	gp_unlock(&pool->lock);
	if (gp_order_outstanding(&pool->order))
		any = gp_order_wait(&pool->order) == 0;
	else
		any = gp_reclaim_release(pool, bytes, UINT64_MAX) > 0;
	gp_lock(&pool->lock);
	return any;
}

/* The device is full of what others hold. Releases the lock meanwhile. */
static bool others_made_room(struct gp_pool *pool, uint32_t granules)
{
	uint64_t bytes = (uint64_t)granules << GP_GRANULE_SHIFT;
	bool any = false;

	if (!pool->driver.ops->make_room || bytes > pool->driver.total_bytes)
		return false;
	if (bytes < pool->driver.granularity)
		bytes = pool->driver.granularity;
	gp_unlock(&pool->lock);
	any = pool->driver.ops->make_room(pool->driver.dev, bytes) > 0;
	gp_lock(&pool->lock);
	return any;
}

/*
 * Freed memory that the device still works on could be moved here once it is
 * done, and to grow instead would leave the pool above the peak of live memory
 * by more than overlap_slack. Also where it is only a part of what is wanted: a
 * pool that may grow past it does so again for the next request. Played against
 * a device that lags, recorded training with changing shapes held 8 % more
 * then, and one program 15 %; the waits, about one in two steps, took 0.1 to
 * 1 % of the time, most of it for the moves. (Two short runs of inference, of a
 * tenth of a second, took a third longer.) To wait for no more than is needed
 * saved nothing. A slab is little, and large handles do not move into its place.
 */
static bool rather_wait(struct gp_pool *pool, uint32_t granules)
{
	const struct gp_account *account = &pool->account;
	uint64_t held = account->reserved.current >> GP_GRANULE_SHIFT;
	uint64_t most = account->most_live >> GP_GRANULE_SHIFT;
	uint64_t idle = pool->backing.idle_granules;
	uint64_t live = held - idle + granules;
	uint64_t movable;

	if (is_small(granules) || !gp_grow_moves(pool) ||
	    !gp_order_outstanding(&pool->order))
		return false;
	movable = gp_backing_movable(pool, granules);
	if (movable >= granules || movable == idle)
		return false;
	if (live < most)
		live = most;
	return (double)(held + granules - movable) >
	       (double)live * (1.0 + pool->config.overlap_slack);
}

/* Best fit means to look at all free memory. One thread may free what another
 * allocated, and what then lies in its cache tears free ranges apart: other
 * memory would be broken into, and much moved. */
static void uncover(struct gp_pool *pool, struct gp_cache *cache,
		    unsigned parts)
{
	if (parts)
		gp_cache_flush_all(pool, cache, GP_CACHE_PART_LARGE);
	else
		gp_cache_flush(pool, cache, GP_CACHE_PART_LARGE);
}

/* Others looked into this thread's cache, and what they did not need of it lies
 * where a search finds it. Only its own is uncovered: threads that each robbed
 * all others to get back what is theirs would make those miss in turn. */
static struct gp_block *regain(struct gp_pool *pool, struct gp_cache *cache,
			       uint32_t granules)
{
	if (!is_small(granules))
		uncover(pool, cache, 0);
	return gp_objects_reserve(&pool->arena.blocks, 8)
		       ? NULL
		       : search(pool, cache, granules, false);
}

/* Before the search. Returns the parts of other threads' caches that it may
 * have. */
static unsigned prepare(struct gp_pool *pool, struct gp_cache *cache,
			uint32_t granules, struct gp_block **b)
{
	unsigned parts =
		is_small(granules) ? GP_CACHE_PART_SMALL : GP_CACHE_PART_ALL;

	if (cache && gp_cache_was_robbed(cache, granules)) {
		*b = regain(pool, cache, granules);
		if (*b)
			return parts;
		if (gp_cache_contended(pool, cache))
			parts = 0;
	}
	if (!is_small(granules))
		uncover(pool, cache, parts);
	return parts;
}

static int serve(struct gp_pool *pool, struct gp_cache *cache,
		 uint32_t granules, struct gp_block **b)
{
	bool retried = false, waited = false, asked = false;
	uint64_t others;
	unsigned parts;
	int rc = 0;

	*b = NULL;
	gp_lock(&pool->lock);
	parts = prepare(pool, cache, granules, b);
	for (int i = 0; !*b && i < MAX_WAITS; i++) {
		rc = gp_objects_reserve(&pool->arena.blocks, 8);
		if (rc)
			break;
		*b = search(pool, cache, granules, false);
		if (*b)
			break;
		others = gp_flight_others(pool);
		collect(pool, cache, parts);
		rc = gp_objects_reserve(&pool->arena.blocks, 8);
		if (rc)
			break;
		*b = search(pool, cache, granules, true);
		if (*b)
			break;
		if (!waited && rather_wait(pool, granules)) {
			waited = true;
			gp_unlock(&pool->lock);
			gp_order_wait(&pool->order);
			gp_lock(&pool->lock);
			continue;
		}
		rc = more(pool, cache, granules, b);
		if (!rc)
			pool->account.misses++;
		if (rc != -ENOMEM && rc != -EAGAIN)
			break;
		retried = true;
		/* What was left alone, so that it is quick to serve. */
		if (gp_slabs_drop(pool) || parts != GP_CACHE_PART_ALL) {
			parts = GP_CACHE_PART_ALL;
			continue;
		}
		if (rc == -EAGAIN && give_back(pool, granules))
			continue;
		rc = -ENOMEM;
		if (gp_flight_wait(pool, others))
			continue;
		if (asked || !others_made_room(pool, granules))
			break;
		asked = true;
	}
	if (retried)
		pool->account.retries++;
	gp_unlock(&pool->lock);
	return *b ? 0 : rc ? rc : -ENOMEM;
}

/* A small block without the pool's lock: from the thread's part of the slabs as
 * it is, or once what its cache holds is back there. */
static __attribute__((noinline)) struct gp_block *
serve_small(struct gp_pool *pool, struct gp_cache *cache, uint32_t granules)
{
	struct gp_block *b = gp_slab_take(pool, cache, granules);

	if (!b && cache && gp_cache_holds(cache, GP_CACHE_PART_SMALL)) {
		gp_cache_flush_own(pool, cache);
		b = gp_slab_take(pool, cache, granules);
	}
	if (b && cache)
		gp_cache_was_robbed(cache, granules);
	return b;
}

static bool any_large_cached(const struct gp_pool *pool)
{
	for (uint32_t i = 1; i < pool->num_caches; i++)
		if (gp_cache_holds(pool->caches[i], GP_CACHE_PART_LARGE))
			return true;
	return false;
}

/* A large block that is free already, for a thread that nobody has robbed. All
 * free memory is looked at, as in prepare(). */
static __attribute__((noinline)) struct gp_block *
serve_large(struct gp_pool *pool, const struct gp_cache *cache,
	    uint32_t granules)
{
	struct gp_block *b = NULL;

	if (!pool->has_vmm || (cache && gp_cache_robbed_of(cache, granules)))
		return NULL;
	gp_lock(&pool->lock);
	if (any_large_cached(pool))
		gp_cache_flush_all(pool, cache, GP_CACHE_PART_LARGE);
	if (!gp_objects_reserve(&pool->arena.blocks, 8))
		b = gp_large_take(pool, &pool->regions[GP_REGION_LARGE],
				  granules);
	gp_unlock(&pool->lock);
	return b;
}

struct gp_block *gp_serve_at_once(struct gp_pool *pool, struct gp_cache *cache,
				  uint32_t granules)
{
	return is_small(granules) ? serve_small(pool, cache, granules)
				  : serve_large(pool, cache, granules);
}

int gp_serve_slowly(struct gp_pool *pool, struct gp_cache *cache,
		    uint32_t granules, struct gp_block **b)
{
	for (int i = 0; i < MAX_WAITS; i++) {
		int rc = *b ? 0 : serve(pool, cache, granules, b);

		if (rc || gp_order_reissue(&pool->order, (*b)->stamp) ||
		    gp_order_await(&pool->order, (*b)->stamp))
			return rc;
		gp_reclaim_set_aside(pool, *b); /* until it is waited for */
		*b = gp_serve_at_once(pool, cache, granules);
	}
	return -ENOMEM;
}
