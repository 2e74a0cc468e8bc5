/* The choice of a place; see place.h. */
#include "pool/place.h"

#include <stddef.h>

#include "pool/backing.h"
#include "pool/state.h"

/* How many vacant stretches are looked at. */
#define LOOKS     256

/* Requests from here on, bytes, may get room around them. */
#define HUGE_FROM (256u << 20)

static uint32_t free_granules(const struct gp_block *b)
{
	return b && gp_block_state(b) == GP_FREE ? b->granules : 0;
}

static void better(struct gp_place *best, struct gp_place place)
{
	if (!best->vacant || place.missing < best->missing ||
	    (place.missing == best->missing &&
	     place.vacant->granules < best->vacant->granules))
		*best = place;
}

/* How one stretch would serve. */
static void consider(struct gp_pool *pool, struct gp_place *best,
		     struct gp_block *v, uint32_t granules)
{
	uint32_t front = 0, back = 0;

	if (gp_pool_same_region(pool, v))
		front = free_granules(v->prev);
	if (v->next && gp_pool_same_region(pool, v->next))
		back = free_granules(v->next);
	uint32_t with_front =
		gp_backing_round(&pool->backing, granules - front);
	uint32_t with_back = gp_backing_round(&pool->backing, granules - back);

	if (with_front <= v->granules)
		better(best, (struct gp_place){
				     .vacant = v,
				     .missing = with_front,
				     .front = front != 0,
			     });
	else if ((uint64_t)front + v->granules + back >= granules)
		better(best, (struct gp_place){
				     .vacant = v,
				     .missing = v->granules,
				     .front = front != 0,
				     .back = true,
			     });
	if (back > front && with_back <= v->granules)
		better(best, (struct gp_place){
				     .vacant = v,
				     .missing = with_back,
				     .back = true,
				     .at_end = true,
			     });
}

struct gp_place gp_place_choose(struct gp_pool *pool,
				const struct gp_region *region,
				uint32_t granules)
{
	struct gp_block *last = gp_arena_around(&pool->arena, region->end - 1);
	struct gp_block *v = region->vacant;
	uint32_t whole = gp_backing_round(&pool->backing, granules);
	struct gp_place best = {0};

	for (int i = 0; v && i < LOOKS; v = v->right, i++)
		consider(pool, &best, v, granules);
	if (!last || gp_block_state(last) != GP_VACANT)
		return best;
	consider(pool, &best, last, granules);
	if (granules >= HUGE_FROM >> GP_GRANULE_SHIFT &&
	    best.missing > granules / 2 && last->granules / 8 > whole)
		best = (struct gp_place){
			.vacant = last,
			.missing = whole,
			.spacer = whole,
		};
	return best;
}
