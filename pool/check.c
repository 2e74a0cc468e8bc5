/*
 * Every invariant of the pool, checked. For tests and debugging: slow.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "pool/state.h"

struct check {
	struct gp_pool *pool;
	char *why;
	size_t size;
	int rc;
	uint64_t free_ranges, free_granules, backed, live;
};

static void __attribute__((format(printf, 2, 3)))
fail(struct check *c, const char *format, ...)
{
	va_list args;

	if (c->rc)
		return;
	c->rc = -EINVAL;
	va_start(args, format);
	vsnprintf(c->why, c->size, format, args);
	va_end(args);
}

static void check_tile(struct check *c, const struct gp_block *b,
		       uint64_t expected)
{
	enum gp_state state = gp_block_state(b);

	if (gp_block_granule(b) != expected)
		fail(c, "a tile starts at granule %llu, expected %llu",
		     (unsigned long long)gp_block_granule(b),
		     (unsigned long long)expected);
	if (b->granules == 0 || b->granules % GP_UNIT_GRANULES)
		fail(c, "tile %llu is not whole units",
		     (unsigned long long)expected);
	if (b->next && b->next->prev != b)
		fail(c, "tile %llu: its neighbour does not know it",
		     (unsigned long long)expected);
	if (state == GP_FREE) {
		c->free_ranges++;
		c->free_granules += b->granules;
	}
	if (state != GP_VACANT)
		c->backed += b->granules;
	if (b->next && state == gp_block_state(b->next) &&
	    (state == GP_VACANT || (state == GP_FREE && c->pool->has_vmm)))
		fail(c, "tiles at %llu could be one",
		     (unsigned long long)expected);
}

int gp_pool_check(struct gp_pool *pool, char *why, size_t why_size)
{
	struct check c = {.pool = pool, .why = why, .size = why_size};
	uint64_t at = 0;

	gp_lock(&pool->lock);
	for (struct gp_block *b = pool->arena.first; b && !c.rc; b = b->next) {
		check_tile(&c, b, at);
		at += b->granules;
	}
	if (at != pool->arena_bytes >> GP_GRANULE_SHIFT)
		fail(&c, "tiles do not cover the arena");
	if (c.free_ranges != pool->ranges.count ||
	    c.free_granules != pool->ranges.granules)
		fail(&c, "the tree holds %llu ranges, the arena has %llu",
		     (unsigned long long)pool->ranges.count,
		     (unsigned long long)c.free_ranges);
	gp_unlock(&pool->lock);
	return c.rc;
}
