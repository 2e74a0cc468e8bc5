/* Figures by device; see figures.h. */
#include "shim/figures.h"

#include <string.h>

#include "shim/context.h"
#include "shim/devices.h"
#include "shim/hooks.h"
#include "shim/state.h"

struct sum {
	int device;
	bool collect;
	struct gp_device_figures *figures;
};

static bool concerns(int device, const struct gp_context *context)
{
	return device < 0 || context->cuda.device == device;
}

static void add_pool(struct gp_context *context, void *arg)
{
	struct sum *sum = arg;
	struct gp_pool_stats stats;

	if (!concerns(sum->device, context))
		return;
	if (sum->collect && context->pool)
		gp_pool_collect(context->pool);
	gp_context_stats(context, &stats);
	gp_pool_stats_add(&sum->figures->stats, &stats);
	sum->figures->total_bytes = context->cuda.driver.total_bytes;
}

static void add_retired(struct gp_report_pool *pool, void *arg)
{
	struct sum *sum = arg;

	if (sum->device < 0 || pool->device == sum->device)
		gp_pool_stats_add(&sum->figures->stats, &pool->stats);
}

static uint64_t limit_of(int device)
{
	struct gp_limit_stats limit;

	gp_limit_get(gp_device_limit(device), &limit);
	return limit.cap;
}

void gp_figures_take(int device, bool collect,
		     struct gp_device_figures *figures)
{
	struct sum sum = {device, collect, figures};

	memset(figures, 0, sizeof(*figures));
	figures->device = device;
	figures->stats.max_split_size = UINT64_MAX;
	figures->limit_bytes = GP_NO_LIMIT;
	if (gp_running()) {
		if (device >= 0)
			figures->limit_bytes = limit_of(device);
		gp_context_each_retired(add_retired, &sum);
		gp_context_each(add_pool, &sum);
	}
	for (int i = 0; i < GP_KIND_COUNT; i++)
		gp_kind_get((enum gp_kind)i, &figures->kinds[i]);
}

static void reset_pool(struct gp_context *context, void *arg)
{
	if (concerns(*(const int *)arg, context))
		gp_context_reset_peaks(context);
}

static void reset_retired(struct gp_report_pool *pool, void *arg)
{
	const int device = *(const int *)arg;

	if (device < 0 || pool->device == device)
		gp_pool_stats_reset_peak(&pool->stats);
}

void gp_figures_reset_peak(int device)
{
	if (gp_running()) {
		gp_context_each(reset_pool, &device);
		gp_context_each_retired(reset_retired, &device);
	}
	if (device < 0)
		gp_kinds_reset_peak();
}

struct memory {
	int device;
	uint64_t free_bytes, total_bytes;
};

static void ask(struct gp_context *context, void *arg)
{
	struct memory *memory = arg;
	size_t free_bytes, total;
	CUcontext current;

	if (memory->total_bytes || !concerns(memory->device, context) ||
	    gp_real()->cuCtxPushCurrent_v2(context->cuda.context) !=
		    CUDA_SUCCESS)
		return;
	/* The hook, not the driver: a limit shows. */
	if (cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS) {
		memory->free_bytes = free_bytes;
		memory->total_bytes = total;
	}
	gp_real()->cuCtxPopCurrent_v2(&current);
}

void gp_figures_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes)
{
	struct memory memory = {.device = device};

	if (gp_running())
		gp_context_each(ask, &memory);
	*free_bytes = memory.free_bytes;
	*total_bytes = memory.total_bytes;
}
