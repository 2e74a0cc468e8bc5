/*
 * Giving back; see reclaim.h.
 *
 * Handles leave in small batches: HELD under the lock, unmapped and released
 * without it. What the driver refuses stays in the books: mapped (STUCK) or
 * not (an orphan), and is tried again by the next release.
 */
#include "pool/reclaim.h"

#include <stddef.h>

#include "pool/backing.h"
#include "pool/flight.h"
#include "pool/large.h"
#include "pool/state.h"
#include "stats/ring.h"

#define BATCH 16

void gp_reclaim_block(struct gp_pool *pool, struct gp_block *b)
{
	struct gp_slab *slab;

	gp_arena_at(&pool->arena, gp_block_granule(b), &slab);
	if (slab)
		gp_slab_give(pool, b);
	else
		gp_large_give(pool, b);
}

/* ---- blocks set aside ----------------------------------------------------- */

void gp_reclaim_set_aside(struct gp_pool *pool, struct gp_block *b)
{
	gp_lock(&pool->lock);
	gp_block_set_state(b, GP_SET_ASIDE);
	b->right = pool->aside;
	pool->aside = b;
	__atomic_fetch_add(&pool->num_aside, 1, __ATOMIC_RELAXED);
	pool->account.deferred++;
	gp_unlock(&pool->lock);
}

bool gp_reclaim_aside(struct gp_pool *pool)
{
	bool any = false;

	if (__atomic_load_n(&pool->num_aside, __ATOMIC_RELAXED) == 0)
		return false;
	gp_order_wait(&pool->order); /* what it does not cover stays aside */
	gp_lock(&pool->lock);
	for (struct gp_block **link = &pool->aside; *link;) {
		struct gp_block *b = *link;

		if (!gp_order_idle(&pool->order, b->stamp)) {
			link = &b->right;
			continue;
		}
		*link = b->right;
		b->right = NULL;
		__atomic_fetch_sub(&pool->num_aside, 1, __ATOMIC_RELAXED);
		gp_reclaim_block(pool, b);
		any = true;
	}
	gp_unlock(&pool->lock);
	return any;
}

/* ---- handles ---------------------------------------------------------------- */

struct batch {
	struct gp_handle *handles[BATCH];
	unsigned n;
};

/* What earlier calls left behind. */
static uint64_t take_leftovers(struct gp_pool *pool, struct batch *batch,
			       uint64_t bytes)
{
	uint64_t sum = 0;

	while (batch->n < BATCH && sum < bytes && pool->stuck) {
		struct gp_block *tile = pool->stuck;
		struct gp_handle *h =
			gp_backing_at(pool, gp_block_granule(tile));

		pool->stuck = tile->right;
		tile->right = NULL;
		gp_block_set_state(tile, GP_HELD);
		h->from = tile;
		h->where = GP_AT_OLD;
		batch->handles[batch->n++] = h;
		sum += gp_block_bytes(tile);
	}
	while (batch->n < BATCH && sum < bytes && pool->backing.orphans.head) {
		struct gp_handle *h = gp_backing_adopt(pool);

		h->from = NULL;
		h->where = GP_NOWHERE;
		batch->handles[batch->n++] = h;
		sum += (uint64_t)h->granules << GP_GRANULE_SHIFT;
	}
	return sum;
}

/* What a release is after. */
struct want {
	uint64_t bytes;  /* at least so much, if there is */
	uint64_t most;   /* and no more than this */
	uint64_t before; /* idle since then; UINT64_MAX: no matter */
};

static uint32_t granules_of(uint64_t bytes)
{
	uint64_t granules = bytes >> GP_GRANULE_SHIFT;

	return granules > UINT32_MAX ? UINT32_MAX : (uint32_t)granules;
}

/* The idle handle to release next, `sum` being chosen. */
static struct gp_handle *choose(struct gp_pool *pool, const struct want *want,
				uint64_t sum)
{
	if (want->before == UINT64_MAX)
		return gp_backing_pick(pool, granules_of(want->bytes - sum),
				       granules_of(want->most - sum));
	return gp_backing_oldest(pool, want->before);
}

static uint64_t take_idle(struct gp_pool *pool, struct batch *batch,
			  const struct want *want, uint64_t sum)
{
	while (batch->n < BATCH && sum < want->bytes) {
		struct gp_handle *h;

		if (gp_objects_reserve(&pool->arena.blocks, 4))
			break;
		h = choose(pool, want, sum);
		if (!h)
			break;
		h->from = gp_large_carve(pool, h->granule, h->granules);
		h->where = GP_AT_OLD;
		batch->handles[batch->n++] = h;
		sum += (uint64_t)h->granules << GP_GRANULE_SHIFT;
	}
	return sum;
}

static void give_back(struct gp_pool *pool, struct gp_handle *h)
{
	uint64_t bytes = (uint64_t)h->granules << GP_GRANULE_SHIFT;

	if (h->segment) {
		/* Unknown before it goes: the driver may hand the address out
		 * again at once, to another thread. */
		gp_registry_unmap(h);
		if (!gp_call_segment_free(pool, h->id, bytes))
			h->where = GP_GONE;
		else
			gp_registry_map(pool, h);
		return;
	}
	if (h->where == GP_AT_OLD &&
	    !gp_call_unmap(pool, gp_pool_address(pool, h->granule), bytes))
		h->where = GP_NOWHERE;
	if (h->where == GP_NOWHERE && !gp_call_release(pool, h->id, bytes))
		h->where = GP_GONE;
}

/* Returns the bytes that really went. */
static uint64_t settle(struct gp_pool *pool, struct gp_handle *h)
{
	uint64_t bytes = (uint64_t)h->granules << GP_GRANULE_SHIFT;
	struct gp_block *tile = h->from;

	h->from = NULL;
	if (h->where == GP_AT_OLD) {
		gp_block_set_state(tile, GP_STUCK);
		tile->right = pool->stuck;
		pool->stuck = tile;
		return 0;
	}
	if (tile) {
		gp_backing_detach(pool, h);
		gp_large_vacate(pool, tile);
	}
	if (h->where == GP_NOWHERE) {
		gp_backing_orphan(pool, h);
		return 0;
	}
	gp_backing_discount(pool, h);
	gp_objects_put(&pool->backing.handles, h);
	return bytes;
}

/* Nothing of a pool whose segments go with their context: while that is being
 * destroyed the driver may have given their addresses to others. */
static uint64_t take(struct gp_pool *pool, struct batch *batch,
		     const struct want *want, bool leftovers)
{
	uint64_t sum = 0;

	if (pool->leaves && !pool->has_vmm)
		return 0;
	if (leftovers)
		sum = take_leftovers(pool, batch, want->bytes);
	return sum < want->bytes ? take_idle(pool, batch, want, sum) : sum;
}

/* One batch. Returns the bytes given back; *took: the bytes tried. */
static uint64_t release_some(struct gp_pool *pool, const struct want *want,
			     bool leftovers, uint64_t *took)
{
	struct batch batch = {.n = 0};
	uint64_t given = 0;

	gp_lock(&pool->lock);
	*took = take(pool, &batch, want, leftovers);
	if (batch.n) {
		pool->releasing++;
		gp_flight_begin(pool);
		for (unsigned i = 0; i < batch.n; i++)
			give_back(pool, batch.handles[i]);
		gp_flight_end(pool);
		pool->releasing--;
		for (unsigned i = 0; i < batch.n; i++)
			given += settle(pool, batch.handles[i]);
	}
	gp_unlock(&pool->lock);
	return given;
}

static uint64_t release(struct gp_pool *pool, const struct want *want,
			bool leftovers)
{
	struct want rest = *want;
	uint64_t given = 0, took;

	while (given < want->bytes) {
		rest.bytes = want->bytes - given;
		rest.most = want->most - given;
		given += release_some(pool, &rest, leftovers, &took);
		if (!took)
			break;
		leftovers = false; /* each is tried once */
	}
	if (given) {
		gp_lock(&pool->lock);
		pool->account.trims++;
		gp_cache_publish_all(pool, NULL);
		gp_unlock(&pool->lock);
		gp_ring_add(GP_RING_trim, pool->driver.device, 0,
			    want->bytes == UINT64_MAX ? 0 : want->bytes, given,
			    __atomic_load_n(&pool->allocated, __ATOMIC_RELAXED),
			    __atomic_load_n(&pool->reserved, __ATOMIC_RELAXED));
	}
	return given;
}

uint64_t gp_reclaim_release(struct gp_pool *pool, uint64_t bytes,
			    uint64_t before)
{
	const struct want want = {
		.bytes = bytes,
		.most = UINT64_MAX,
		.before = before,
	};

	return release(pool, &want, true);
}

uint64_t gp_reclaim_within(struct gp_pool *pool, uint64_t bytes, uint64_t most)
{
	const struct want want = {
		.bytes = bytes < most ? bytes : most,
		.most = most,
		.before = UINT64_MAX,
	};

	return release(pool, &want, false);
}

void gp_reclaim_excess(struct gp_pool *pool, uint64_t bytes)
{
	uint64_t all = pool->driver.limit_bytes ? pool->driver.limit_bytes
						: pool->driver.total_bytes;
	double limit = pool->config.garbage_collection_threshold * (double)all;
	uint64_t reserved, clock;

	if (limit <= 0)
		return;
	gp_lock(&pool->lock);
	reserved = pool->account.reserved.current;
	clock = pool->clock;
	gp_unlock(&pool->lock);
	if ((double)(reserved + bytes) > limit)
		gp_reclaim_release(
			pool,
			(uint64_t)((double)(reserved + bytes) - limit) + 1,
			clock);
}
