/*
 * Contexts' pools as reports have them; those that are gone, too.
 */
#include <stddef.h>
#include <string.h>

#include "pool/order.h"
#include "shim/context_impl.h"
#include "shim/state.h"
#include "stats/clock.h"
#include "stats/sections.h"

/* What destroyed pools had done. Guarded by gp_context_lock. */
static struct gp_report_pool retired[GP_MAX_CONTEXTS];
static size_t num_retired;

/* As pool/pool.c decides it. */
static void describe_remap(struct gp_report_pool *pool,
			   const struct gp_context *context)
{
	if (context->driver_pool) {
		pool->no_remap = "the memory is in a pool of the driver's "
				 "(backend:cudaMallocAsync)";
	} else if (!context->cuda.driver.has_vmm) {
		pool->no_remap = "the device offers no virtual memory";
	} else if (!gp_settings()->expandable_segments) {
		pool->no_remap = "expandable_segments is False";
		pool->could_remap = true;
	} else if (gp_order_is(gp_pool_order(context->pool),
			       GP_ORDER_ONLY_IDLE)) {
		pool->no_remap = "a library is loaded that reaches memory "
				 "without a stream";
	}
}

static void describe(struct gp_report_pool *pool,
		     const struct gp_context *context)
{
	uint64_t unix_now = gp_clock_ns(CLOCK_REALTIME), now;

	memset(pool, 0, offsetof(struct gp_report_pool, points));
	pool->device = context->cuda.device;
	pool->context = (uintptr_t)context->cuda.context;
	pool->primary = context->primary;
	memcpy(pool->device_name, context->name, sizeof(pool->device_name));
	memcpy(pool->uuid, context->cuda.uuid.bytes, sizeof(pool->uuid));
	pool->total_bytes = context->cuda.driver.total_bytes;
	pool->free_bytes = GP_UNKNOWN;
	describe_remap(pool, context);
	if (context->pool)
		gp_pool_collect(context->pool);
	gp_context_stats(context, &pool->stats);
	pool->num_points =
		context->pool
			? gp_pool_timeline(context->pool, pool->points, &now)
			: gp_driver_pool_timeline(context->driver_pool,
						  pool->points, &now);
	/* The driver's clock knows no date. */
	for (size_t i = 0; i < pool->num_points; i++)
		pool->points[i].ns = unix_now - (now - pool->points[i].ns);
}

void gp_context_retire(const struct gp_context *context)
{
	struct gp_report_pool *to = &retired[num_retired];
	struct gp_section_peak peak;

	gp_context_section(context, true, &peak);
	gp_sections_note(context->cuda.device, peak.allocated, peak.reserved);
	if (num_retired == GP_MAX_CONTEXTS)
		return; /* a program that makes contexts by the hundred */
	describe(to, context);
	if (!to->stats.num_alloc_calls)
		return;
	gp_pool_stats_drop(&to->stats);
	num_retired++;
}

void gp_context_each_retired(void (*visit)(struct gp_report_pool *, void *),
			     void *arg)
{
	pthread_mutex_lock(&gp_context_lock);
	for (size_t i = 0; i < num_retired; i++)
		visit(&retired[i], arg);
	pthread_mutex_unlock(&gp_context_lock);
}

static void ask(struct gp_context *context, void *arg)
{
	const struct gp_real *real = gp_real();
	CUcontext current = NULL;
	size_t free_bytes, total;
	uint64_t told = GP_UNKNOWN;

	(void)arg;
	__atomic_store_n(&context->free_bytes, told, __ATOMIC_RELAXED);
	if (real->cuCtxPushCurrent_v2(context->cuda.context) != CUDA_SUCCESS)
		return;
	if (real->cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS)
		told = free_bytes;
	real->cuCtxPopCurrent_v2(&current);
	__atomic_store_n(&context->free_bytes, told, __ATOMIC_RELAXED);
}

void gp_context_ask(void)
{
	gp_context_each(ask, NULL);
}

size_t gp_context_report(struct gp_report_pool *pools, size_t max, bool asked)
{
	struct gp_context *list[GP_MAX_CONTEXTS];
	size_t n = gp_context_borrow(list), filled = 0;

	for (size_t i = 0; i < n && filled < max; i++) {
		describe(&pools[filled], list[i]);
		if (asked)
			pools[filled].free_bytes = __atomic_load_n(
				&list[i]->free_bytes, __ATOMIC_RELAXED);
		filled++;
	}
	gp_context_return();
	pthread_mutex_lock(&gp_context_lock);
	for (size_t i = 0; i < num_retired && filled < max; i++)
		pools[filled++] = retired[i];
	pthread_mutex_unlock(&gp_context_lock);
	return filled;
}
