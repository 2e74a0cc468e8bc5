/*
 * Every invariant of the pool, checked: tiles, bins, sums; see check.h.
 * For tests and debugging: the cost follows the number of blocks.
 */
#include "pool/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "pool/state.h"

typedef unsigned long long ull;

void gp_check_fail(struct gp_check *c, const char *format, ...)
{
	va_list args;

	if (c->rc)
		return;
	c->rc = -EINVAL;
	va_start(args, format);
	vsnprintf(c->why, c->why_size, format, args);
	va_end(args);
}

static void add_live(struct gp_check *c, const struct gp_block *b)
{
	const uint64_t amounts[GP_M_LARGE] = {
		[GP_M_ALLOCATED] = gp_block_bytes(b),
		[GP_M_REQUESTED] =
			__atomic_load_n(&b->requested, __ATOMIC_RELAXED),
		[GP_M_COUNT] = 1,
	};

	for (int m = 0; m < GP_M_LARGE; m++) {
		c->live[m] += amounts[m];
		if (gp_block_bytes(b) >= GP_LARGE_FROM)
			c->live[GP_M_LARGE + m] += amounts[m];
	}
}

void gp_check_block(struct gp_check *c, struct gp_block *b)
{
	switch (gp_block_state(b)) {
	case GP_LIVE:
	case GP_GUARDED:
	case GP_NOTED:
		add_live(c, b);
		if ((b->owner & ~GP_WATCHED) >= c->pool->num_caches)
			gp_check_fail(c, "block %llu has no such owner",
				      (ull)gp_block_granule(b));
		break;
	case GP_CACHED:
		c->cached++;
		break;
	case GP_SET_ASIDE:
		c->aside++;
		break;
	case GP_LENT:
		c->lent++;
		break;
	case GP_HELD:
		c->held++;
		break;
	default:
		gp_check_fail(c, "block %llu in state %d",
			      (ull)gp_block_granule(b), gp_block_state(b));
	}
}

/* ---- tiles ------------------------------------------------------------------ */

static void check_free_tile(struct gp_check *c, struct gp_block *b)
{
	const struct gp_ranges *ranges = &gp_pool_region(c->pool, b)->ranges;
	struct gp_block *found;

	c->free_ranges++;
	c->free_granules += b->granules;
	if (b->stamp > gp_order_made(&c->pool->order) + 1)
		gp_check_fail(c, "free range %llu waits for no mark",
			      (ull)gp_block_granule(b));
	found = gp_ranges_best(ranges, b->granules);
	while (found && found != b && found->granules == b->granules)
		found = gp_ranges_next(ranges, found);
	if (found != b)
		gp_check_fail(c, "free range %llu is in no bin",
			      (ull)gp_block_granule(b));
}

static void check_state(struct gp_check *c, struct gp_block *b)
{
	switch (gp_block_state(b)) {
	case GP_VACANT:
		c->vacant++;
		break;
	case GP_FREE:
		check_free_tile(c, b);
		break;
	case GP_SLAB:
		c->slabs++;
		gp_check_slab(c, b);
		break;
	case GP_STUCK:
		c->stuck++;
		break;
	default:
		gp_check_block(c, b);
	}
}

static void check_place(struct gp_check *c, const struct gp_block *b,
			uint64_t expected)
{
	const struct gp_arena *arena = &c->pool->arena;
	uint64_t last = gp_block_end(b) - 1;
	struct gp_slab *slab;
	struct gp_block *at = gp_arena_at(arena, expected, &slab);

	if (gp_block_granule(b) != expected)
		gp_check_fail(c, "a tile starts at granule %llu, not at %llu",
			      (ull)gp_block_granule(b), (ull)expected);
	if (b->granules == 0 || b->granules % GP_UNIT_GRANULES)
		gp_check_fail(c, "tile %llu is not whole units", (ull)expected);
	if (b->next && b->next->prev != b)
		gp_check_fail(c, "tile %llu: the next does not know it",
			      (ull)expected);
	if (gp_block_state(b) == GP_SLAB) {
		if (!slab || slab->tile != b)
			gp_check_fail(c, "slab %llu is not in the table",
				      (ull)expected);
	} else if (at != b || gp_arena_around(arena, last) != b) {
		gp_check_fail(c, "tile %llu cannot be found", (ull)expected);
	}
}

static bool should_join(struct gp_pool *pool, const struct gp_block *b)
{
	enum gp_state state = gp_block_state(b);

	if (!b->next || gp_block_state(b->next) != state ||
	    !gp_pool_same_region(pool, b->next))
		return false;
	if (state == GP_VACANT)
		return true;
	return state == GP_FREE &&
	       (pool->has_vmm ||
		gp_backing_at(pool, gp_block_granule(b)) ==
			gp_backing_at(pool, gp_block_granule(b->next)));
}

static void check_tiles(struct gp_check *c)
{
	struct gp_pool *pool = c->pool;
	uint64_t at = 0, granules = 0, ranges = 0;

	for (struct gp_block *b = pool->arena.first; b && !c->rc; b = b->next) {
		check_place(c, b, at);
		check_state(c, b);
		if (should_join(pool, b))
			gp_check_fail(c, "tiles at %llu could be one", (ull)at);
		at += b->granules;
	}
	if (at != pool->arena_bytes >> GP_GRANULE_SHIFT)
		gp_check_fail(c, "tiles do not cover the arena");
	for (int i = 0; i < GP_NUM_REGIONS; i++) {
		const struct gp_ranges *r = &pool->regions[i].ranges;

		for (const struct gp_block *b = gp_ranges_best(r, 0);
		     b && ranges <= c->free_ranges; b = gp_ranges_next(r, b)) {
			ranges++;
			granules += b->granules;
		}
	}
	if (c->free_ranges != ranges || c->free_granules != granules)
		gp_check_fail(c, "bins have %llu ranges, not %llu", (ull)ranges,
			      (ull)c->free_ranges);
	if (c->slabs != pool->slabs.count)
		gp_check_fail(c, "%llu slabs, counted %llu",
			      (ull)pool->slabs.count, (ull)c->slabs);
}

/* ---- sums --------------------------------------------------------------------- */

/* Exact when no thread is in the middle of something. */
static void check_sums(struct gp_check *c)
{
	const struct gp_pool *pool = c->pool;
	int64_t sum[GP_M_NUM], levels[GP_M_NUM];

	gp_tally_levels(&pool->tally, sum);
	for (uint32_t i = 1; i < pool->num_caches; i++) {
		gp_tally_levels(&pool->caches[i]->tally, levels);
		for (int m = 0; m < GP_M_NUM; m++)
			sum[m] += levels[m];
	}
	for (int m = 0; m < GP_M_NUM; m++) {
		uint64_t now = pool->account.sum[m].current + (uint64_t)sum[m];

		if (now != c->live[m])
			gp_check_fail(c, "measure %d is %llu, blocks say %llu",
				      m, (ull)now, (ull)c->live[m]);
	}
}

int gp_pool_check(struct gp_pool *pool, char *why, size_t why_size)
{
	struct gp_check c = {.pool = pool, .why = why, .why_size = why_size};
	uint64_t loose;

	gp_lock(&pool->lock);
	gp_slabs_lock(&pool->slabs);
	for (uint32_t i = 1; i < pool->num_caches; i++)
		gp_cache_lock(pool->caches[i]);
	check_tiles(&c);
	if (!c.rc)
		gp_check_bins(&c);
	if (!c.rc)
		gp_check_handles(&c);
	if (!c.rc)
		gp_check_lists(&c); /* takes what it finds off the counts */
	loose = c.held + c.cached + c.aside;
	if (!c.rc && loose == 0)
		check_sums(&c);
	for (uint32_t i = 1; i < pool->num_caches; i++)
		gp_cache_unlock(pool->caches[i]);
	gp_slabs_unlock(&pool->slabs);
	gp_unlock(&pool->lock);
	return c.rc;
}
