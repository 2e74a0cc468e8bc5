/* Tiles, free ranges and handles in step; see large.h. */
#include "pool/large.h"

#include <errno.h>
#include <stddef.h>

#include "pool/backing.h"
#include "pool/ranges.h"
#include "pool/state.h"

/* Where the regions end, eighths of the arena: each can hold about all of the
 * device's memory. */
static const unsigned shares[GP_NUM_REGIONS] = {
	[GP_REGION_LARGE] = 7,
	[GP_REGION_SLABS] = 8,
};

/* How many ranges are compared; and what part of how much larger one is counts
 * as much as idle memory that is broken into. */
#define LOOKS        8
#define LARGER_PARTS 1000

/* May two neighbouring free tiles be one? A segment never joins another. */
static inline bool joinable(struct gp_pool *pool, const struct gp_block *a,
			    const struct gp_block *b)
{
	if (!a || !b || gp_block_state(a) != GP_FREE ||
	    gp_block_state(b) != GP_FREE || !gp_pool_same_region(pool, b))
		return false;
	return pool->has_vmm ||
	       gp_backing_at(pool, gp_block_granule(a)) ==
		       gp_backing_at(pool, gp_block_granule(b));
}

/* A tile that is FREE but in no bin. */
static void insert(struct gp_pool *pool, struct gp_block *b)
{
	struct gp_ranges *ranges = &gp_pool_region(pool, b)->ranges;

	if (joinable(pool, b, b->next)) {
		gp_ranges_remove(ranges, b->next);
		gp_tile_join(&pool->arena, b);
	}
	if (joinable(pool, b->prev, b)) {
		b = b->prev;
		gp_ranges_remove(ranges, b);
		gp_tile_join(&pool->arena, b);
	}
	gp_ranges_insert(ranges, b);
}

static bool is_vacant(const struct gp_block *b)
{
	return b && gp_block_state(b) == GP_VACANT;
}

/* Idle memory that a block would break into: it cannot move any more. The block's
 * own size at least: to break a small handle is no gain over a large one that
 * the block fills. Stops to count at `enough`. */
static inline uint64_t damage(const struct gp_pool *pool, uint64_t granule,
			      uint32_t granules, uint64_t enough)
{
	const struct gp_handle *h = gp_backing_at(pool, granule);
	uint64_t end = granule + granules;
	uint64_t sum = h->used ? 0 : h->granules;

	while ((granule = h->granule + h->granules) < end && sum < enough) {
		h = gp_backing_at(pool, granule);
		if (h->used == 0)
			sum += h->granules;
	}
	return sum && sum < granules ? granules : sum;
}

/* The range to take, and whether at its high end: of those that fit best the
 * one where the least idle memory is broken into, but not a huge one for a
 * little less. What is left should stay beside vacant addresses, where it can
 * grow. */
static struct gp_block *choose(struct gp_pool *pool,
			       const struct gp_region *region,
			       uint32_t granules, bool *high)
{
	struct gp_block *best = NULL;
	struct gp_block *b = gp_ranges_best(&region->ranges, granules);
	uint32_t fits = b ? b->granules : 0;
	uint64_t least = UINT64_MAX;

	for (int i = 0; b && i < LOOKS; i++) {
		uint64_t larger = (b->granules - fits) / LARGER_PARTS;

		if (larger >= least)
			break;
		uint64_t at_low = damage(pool, gp_block_granule(b), granules,
					 least - larger);
		uint64_t at_high =
			b->granules == granules
				? at_low
				: damage(pool, gp_block_end(b) - granules,
					 granules, least - larger);
		uint64_t less = at_low < at_high ? at_low : at_high;

		if (less + larger < least) {
			best = b;
			*high = at_high < at_low ||
				(at_high == at_low && is_vacant(b->prev) &&
				 !is_vacant(b->next));
			least = less + larger;
			if (least == 0)
				break;
		}
		b = gp_ranges_next(&region->ranges, b);
	}
	return best;
}

static inline void hold(struct gp_pool *pool, struct gp_region *region,
			struct gp_block *b)
{
	gp_ranges_remove(&region->ranges, b);
	gp_block_set_state(b, GP_HELD);
	gp_backing_use(pool, gp_block_granule(b), b->granules);
}

void gp_large_hold(struct gp_pool *pool, struct gp_block *b)
{
	hold(pool, gp_pool_region(pool, b), b);
}

/* Of ranges that do not fit exactly, or that nothing else keeps in place. */
static __attribute__((noinline)) struct gp_block *
take_part(struct gp_pool *pool, struct gp_region *region, uint32_t granules)
{
	bool high = false;
	struct gp_block *b = choose(pool, region, granules, &high);

	gp_ranges_remove(&region->ranges, b);
	if (b->granules > granules) {
		struct gp_block *rest =
			gp_tile_split(&pool->arena, b,
				      high ? b->granules - granules : granules);

		gp_ranges_insert(&region->ranges, high ? b : rest);
		b = high ? rest : b;
	}
	gp_block_set_state(b, GP_HELD);
	gp_backing_use(pool, gp_block_granule(b), granules);
	return b;
}

struct gp_block *gp_large_take(struct gp_pool *pool, struct gp_region *region,
			       uint32_t granules)
{
	struct gp_block *b = gp_ranges_best(&region->ranges, granules);

	if (!b)
		return NULL;
	/* The best there can be. */
	if (b->granules == granules &&
	    damage(pool, gp_block_granule(b), granules, 1) == 0) {
		hold(pool, region, b);
		return b;
	}
	return take_part(pool, region, granules);
}

struct gp_block *gp_large_scrap(struct gp_pool *pool, struct gp_region *region,
				uint32_t granules)
{
	struct gp_block *b = gp_ranges_best(&region->ranges, granules);

	if (!b || b->granules >= GP_SLAB_GRANULES)
		return NULL;
	gp_large_hold(pool, b);
	return b;
}

void gp_large_give(struct gp_pool *pool, struct gp_block *b)
{
	gp_backing_unuse(pool, gp_block_granule(b), b->granules, b->stamp);
	gp_block_set_state(b, GP_FREE);
	insert(pool, b);
}

void gp_large_shrink(struct gp_pool *pool, struct gp_block *b,
		     uint32_t granules)
{
	if (b->granules > granules &&
	    !gp_objects_reserve(&pool->arena.blocks, 1))
		gp_large_give(pool, gp_tile_split(&pool->arena, b, granules));
}

struct gp_block *gp_large_carve(struct gp_pool *pool, uint64_t granule,
				uint32_t granules)
{
	struct gp_block *b = gp_arena_around(&pool->arena, granule);
	struct gp_ranges *ranges = &gp_pool_region(pool, b)->ranges;

	gp_ranges_remove(ranges, b);
	if (gp_block_granule(b) < granule) {
		struct gp_block *front = b;

		b = gp_tile_split(
			&pool->arena, front,
			(uint32_t)(granule - gp_block_granule(front)));
		gp_ranges_insert(ranges, front);
	}
	if (b->granules > granules)
		gp_ranges_insert(ranges,
				 gp_tile_split(&pool->arena, b, granules));
	gp_block_set_state(b, GP_HELD);
	gp_backing_use(pool, granule, granules);
	return b;
}

/* ---- vacant tiles ---------------------------------------------------------- */

static void unlist(struct gp_pool *pool, struct gp_block *b)
{
	if (b->right)
		b->right->left = b->left;
	if (b->left)
		b->left->right = b->right;
	else
		gp_pool_region(pool, b)->vacant = b->right;
	b->left = b->right = NULL;
}

static void list(struct gp_pool *pool, struct gp_block *b)
{
	struct gp_region *region = gp_pool_region(pool, b);

	b->left = NULL;
	b->right = region->vacant;
	if (b->right)
		b->right->left = b;
	region->vacant = b;
}

static bool vacant_pair(struct gp_pool *pool, const struct gp_block *a,
			const struct gp_block *b)
{
	return is_vacant(a) && is_vacant(b) && gp_pool_same_region(pool, b);
}

void gp_large_vacate(struct gp_pool *pool, struct gp_block *b)
{
	b->stamp = 0;
	gp_block_set_state(b, GP_VACANT);
	if (vacant_pair(pool, b, b->next)) {
		unlist(pool, b->next);
		gp_tile_join(&pool->arena, b);
	}
	if (vacant_pair(pool, b->prev, b)) {
		b = b->prev;
		unlist(pool, b);
		gp_tile_join(&pool->arena, b);
	}
	list(pool, b);
}

int gp_large_init(struct gp_pool *pool)
{
	uint64_t chunk = gp_backing_chunk(&pool->backing);
	struct gp_block *b = pool->arena.first;
	uint64_t at = 0, granules = b->granules;

	if (gp_objects_reserve(&pool->arena.blocks, GP_NUM_REGIONS))
		return -ENOMEM;
	for (int i = 0; i < GP_NUM_REGIONS; i++) {
		struct gp_region *region = &pool->regions[i];

		region->first = at;
		region->end = granules * shares[i] / 8 / chunk * chunk;
		at = region->end;
		if (region->end == region->first)
			return -EINVAL;
		struct gp_block *next = NULL;

		if (i + 1 < GP_NUM_REGIONS)
			next = gp_tile_split(&pool->arena, b,
					     (uint32_t)(at - region->first));
		list(pool, b);
		b = next;
	}
	return 0;
}

void gp_large_claim(struct gp_pool *pool, struct gp_block *b)
{
	unlist(pool, b);
	gp_block_set_state(b, GP_HELD);
}
