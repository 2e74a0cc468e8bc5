/*
 * The functions of gpupool.h. None starts gpupool: in a process that has not
 * touched a GPU they find nothing, and say so.
 */
#define GPUPOOL_FUNCTION __attribute__((visibility("default")))
#include "shim/gpupool.h"

#include <errno.h>
#include <string.h>

#include "shim/context.h"
#include "shim/devices.h"
#include "shim/figures.h"
#include "shim/hooks.h"
#include "shim/mark.h"
#include "shim/state.h"

/* -errno, or 0 with *device resolved: not negative, or GPUPOOL_ALL_DEVICES. */
static int resolve(int *device)
{
	CUdevice current;
	int count;

	if (!gp_may_intercept())
		return -EOPNOTSUPP;
	if (*device < GPUPOOL_ALL_DEVICES)
		return -EINVAL;
	if (*device == GPUPOOL_CURRENT_DEVICE)
		*device = gp_real()->cuCtxGetDevice(&current) == CUDA_SUCCESS
				  ? current
				  : 0;
	if (gp_real()->cuDeviceGetCount(&count) == CUDA_SUCCESS &&
	    *device >= count)
		return -ENODEV;
	return 0;
}

/* -1 is every device for those that know contexts. */
static CUdevice as_filter(int device)
{
	return device == GPUPOOL_ALL_DEVICES ? -1 : device;
}

static int take(int device, bool collect, struct gp_device_figures *figures)
{
	int rc = resolve(&device);
	size_t total;

	if (rc)
		return rc;
	gp_figures_take(as_filter(device), collect, figures);
	if (device >= 0 && !figures->total_bytes &&
	    gp_real()->cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS)
		figures->total_bytes = total;
	return 0;
}

int gpupool_api_version(void)
{
	return GPUPOOL_API_VERSION;
}

static struct gpupool_stat public(const struct gp_stat *stat)
{
	return (struct gpupool_stat){stat->current, stat->peak, stat->allocated,
				     stat->freed};
}

static uint64_t outside(const struct gp_device_figures *figures)
{
	uint64_t bytes = 0;

	for (int i = 0; i < GP_KIND_COUNT; i++)
		if (!gp_kind_is_host((enum gp_kind)i))
			bytes += figures->kinds[i].bytes.current;
	return bytes;
}

int gpupool_figures(int device, struct gpupool_figures *to)
{
	struct gp_device_figures figures = {0};
	const struct gp_pool_stats *s = &figures.stats;
	struct gpupool_figures all;
	int saved = errno;
	size_t size;
	int rc;

	if (!to || to->size < sizeof(to->size))
		return -EINVAL;
	rc = take(device, false, &figures);
	errno = saved;
	if (rc)
		return rc;
	size = to->size < sizeof(all) ? to->size : sizeof(all);
	all = (struct gpupool_figures){
		.size = size,
		.allocated_bytes = public(&s->allocated_bytes),
		.requested_bytes = public(&s->requested_bytes),
		.active_bytes = public(&s->active_bytes),
		.reserved_bytes = public(&s->reserved_bytes),
		.inactive_split_bytes = public(&s->inactive_split_bytes),
		.allocation = public(&s->allocation),
		.segment = public(&s->segment),
		.num_alloc_calls = s->num_alloc_calls,
		.num_free_calls = s->num_free_calls,
		.num_hits = s->num_hits,
		.num_ooms = s->num_ooms,
		.num_alloc_retries = s->num_alloc_retries,
		.driver_calls = s->num_driver_calls,
		.driver_ns = s->driver_ns,
		.saved_ns = s->saved_ns,
		.cached_bytes = s->cached_bytes,
		.largest_free_bytes = s->largest_free_bytes,
		.outside_bytes = outside(&figures),
		.device_bytes = figures.total_bytes,
		.limit_bytes = figures.limit_bytes,
	};
	/* A program that was built with a newer header, or an older one. */
	memset(to, 0, to->size);
	memcpy(to, &all, size);
	return 0;
}

static long print(int device, char *text, size_t size, bool json)
{
	struct gp_device_figures figures = {0};
	int saved = errno;
	long rc;

	if (!text && size)
		return -EINVAL;
	rc = take(device, true, &figures);
	if (!rc)
		rc = json ? gp_device_json(&figures, text, size)
			  : gp_device_summary(&figures, text, size);
	errno = saved;
	return rc;
}

long gpupool_stats(int device, char *text, size_t size)
{
	return print(device, text, size, true);
}

long gpupool_summary(int device, char *text, size_t size)
{
	return print(device, text, size, false);
}

int gpupool_trim(int device, uint64_t *freed)
{
	int saved = errno;
	uint64_t bytes = 0;
	int rc = resolve(&device);

	if (!rc && gp_running())
		bytes = gp_context_trim(as_filter(device), UINT64_MAX, NULL);
	if (!rc && freed)
		*freed = bytes;
	errno = saved;
	return rc;
}

int gpupool_reset_peak(int device)
{
	int saved = errno;
	int rc = resolve(&device);

	if (!rc)
		gp_figures_reset_peak(as_filter(device));
	errno = saved;
	return rc;
}

static int set_all(uint64_t bytes, int count)
{
	int rc = 0;

	for (int i = 0; i < count && !rc; i++)
		rc = gp_device_set_limit(i, bytes);
	return rc;
}

static int set_limit(int device, uint64_t bytes)
{
	int rc = resolve(&device), count;

	if (rc)
		return rc;
	if (gp_real()->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return -EAGAIN;
	if (!gp_active())
		return -EOPNOTSUPP;
	if (device == GPUPOOL_ALL_DEVICES)
		return set_all(bytes, count);
	return device < count ? gp_device_set_limit(device, bytes) : -ENODEV;
}

int gpupool_set_limit(int device, uint64_t bytes)
{
	int saved = errno;
	int rc = set_limit(device, bytes);

	errno = saved;
	return rc;
}

int gpupool_mark(const char *name)
{
	int saved = errno;
	int rc = gp_may_intercept() ? gp_mark(name) : -EOPNOTSUPP;

	errno = saved;
	return rc;
}

int gpupool_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes)
{
	int saved = errno;
	int rc = resolve(&device);

	if (!free_bytes || !total_bytes || device == GPUPOOL_ALL_DEVICES)
		rc = -EINVAL;
	if (!rc)
		gp_figures_memory(device, free_bytes, total_bytes);
	errno = saved;
	return rc;
}
