/* Tiles, tree and handles in step; see large.h. */
#include "pool/large.h"

#include <stddef.h>

#include "pool/backing.h"
#include "pool/ranges.h"
#include "pool/state.h"

/* May two neighbouring free tiles be one? A segment never joins another. */
static bool joinable(const struct gp_pool *pool, const struct gp_block *a,
		     const struct gp_block *b)
{
	if (!a || !b || gp_block_state(a) != GP_FREE ||
	    gp_block_state(b) != GP_FREE)
		return false;
	return pool->has_vmm ||
	       gp_backing_at(pool, gp_block_granule(a)) ==
		       gp_backing_at(pool, gp_block_granule(b));
}

/* A tile that is FREE but in no tree. */
static void insert(struct gp_pool *pool, struct gp_block *b)
{
	if (joinable(pool, b, b->next)) {
		gp_ranges_remove(&pool->ranges, b->next);
		gp_tile_join(&pool->arena, b);
	}
	if (joinable(pool, b->prev, b)) {
		b = b->prev;
		gp_ranges_remove(&pool->ranges, b);
		gp_tile_join(&pool->arena, b);
	}
	gp_ranges_insert(&pool->ranges, b);
}

struct gp_block *gp_large_take(struct gp_pool *pool, uint32_t granules)
{
	struct gp_block *b = gp_ranges_best(&pool->ranges, granules);

	if (!b)
		return NULL;
	gp_ranges_remove(&pool->ranges, b);
	if (b->granules > granules) {
		struct gp_block *rest =
			gp_tile_split(&pool->arena, b, granules);

		gp_ranges_insert(&pool->ranges, rest);
	}
	gp_block_set_state(b, GP_HELD);
	gp_backing_use(pool, gp_block_granule(b), granules);
	return b;
}

void gp_large_give(struct gp_pool *pool, struct gp_block *b)
{
	gp_backing_unuse(pool, gp_block_granule(b), b->granules);
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

	gp_ranges_remove(&pool->ranges, b);
	if (gp_block_granule(b) < granule) {
		struct gp_block *front = b;

		b = gp_tile_split(
			&pool->arena, front,
			(uint32_t)(granule - gp_block_granule(front)));
		gp_ranges_insert(&pool->ranges, front);
	}
	if (b->granules > granules)
		gp_ranges_insert(&pool->ranges,
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
		pool->vacant = b->right;
	b->left = b->right = NULL;
}

static void list(struct gp_pool *pool, struct gp_block *b)
{
	b->left = NULL;
	b->right = pool->vacant;
	if (b->right)
		b->right->left = b;
	pool->vacant = b;
}

static bool vacant(const struct gp_block *b)
{
	return b && gp_block_state(b) == GP_VACANT;
}

void gp_large_vacate(struct gp_pool *pool, struct gp_block *b)
{
	b->stamp = 0;
	gp_block_set_state(b, GP_VACANT);
	if (vacant(b->next)) {
		unlist(pool, b->next);
		gp_tile_join(&pool->arena, b);
	}
	if (vacant(b->prev)) {
		b = b->prev;
		unlist(pool, b);
		gp_tile_join(&pool->arena, b);
	}
	list(pool, b);
}

void gp_large_claim(struct gp_pool *pool, struct gp_block *b)
{
	unlist(pool, b);
	gp_block_set_state(b, GP_HELD);
}

void gp_large_hold(struct gp_pool *pool, struct gp_block *b)
{
	gp_ranges_remove(&pool->ranges, b);
	gp_block_set_state(b, GP_HELD);
	gp_backing_use(pool, gp_block_granule(b), b->granules);
}
