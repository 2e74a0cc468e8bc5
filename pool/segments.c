/*
 * Classic segments; see segments.h.
 *
 * The rules, as PyTorch's allocator has them: small requests share segments of
 * 2 MiB; requests below 10 MiB get a segment of large_segment_size, larger
 * ones their own. A block is split when the request is below max_split_size
 * and more than 1 MiB is left. Requests below max_split_size never take a
 * block from there on, those above never one that is larger by
 * max_non_split_rounding. (Small is what is below 1 MiB: from there on addresses
 * are aligned to more than PyTorch's.)
 */
#include "pool/segments.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "pool/backing.h"
#include "pool/flight.h"
#include "pool/large.h"
#include "pool/registry.h"
#include "pool/state.h"

#define OWN_SEGMENT_FROM (10u << 20)
#define MIN_REST         (1u << 20)

/* How many vacant stretches are looked at. */
#define LOOKS            256

static uint64_t bytes_of(uint32_t granules)
{
	return (uint64_t)granules << GP_GRANULE_SHIFT;
}

/* Hands out what the rules leave over. */
static void split(struct gp_pool *pool, struct gp_block *b, uint32_t granules)
{
	if (bytes_of(granules) < pool->config.max_split_size &&
	    bytes_of(b->granules - granules) > MIN_REST)
		gp_large_shrink(pool, b, granules);
}

static bool allowed(const struct gp_pool *pool, const struct gp_block *b,
		    uint32_t granules)
{
	uint64_t most = pool->config.max_split_size;
	uint64_t bytes = bytes_of(granules);

	if (bytes < most)
		return gp_block_bytes(b) < most;
	return gp_block_bytes(b) < bytes + pool->config.max_non_split_rounding;
}

struct gp_block *gp_segment_take(struct gp_pool *pool, uint32_t granules,
				 bool slab)
{
	struct gp_region *region =
		&pool->regions[slab ? GP_REGION_SLABS : GP_REGION_LARGE];
	struct gp_block *b = gp_ranges_best(&region->ranges, granules);

	if (!b ||
	    (slab ? b->granules != granules : !allowed(pool, b, granules)))
		return NULL;
	gp_large_hold(pool, b);
	split(pool, b, granules);
	return b;
}

/* Bytes of the segment for a request. */
static uint64_t segment_bytes(const struct gp_pool *pool, uint32_t granules,
			      bool slab)
{
	uint64_t chunk = pool->driver.granularity;
	uint64_t bytes = bytes_of(granules);

	if (!slab && bytes < OWN_SEGMENT_FROM)
		bytes = pool->config.large_segment_size;
	if (!slab && pool->config.growth_factor > 1.0)
		bytes = (uint64_t)((double)bytes * pool->config.growth_factor);
	return (bytes + chunk - 1) / chunk * chunk;
}

/* A HELD tile without memory; NULL when the numbers have run out. */
static struct gp_block *claim(struct gp_pool *pool,
			      const struct gp_region *region, uint64_t bytes)
{
	struct gp_block *best = NULL;
	struct gp_block *v = region->vacant;

	for (int i = 0; v && i < LOOKS; v = v->right, i++)
		if (gp_block_bytes(v) >= bytes &&
		    (!best || v->granules < best->granules))
			best = v;
	if (!best || gp_objects_reserve(&pool->arena.blocks, 8))
		return NULL;
	gp_large_claim(pool, best);
	if (gp_block_bytes(best) > bytes)
		gp_large_vacate(
			pool,
			gp_tile_split(&pool->arena, best,
				      (uint32_t)(bytes >> GP_GRANULE_SHIFT)));
	return best;
}

/* The driver call, without the lock. */
static int obtain(struct gp_pool *pool, struct gp_handle *h)
{
	uint64_t bytes = bytes_of(h->granules);
	int rc;

	gp_flight_begin(pool);
	rc = gp_call_segment_alloc(pool, bytes, &h->id);
	if (!rc && gp_registry_map(pool, h)) {
		/* Not an address that the table can hold; should the driver
		 * not take it back either, it is lost. */
		gp_call_segment_free(pool, h->id, bytes);
		rc = -EIO;
	}
	gp_flight_end(pool);
	return rc;
}

static bool may_give_back(const struct gp_pool *pool)
{
	return pool->backing.idle_granules || pool->stuck;
}

int gp_segment_grow(struct gp_pool *pool, uint32_t granules, bool slab,
		    struct gp_block **result)
{
	struct gp_handle *h = gp_objects_get(&pool->backing.handles);
	struct gp_block *tile;
	int rc;

	if (!h)
		return -ENOMEM;
	tile = claim(pool,
		     &pool->regions[slab ? GP_REGION_SLABS : GP_REGION_LARGE],
		     segment_bytes(pool, granules, slab));
	if (!tile) {
		gp_objects_put(&pool->backing.handles, h);
		return -ENOMEM;
	}
	*h = (struct gp_handle){
		.granules = tile->granules,
		.granule = gp_block_granule(tile),
		.segment = true,
	};
	rc = obtain(pool, h);
	if (rc) {
		gp_objects_put(&pool->backing.handles, h);
		gp_large_vacate(pool, tile);
		return rc == -ENOMEM && may_give_back(pool) ? -EAGAIN : rc;
	}
	gp_backing_attach(pool, h, gp_block_granule(tile));
	gp_backing_count(pool, h);
	split(pool, tile, granules);
	*result = tile;
	return 0;
}
