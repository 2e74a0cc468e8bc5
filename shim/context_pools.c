/*
 * What is done with the pools of all contexts: giving back what they cache, and
 * housekeeping.
 */
#include <string.h>
#include <time.h>

#include "shim/context_impl.h"

void gp_context_each(void (*visit)(struct gp_context *, void *), void *arg)
{
	struct gp_context *list[GP_MAX_CONTEXTS];
	size_t n = gp_context_borrow(list);

	for (size_t i = 0; i < n; i++)
		visit(list[i], arg);
	gp_context_return();
}

/* The driver's pool knows by itself what is in use. */
static uint64_t trim_driver_pool(const struct gp_context *context,
				 uint64_t bytes)
{
	uint64_t reserved = gp_context_reserved(context);

	return gp_driver_pool_trim(context->driver_pool,
				   reserved > bytes ? reserved - bytes : 0);
}

static uint64_t trim(const struct gp_context *context, uint64_t bytes)
{
	return context->pool ? gp_pool_trim(context->pool, bytes)
			     : trim_driver_pool(context, bytes);
}

uint64_t gp_context_trim(CUdevice device, uint64_t bytes, CUcontext except)
{
	struct gp_context *list[GP_MAX_CONTEXTS];
	size_t n = gp_context_borrow(list);
	uint64_t freed = 0;

	for (size_t i = 0; i < n && freed < bytes; i++)
		if ((device < 0 || list[i]->cuda.device == device) &&
		    list[i]->cuda.context != except)
			freed += trim(list[i], bytes - freed);
	gp_context_return();
	return freed;
}

static uint64_t reserved_by(struct gp_context *const *list, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += gp_context_reserved(list[i]);
	return sum;
}

static uint64_t trim_idle(const struct gp_context *context, uint64_t bytes,
			  uint64_t most, bool *more)
{
	if (context->pool)
		return gp_pool_trim_idle(context->pool, bytes, most, more);
	*more = false;
	return trim_driver_pool(context, bytes < most ? bytes : most);
}

uint64_t gp_context_trim_idle(CUdevice device, uint64_t bytes)
{
	struct gp_context *list[GP_MAX_CONTEXTS];
	size_t n = gp_context_borrow(list);
	uint64_t freed = 0;
	bool more;

	for (size_t i = 0; i < n && freed < bytes; i++)
		if (list[i]->cuda.device == device)
			freed += trim_idle(list[i], bytes - freed, UINT64_MAX,
					   &more);
	gp_context_return();
	return freed;
}

/* What is idle goes at once. What the device still works on is looked at again
 * and again, never waited for: this is the thread that writes reports. */
uint64_t gp_context_trim_for(const uint8_t uuid[16], uint64_t bytes,
			     uint64_t floor, unsigned ms)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct gp_context *list[GP_MAX_CONTEXTS];
	size_t all = gp_context_borrow(list), n = 0;
	uint64_t given = 0, reserved;
	bool busy = true, more;

	for (size_t i = 0; i < all; i++)
		if (!memcmp(list[i]->cuda.uuid.bytes, uuid, 16))
			list[n++] = list[i];
	while (busy) {
		busy = false;
		for (size_t i = 0; i < n && given < bytes; i++) {
			reserved = reserved_by(list, n);
			if (reserved <= floor)
				break;
			given += trim_idle(list[i], bytes - given,
					   reserved - floor, &more);
			busy |= more;
		}
		if (!ms--)
			break;
		if (busy)
			nanosleep(&pause, NULL);
	}
	gp_context_return();
	return given;
}

static void reset_peak(struct gp_context *context, void *arg)
{
	(void)arg;
	gp_context_reset_peaks(context);
}

void gp_context_reset_peak(void)
{
	gp_context_each(reset_peak, NULL);
}

uint64_t gp_context_cached(CUdevice device)
{
	struct gp_context *list[GP_MAX_CONTEXTS];
	size_t n = gp_context_borrow(list);
	struct gp_pool_stats stats;
	uint64_t cached = 0;

	for (size_t i = 0; i < n; i++) {
		/* Of the others' spare memory async.h knows. */
		if (!list[i]->pool ||
		    (device >= 0 && list[i]->cuda.device != device))
			continue;
		gp_pool_get_stats(list[i]->pool, &stats);
		cached += stats.cached_bytes;
	}
	gp_context_return();
	return cached;
}

void gp_context_tick(void)
{
	struct gp_context *list[GP_MAX_CONTEXTS];
	size_t n = gp_context_borrow(list);

	for (size_t i = 0; i < n; i++)
		if (list[i]->pool)
			gp_pool_tick(list[i]->pool);
		else
			gp_driver_pool_tick(list[i]->driver_pool);
	gp_context_return();
}
