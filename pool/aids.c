/* Debug aids; see aids.h. */
#include "pool/aids.h"

#include <stdlib.h>

#include "pool/state.h"

static uint64_t up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

enum gp_state gp_aids_live(const struct gp_pool *pool)
{
	return pool->config.guard ? GP_GUARDED : GP_LIVE;
}

/* The alignment of the block is that of what the program gets. */
uint64_t gp_aids_front(const struct gp_pool *pool, uint64_t bytes)
{
	return up(pool->config.guard,
		  bytes < GP_LARGE_FROM ? GP_ALIGN_SMALL : GP_ALIGN_LARGE);
}

uint64_t gp_aids_around(const struct gp_pool *pool, uint64_t bytes)
{
	return gp_aids_front(pool, bytes) + pool->config.guard;
}

int gp_aids_handed_out(struct gp_pool *pool, uint64_t va, uint64_t bytes)
{
	const uint64_t guard = pool->config.guard;
	const struct gp_fill fills[] = {
		{va, pool->config.zero ? bytes : 0, 0},
		{va - guard, guard, GP_GUARD_BYTE},
		{va + bytes, guard, GP_GUARD_BYTE},
	};

	if (!pool->config.zero && !guard)
		return 0;
	return gp_order_fill(&pool->order, fills, 3, NULL);
}

/* Looks at a zone that starts so far from the block's first byte. */
static void look(struct gp_damage *damage, const uint8_t *zone, int64_t from)
{
	for (uint64_t i = 0; i < damage->guard; i++) {
		if (zone[i] == GP_GUARD_BYTE)
			continue;
		if (!damage->wrong++)
			damage->first = from + (int64_t)i;
	}
}

static void check(struct gp_pool *pool, const struct gp_block *b, uint64_t va)
{
	const uint64_t guard = pool->config.guard;
	struct gp_damage damage = {
		.va = va,
		.bytes = b->requested,
		.guard = guard,
		.device = pool->driver.device,
	};
	uint8_t *zones = malloc(2 * guard);

	/* Where the driver will not say, it has worse to tell. */
	if (zones &&
	    !gp_order_read(&pool->order, b->stamp, va - guard, guard, zones) &&
	    !gp_order_read(&pool->order, b->stamp, va + b->requested, guard,
			   zones + guard)) {
		look(&damage, zones, -(int64_t)guard);
		look(&damage, zones + guard, (int64_t)b->requested);
	}
	free(zones);
	if (damage.wrong && pool->config.damaged)
		pool->config.damaged(&damage);
}

void gp_aids_freed(struct gp_pool *pool, struct gp_block *b, uint64_t va,
		   bool idle)
{
	const struct gp_fill fill = {va, b->requested, GP_POISON_BYTE};

	if (!idle)
		return;
	if (pool->config.guard)
		check(pool, b, va);
	if (pool->config.poison)
		gp_order_fill(&pool->order, &fill, 1, &b->stamp);
}
