/* Counted and timed driver calls; see calls.h. */
#include "pool/calls.h"

#include "pool/lock.h"
#include "pool/state.h"
#include "stats/ring.h"

static uint64_t begin(struct gp_pool *pool)
{
	gp_rank_assert_none();
	return pool->driver.ops->now(pool->driver.dev);
}

static int end(struct gp_pool *pool, enum gp_timed_call call, uint64_t start,
	       int rc)
{
	uint64_t now = pool->driver.ops->now(pool->driver.dev);
	struct gp_call_stat *stat = &pool->counters.of[call];

	__atomic_fetch_add(&stat->calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&stat->ns, now - start, __ATOMIC_RELAXED);
	return rc;
}

void gp_call_figures(struct gp_pool *pool,
		     struct gp_call_stat figures[GP_TIMED_COUNT])
{
	for (int i = 0; i < GP_TIMED_COUNT; i++) {
		const struct gp_call_stat *stat = &pool->counters.of[i];

		figures[i].calls =
			__atomic_load_n(&stat->calls, __ATOMIC_RELAXED);
		figures[i].ns = __atomic_load_n(&stat->ns, __ATOMIC_RELAXED);
	}
}

/* What lies behind addresses has changed. */
static void note(const struct gp_pool *pool, enum gp_ring_kind kind,
		 uint64_t va, uint64_t bytes)
{
	gp_ring_add(kind, pool->driver.device, va, 0, bytes,
		    __atomic_load_n(&pool->allocated, __ATOMIC_RELAXED),
		    __atomic_load_n(&pool->reserved, __ATOMIC_RELAXED));
}

int gp_call_reserve(struct gp_pool *pool, uint64_t bytes, uint64_t *va)
{
	uint64_t start = begin(pool);

	return end(pool, GP_TIMED_reserve, start,
		   pool->driver.ops->reserve(pool->driver.dev, bytes, va));
}

int gp_call_unreserve(struct gp_pool *pool, uint64_t va, uint64_t bytes)
{
	uint64_t start = begin(pool);

	return end(pool, GP_TIMED_unreserve, start,
		   pool->driver.ops->unreserve(pool->driver.dev, va, bytes));
}

int gp_call_create(struct gp_pool *pool, uint64_t bytes, uint64_t *handle)
{
	uint64_t start = begin(pool);

	return end(pool, GP_TIMED_create, start,
		   pool->driver.ops->create(pool->driver.dev, bytes, handle));
}

int gp_call_release(struct gp_pool *pool, uint64_t handle, uint64_t bytes)
{
	uint64_t start = begin(pool);

	return end(pool, GP_TIMED_release, start,
		   pool->driver.ops->release(pool->driver.dev, handle, bytes));
}

int gp_call_map(struct gp_pool *pool, uint64_t va, uint64_t bytes,
		uint64_t handle)
{
	uint64_t start = begin(pool);
	int rc =
		end(pool, GP_TIMED_map, start,
		    pool->driver.ops->map(pool->driver.dev, va, bytes, handle));

	if (!rc)
		note(pool, GP_RING_segment_map, va, bytes);
	return rc;
}

int gp_call_set_access(struct gp_pool *pool, uint64_t va, uint64_t bytes)
{
	uint64_t start = begin(pool);

	return end(pool, GP_TIMED_set_access, start,
		   pool->driver.ops->set_access(pool->driver.dev, va, bytes));
}

int gp_call_unmap(struct gp_pool *pool, uint64_t va, uint64_t bytes)
{
	uint64_t start = begin(pool);
	int rc = end(pool, GP_TIMED_unmap, start,
		     pool->driver.ops->unmap(pool->driver.dev, va, bytes));

	if (!rc)
		note(pool, GP_RING_segment_unmap, va, bytes);
	return rc;
}

int gp_call_segment_alloc(struct gp_pool *pool, uint64_t bytes, uint64_t *va)
{
	uint64_t start = begin(pool);
	int rc = end(
		pool, GP_TIMED_segment_alloc, start,
		pool->driver.ops->segment_alloc(pool->driver.dev, bytes, va));

	if (!rc)
		note(pool, GP_RING_segment_alloc, *va, bytes);
	return rc;
}

int gp_call_segment_free(struct gp_pool *pool, uint64_t va, uint64_t bytes)
{
	uint64_t start = begin(pool);
	int rc;

	/* Before: afterwards the address may be another thread's at once. */
	note(pool, GP_RING_segment_free, va, bytes);
	rc = end(pool, GP_TIMED_segment_free, start,
		 pool->driver.ops->segment_free(pool->driver.dev, va, bytes));
	if (rc)
		note(pool, GP_RING_segment_alloc, va, bytes);
	return rc;
}

uint64_t gp_call_now(struct gp_pool *pool)
{
	return pool->driver.ops->now(pool->driver.dev);
}
