/*
 * Green contexts: parts of a device's primary context, which each retains. What
 * is made while one is current is the primary one's, but for streams. Destroying
 * one leaves its streams behind: their work goes on, and no call takes them any
 * more (cuda.h).
 */
#include <stdlib.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/engine.h"
#include "tests/sim/oracle.h"

static struct sim_list *streams_of(const struct sim_ctx *green)
{
	return &green->base->streams;
}

/* Has it work up to `until`? */
static bool has_work(const struct sim_ctx *green, uint64_t until)
{
	struct sim_list *l;

	for (l = sim.active.next; l != &sim.active; l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, active);

		if (s->green == green && s->head->seq <= until)
			return true;
	}
	return false;
}

CUresult sim_green_drain(struct sim_ctx *green)
{
	uint64_t until = sim.next_seq;
	CUresult err = CUDA_SUCCESS;
	struct sim_list *l;

	for (l = streams_of(green)->next; l != streams_of(green); l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, link);

		if (s->green == green && s->capture)
			err = sim_capture_break(
				s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	while (!err && has_work(green, until) && !sim.stopping)
		sim_wait_more();
	return err;
}

/* The primary context closes, and its streams with it. */
void sim_greens_end(struct sim_ctx *base)
{
	struct sim_list *l;

	for (l = sim.contexts.next; l != &sim.contexts; l = l->next) {
		struct sim_ctx *green = sim_entry(l, struct sim_ctx, link);

		if (green->base != base)
			continue;
		green->alive = false;
		green->legacy = NULL;
	}
}

#if CUDA_VERSION >= 12040
struct sim_green {
	struct sim_ctx *ctx;
};

static struct sim_green *green_of(CUgreenCtx handle)
{
	struct sim_green *green = (struct sim_green *)(void *)handle;

	return sim_handle_is(SIM_K_GREEN, green) ? green : NULL;
}

/* How it is partitioned has no bearing on memory: one descriptor for all. */
static char description;

CUresult sim_device_resource(CUdevice dev, CUdevResource *resource,
			     CUdevResourceType type)
{
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*resource = (CUdevResource){.type = type, .sm.smCount = 132};
	return CUDA_SUCCESS;
}

CUresult sim_resource_desc(CUdevResourceDesc *desc, CUdevResource *resources,
			   unsigned n)
{
	if (!desc || !resources || !n)
		return CUDA_ERROR_INVALID_VALUE;
	*desc = (CUdevResourceDesc)(void *)&description;
	return CUDA_SUCCESS;
}

/* The primary context is there. locked. */
static bool open_green(struct sim_ctx *ctx, struct sim_device *device)
{
	struct sim_ctx *base = &device->primary;

	ctx->legacy = sim_stream_new(base, CU_STREAM_NON_BLOCKING);
	if (!ctx->legacy)
		return false;
	ctx->legacy->green = ctx;
	ctx->device = device;
	ctx->base = base;
	ctx->api_version = base->api_version;
	sim_list_init(&ctx->streams);
	if (!ctx->id) {
		ctx->id = ++sim.next_id;
		sim_list_add(&sim.contexts, &ctx->link);
		sim_handle_add(SIM_K_CTX, ctx);
	}
	ctx->alive = true;
	return true;
}

/* locked */
static CUresult create(struct sim_device *device, struct sim_green *green)
{
	CUresult err = sim_primary_ref(device);
	bool last;

	if (err)
		return err;
	green->ctx = sim_ctx_another();
	if (green->ctx && open_green(green->ctx, device)) {
		green->ctx->green = green;
		sim_handle_add(SIM_K_GREEN, green);
		return CUDA_SUCCESS;
	}
	if (green->ctx && !green->ctx->id)
		free(green->ctx);
	sim_primary_unref(device, &last);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_green_create(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice dev,
			  unsigned flags)
{
	struct sim_device *device = sim_device_of(dev);
	struct sim_green *green;
	CUresult err;

	if (!out || (void *)desc != &description ||
	    flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (sim_oracle_on()) /* it knows nothing of them */
		return CUDA_ERROR_NOT_SUPPORTED;
	green = calloc(1, sizeof(*green));
	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	err = create(device, green);
	sim_unlock();
	if (err)
		free(green);
	else
		*out = (CUgreenCtx)(void *)green;
	return err;
}

/* locked */
static void leave_streams(const struct sim_ctx *green)
{
	struct sim_list *l;

	for (l = streams_of(green)->next; l != streams_of(green); l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, link);

		if (s->green != green)
			continue;
		sim_capture_forget(s);
		s->detached = true;
		s->green = NULL;
	}
}

CUresult sim_green_destroy(CUgreenCtx handle)
{
	CUresult err = CUDA_ERROR_INVALID_CONTEXT;
	struct sim_green *green;
	bool last = false;

	sim_lock();
	green = green_of(handle);
	if (green) {
		sim_handle_remove(green);
		if (green->ctx->alive) {
			leave_streams(green->ctx);
			sim_stream_drop(green->ctx->legacy);
		}
		green->ctx->alive = false;
		green->ctx->legacy = NULL;
		err = sim_primary_unref(green->ctx->device, &last);
		free(green);
	}
	sim_unlock();
	if (last)
		sim_delay(sim.settings.destroy_us);
	return err;
}

CUresult sim_green_context(CUcontext *out, CUgreenCtx handle)
{
	CUresult err = CUDA_ERROR_INVALID_CONTEXT;
	struct sim_green *green;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	green = green_of(handle);
	if (green) {
		*out = (CUcontext)(void *)green->ctx;
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}
#endif

#if CUDA_VERSION >= 12050
CUresult sim_green_stream(CUstream *out, CUgreenCtx handle, unsigned flags,
			  int priority)
{
	struct sim_ctx *ctx = NULL;
	struct sim_green *green;

	if (flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	green = green_of(handle);
	if (green && green->ctx->alive)
		ctx = green->ctx;
	sim_unlock();
	return ctx ? sim_stream_create_in(ctx, out, flags, priority)
		   : CUDA_ERROR_INVALID_CONTEXT;
}
#endif
