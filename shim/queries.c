/* What programs are told of the device's size; see queries.h. */
#include "shim/queries.h"

#include "shim/async.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/state.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Shows nothing of a limit that leaves nothing: programs divide by it. */
static uint64_t shown_total(uint64_t cap, uint64_t total)
{
	return cap ? least(cap, total) : total;
}

/* Nothing is held yet, and the devices have no numbers yet: one limit for all
 * of them can be shown all the same. */
static bool show_early(uint64_t *free, uint64_t *total)
{
	const struct gp_conf *conf = gp_settings();
	uint64_t cap = gp_device_cap(conf, 0, *total);

	for (int i = 1; i < GP_CONF_DEVICES; i++)
		if (gp_device_cap(conf, i, *total) != cap)
			return false;
	if (!conf->virtualize || cap == GP_NO_LIMIT)
		return false;
	*total = shown_total(cap, *total);
	*free = least(*free, least(cap, *total));
	return true;
}

static void show(CUdevice device, uint64_t *free, uint64_t *total)
{
	uint64_t cached = gp_context_cached(device), live, room;
	bool own = gp_settings()->backend == GP_BACKEND_CUDA_MALLOC_ASYNC;
	struct gp_limit_stats stats;

	gp_limit_get(gp_device_limit(device), &stats);
	if (stats.cap != GP_NO_LIMIT || own) {
		cached += gp_async_spare(device, stats.cap == GP_NO_LIMIT);
		gp_limit_get(gp_device_limit(device), &stats);
	}
	live = stats.held > cached ? stats.held - cached : 0;
	room = stats.cap > live ? stats.cap - live : 0;
	*total = shown_total(stats.cap, *total);
	*free = least(least(*free + cached, room), *total);
}

bool gp_query_show(int device, uint64_t *free, uint64_t *total)
{
	if (device == -2)
		return gp_may_limit() && show_early(free, total);
	if (device < 0 || !(gp_may_limit() ? gp_active() : gp_running()) ||
	    !gp_settings()->virtualize)
		return false;
	show(device, free, total);
	return true;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuMemGetInfo_v2(free_bytes, total_bytes);
	uint64_t free, total;
	CUdevice device;

	if (rc != CUDA_SUCCESS || !free_bytes || !total_bytes ||
	    real->cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return rc;
	free = *free_bytes;
	total = *total_bytes;
	if (gp_query_show(device, &free, &total)) {
		*free_bytes = free;
		*total_bytes = total;
	}
	return rc;
}

static unsigned narrow(size_t bytes)
{
	return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

/* From when sizes had 32 bits. */
CUresult cuMemGetInfo(unsigned *free_bytes, unsigned *total_bytes)
{
	size_t free, total;
	CUresult rc = gp_real()->cuMemGetInfo(free_bytes, total_bytes);

	if (rc != CUDA_SUCCESS || !free_bytes || !total_bytes ||
	    cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS)
		return rc;
	*free_bytes = narrow(free);
	*total_bytes = narrow(total);
	return rc;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult rc = gp_real()->cuDeviceTotalMem_v2(bytes, device);
	struct gp_limit_stats stats;

	/* Whoever asks for no more than this has not used the device yet. */
	if (rc != CUDA_SUCCESS || !gp_may_limit() || !gp_active() ||
	    !gp_settings()->virtualize)
		return rc;
	gp_limit_get(gp_device_limit(device), &stats);
	*bytes = shown_total(stats.cap, *bytes);
	return rc;
}

CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice device)
{
	CUresult rc = gp_real()->cuDeviceTotalMem(bytes, device);
	size_t total;

	if (rc == CUDA_SUCCESS &&
	    cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS)
		*bytes = narrow(total);
	return rc;
}
