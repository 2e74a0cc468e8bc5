/*
 * Figures of a pool of the driver's; see driver_pool.h. What it reserves is
 * what the driver says; of the rounding inside nothing is known.
 */
#include "shim/driver_pool.h"

#include <string.h>

#include "conf/conf.h"
#include "pool/account.h"
#include "shim/async_impl.h"
#include "shim/context.h"
#include "shim/state.h"
#include "stats/clock.h"
#include "stats/ring.h"

static void raise(uint64_t *to, uint64_t value)
{
	if (*to < value)
		*to = value;
}

/* Under the lock: what it reserves, as last told. A free that has not been
 * reached in its stream yet holds more than is allocated; a figure may be
 * older than the last allocation. */
static void observe(struct gp_driver_pool *pool)
{
	uint64_t reserved = gp_async_reserved(pool->known);

	if (reserved < pool->allocated.current)
		reserved = pool->allocated.current;
	gp_stat_observe(&pool->reserved, reserved);
	raise(&pool->most_reserved, reserved);
	raise(&pool->most_allocated, pool->allocated.current);
	raise(&pool->section.reserved, reserved);
	raise(&pool->section.allocated, pool->allocated.current);
}

static void add_point(struct gp_driver_pool *pool)
{
	observe(pool);
	gp_timeline_add(&pool->timeline, gp_clock_ns(CLOCK_MONOTONIC),
			pool->allocated.current, pool->reserved.current);
}

void gp_driver_pool_begin(struct gp_driver_pool *pool)
{
	pool->decayed_ns = gp_clock_ns(CLOCK_MONOTONIC);
	add_point(pool);
}

static void event(const struct gp_driver_pool *pool, enum gp_ring_kind kind,
		  uint64_t address, uint64_t bytes)
{
	gp_ring_add(kind, (uint32_t)pool->context->cuda.device, address, bytes,
		    bytes, pool->allocated.current, pool->reserved.current);
}

void gp_driver_pool_got(struct gp_driver_pool *pool, uint64_t address,
			uint64_t bytes)
{
	gp_async_look(pool->known);
	pthread_mutex_lock(&pool->lock);
	pool->allocs++;
	gp_stat_add(&pool->allocated, bytes);
	gp_stat_add(&pool->count, 1);
	if (pool->allocated.current > pool->most_allocated)
		add_point(pool);
	else
		observe(pool);
	event(pool, GP_RING_alloc, address, bytes);
	pthread_mutex_unlock(&pool->lock);
}

void gp_driver_pool_lost(struct gp_driver_pool *pool, uint64_t address,
			 uint64_t bytes)
{
	pthread_mutex_lock(&pool->lock);
	pool->frees++;
	gp_stat_sub(&pool->allocated, bytes);
	gp_stat_sub(&pool->count, 1);
	event(pool, GP_RING_free, address, bytes);
	pthread_mutex_unlock(&pool->lock);
}

void gp_driver_pool_refused(struct gp_driver_pool *pool, uint64_t bytes)
{
	pthread_mutex_lock(&pool->lock);
	pool->ooms++;
	event(pool, GP_RING_oom, 0, bytes);
	pthread_mutex_unlock(&pool->lock);
}

uint64_t gp_driver_pool_reserved(struct gp_driver_pool *pool)
{
	uint64_t bytes;

	pthread_mutex_lock(&pool->lock);
	observe(pool);
	bytes = pool->reserved.current;
	pthread_mutex_unlock(&pool->lock);
	return bytes;
}

uint64_t gp_driver_pool_allocated(struct gp_driver_pool *pool)
{
	uint64_t bytes;

	pthread_mutex_lock(&pool->lock);
	bytes = pool->allocated.current;
	pthread_mutex_unlock(&pool->lock);
	return bytes;
}

void gp_driver_pool_get_stats(struct gp_driver_pool *pool,
			      struct gp_pool_stats *stats)
{
	*stats = (struct gp_pool_stats){.max_split_size = UINT64_MAX};
	pthread_mutex_lock(&pool->lock);
	observe(pool);
	stats->allocated_bytes = stats->allocated_bytes_large =
		stats->requested_bytes = stats->requested_bytes_large =
			stats->active_bytes = stats->active_bytes_large =
				pool->allocated;
	stats->allocation = stats->allocation_large = stats->active =
		stats->active_large = pool->count;
	stats->reserved_bytes = stats->reserved_bytes_large = pool->reserved;
	stats->cached_bytes = pool->reserved.current - pool->allocated.current;
	/* It joins its free memory by itself, and gives all of it back. */
	stats->movable_bytes = stats->largest_free_bytes = stats->cached_bytes;
	stats->num_ooms = pool->ooms;
	stats->num_alloc_calls = pool->allocs + pool->ooms;
	stats->num_free_calls = stats->num_waits = pool->frees;
	stats->num_driver_calls = pool->allocs + pool->frees;
	stats->num_trims = pool->trims;
	stats->most_allocated_bytes = pool->most_allocated;
	stats->most_reserved_bytes = pool->most_reserved;
	pthread_mutex_unlock(&pool->lock);
}

size_t gp_driver_pool_timeline(struct gp_driver_pool *pool,
			       struct gp_timeline_point *points, uint64_t *now)
{
	const struct gp_timeline *t = &pool->timeline;
	size_t n;

	pthread_mutex_lock(&pool->lock);
	add_point(pool);
	n = t->n;
	memcpy(points, t->points, n * sizeof(*points));
	*now = points[n - 1].ns;
	pthread_mutex_unlock(&pool->lock);
	return n;
}

void gp_driver_pool_reset_peaks(struct gp_driver_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	observe(pool);
	pool->allocated.peak = pool->allocated.current;
	pool->count.peak = pool->count.current;
	pool->reserved.peak = pool->reserved.current;
	pthread_mutex_unlock(&pool->lock);
}

void gp_driver_pool_section(struct gp_driver_pool *pool, bool begin,
			    struct gp_section_peak *peak)
{
	pthread_mutex_lock(&pool->lock);
	observe(pool);
	*peak = pool->section;
	if (begin)
		pool->section = (struct gp_section_peak){
			pool->allocated.current, pool->reserved.current};
	pthread_mutex_unlock(&pool->lock);
}

/* ---- giving back ----------------------------------------------------------------- */

uint64_t gp_driver_pool_trim(struct gp_driver_pool *pool, uint64_t keep)
{
	uint64_t before = gp_async_reserved(pool->known), now;

	if (__atomic_load_n(&pool->left, __ATOMIC_ACQUIRE) || before <= keep)
		return 0;
	gp_real()->cuMemPoolTrimTo(pool->handle, keep);
	gp_async_look(pool->known);
	now = gp_async_reserved(pool->known);
	if (now >= before)
		return 0;
	pthread_mutex_lock(&pool->lock);
	pool->trims++;
	event(pool, GP_RING_trim, 0, before - now);
	add_point(pool);
	pthread_mutex_unlock(&pool->lock);
	return before - now;
}

/* The most that was in use since it was looked at last is what is needed. */
void gp_driver_pool_tick(struct gp_driver_pool *pool)
{
	const struct gp_conf *conf = gp_settings();
	uint64_t now = gp_clock_ns(CLOCK_MONOTONIC), needed = 0, used = 0;
	cuuint64_t anew = 0;
	bool due;

	gp_async_look(pool->known);
	pthread_mutex_lock(&pool->lock);
	add_point(pool);
	due = conf->cache_policy == GP_CONF_DECAY &&
	      now - pool->decayed_ns >= conf->decay_ms * 1000000;
	if (due)
		pool->decayed_ns = now;
	pthread_mutex_unlock(&pool->lock);
	if (!due || __atomic_load_n(&pool->left, __ATOMIC_ACQUIRE) ||
	    !gp_async_ask(pool->known, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
			  &needed) ||
	    !gp_async_ask(pool->known, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
		return;
	gp_real()->cuMemPoolSetAttribute(pool->handle,
					 CU_MEMPOOL_ATTR_USED_MEM_HIGH, &anew);
	gp_driver_pool_trim(pool, needed > used ? needed : used);
}
