/*
 * Contexts: opening and closing any, and those a program makes itself. A
 * destroyed context is never freed: threads may still have it current, and
 * are told so.
 */
#include <stdlib.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/engine.h"
#include "tests/sim/event.h"
#include "tests/sim/graph_pages.h"
#include "tests/sim/pool.h"
#include "tests/sim/share.h"

struct sim_ctx *sim_current_named(void)
{
	struct sim_thread *thread = sim_thread();

	return thread->depth ? thread->stack[thread->depth - 1] : NULL;
}

struct sim_ctx *sim_current(void)
{
	struct sim_ctx *ctx = sim_current_named();

	return ctx && ctx->base ? ctx->base : ctx;
}

CUresult sim_ctx_open(struct sim_ctx *ctx, struct sim_device *device,
		      unsigned flags)
{
	uint64_t share = sim.settings.context;
	uint64_t mine = device->used + device->context_used;

	if (share > device->total - mine ||
	    !sim_share_take(device->ordinal, mine + share, device->total))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->device = device;
	ctx->base = NULL;
	ctx->flags = flags;
	ctx->api_version = 3020;
	ctx->sticky = CUDA_SUCCESS;
	ctx->peers = 0;
	ctx->small_bytes = ctx->small_charged = 0;
	ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 6881280;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
	sim_list_init(&ctx->streams);
	sim_list_init(&ctx->regions);
	sim_list_init(&ctx->events);
	sim_list_init(&ctx->arrays);
	sim_list_init(&ctx->modules);
	ctx->legacy = sim_stream_new(ctx, 0);
	if (!ctx->legacy) {
		sim_uncharge(device, 0); /* the share */
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ctx->legacy->legacy = true;
	if (!ctx->id) {
		ctx->id = ++sim.next_id;
		sim_list_add(&sim.contexts, &ctx->link);
		sim_handle_add(SIM_K_CTX, ctx);
	}
	device->context_used += share;
	ctx->alive = true;
	return CUDA_SUCCESS;
}

static bool any_alive(const struct sim_device *device)
{
	struct sim_list *l;

	for (l = sim.contexts.next; l != &sim.contexts; l = l->next) {
		const struct sim_ctx *ctx = sim_entry(l, struct sim_ctx, link);

		if (ctx->alive && ctx->device == device)
			return true;
	}
	return false;
}

void sim_ctx_close(struct sim_ctx *ctx)
{
	struct sim_stream *stream;

	sim_barrier_begin(ctx);
	ctx->alive = false;
	sim_greens_end(ctx);
	sim_captures_end(ctx);
	sim_events_destroy(ctx);
	while (!sim_list_empty(&ctx->streams)) {
		stream = sim_entry(ctx->streams.next, struct sim_stream, link);
		sim_handle_remove(stream);
		sim_stream_drop(stream);
	}
	ctx->legacy = ctx->sweeper = ctx->gatekeeper = ctx->visits = NULL;
	if (ctx->held)
		sim_op_unref(ctx->held);
	ctx->held = NULL;
	sim_arrays_destroy(ctx);
	sim_modules_destroy(ctx);
	while (!sim_list_empty(&ctx->regions))
		sim_region_destroy(
			sim_entry(ctx->regions.next, struct sim_region, link));
	sim_pools_settle();
	if (!any_alive(ctx->device))
		sim_graphs_trim(ctx->device);
	ctx->device->context_used -= sim.settings.context;
	sim_uncharge(ctx->device, 0); /* the share */
	sim_barrier_end(ctx);
}

struct sim_ctx *sim_ctx_another(void)
{
	struct sim_list *l;

	for (l = sim.contexts.next;
	     sim.settings.contexts_return && l != &sim.contexts; l = l->next) {
		struct sim_ctx *ctx = sim_entry(l, struct sim_ctx, link);

		if (!ctx->alive && !ctx->primary)
			return ctx;
	}
	return calloc(1, sizeof(struct sim_ctx));
}

CUresult sim_ctx_create(CUcontext *out, unsigned flags, CUdevice dev)
{
	struct sim_thread *thread = sim_thread();
	struct sim_device *device = sim_device_of(dev);
	struct sim_ctx *ctx;
	CUresult err;

	if (!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK || thread->depth == 64)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	ctx = sim_ctx_another();
	err = ctx ? sim_ctx_open(ctx, device, flags) : CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock();
	if (err) {
		if (ctx && !ctx->id)
			free(ctx);
		return err;
	}
	thread->stack[thread->depth++] = ctx;
	*out = (CUcontext)(void *)ctx;
	return CUDA_SUCCESS;
}

CUresult sim_ctx_create_v3(CUcontext *out, CUexecAffinityParam *params, int n,
			   unsigned flags, CUdevice dev)
{
	if (n && !params)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_ctx_create(out, flags, dev);
}

#if CUDA_VERSION >= 12050
CUresult sim_ctx_create_v4(CUcontext *out, CUctxCreateParams *params,
			   unsigned flags, CUdevice dev)
{
	(void)params; /* execution affinity and the like: no bearing on memory */
	return sim_ctx_create(out, flags, dev);
}
#endif

CUresult sim_ctx_destroy(CUcontext handle)
{
	struct sim_ctx *ctx = (struct sim_ctx *)(void *)handle;
	struct sim_thread *thread = sim_thread();
	CUresult err = CUDA_SUCCESS;

	sim_lock();
	if (!sim_handle_is(SIM_K_CTX, ctx) || ctx->primary || ctx->base)
		err = CUDA_ERROR_INVALID_CONTEXT;
	else if (!ctx->alive)
		err = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	else
		sim_ctx_close(ctx);
	sim_unlock();
	sim_delay(sim.settings.destroy_us);
	if (!err && thread->depth && thread->stack[thread->depth - 1] == ctx)
		thread->depth--;
	return err;
}

CUresult sim_ctx_get_current(CUcontext *out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUcontext)(void *)sim_current_named();
	return CUDA_SUCCESS;
}

static bool known(struct sim_ctx *ctx)
{
	bool is;

	sim_lock();
	is = sim_handle_is(SIM_K_CTX, ctx);
	sim_unlock();
	return is;
}

CUresult sim_ctx_set_current(CUcontext handle)
{
	struct sim_ctx *ctx = (struct sim_ctx *)(void *)handle;
	struct sim_thread *thread = sim_thread();

	if (ctx && !known(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (thread->depth)
		thread->depth--;
	if (ctx)
		thread->stack[thread->depth++] = ctx;
	return CUDA_SUCCESS;
}

CUresult sim_ctx_push(CUcontext handle)
{
	struct sim_ctx *ctx = (struct sim_ctx *)(void *)handle;
	struct sim_thread *thread = sim_thread();

	if (!known(ctx) || thread->depth == 64)
		return CUDA_ERROR_INVALID_CONTEXT;
	thread->stack[thread->depth++] = ctx;
	return CUDA_SUCCESS;
}

CUresult sim_ctx_pop(CUcontext *out)
{
	struct sim_thread *thread = sim_thread();

	if (!thread->depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	thread->depth--;
	if (out)
		*out = (CUcontext)(void *)thread->stack[thread->depth];
	return CUDA_SUCCESS;
}

/* The context named, or the current one for NULL. */
static CUresult named(CUcontext handle, struct sim_ctx **ctx)
{
	*ctx = handle ? (struct sim_ctx *)(void *)handle : sim_current_named();
	if (!*ctx || !known(*ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return (*ctx)->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_ctx_device_of(CUdevice *device, CUcontext handle)
{
	struct sim_ctx *ctx;
	CUresult err;

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	err = named(handle, &ctx);
	if (!err)
		*device = ctx->device->ordinal;
	return err;
}

CUresult sim_ctx_device(CUdevice *device)
{
	return sim_ctx_device_of(device, NULL);
}

CUresult sim_ctx_synchronize_of(CUcontext handle)
{
	struct sim_ctx *ctx;
	CUresult err = named(handle, &ctx);

	if (err)
		return err;
	sim_lock();
	err = ctx->base ? sim_green_drain(ctx) : sim_capture_sync_ctx(ctx);
	if (!err) {
		if (!ctx->base)
			sim_drain(ctx);
		err = ctx->base ? ctx->base->sticky : ctx->sticky;
		sim_pools_settle();
	}
	sim_unlock();
	return err;
}

CUresult sim_ctx_synchronize(void)
{
	return sim_ctx_synchronize_of(NULL);
}

CUresult sim_ctx_api_version(CUcontext handle, unsigned *version)
{
	struct sim_ctx *ctx;
	CUresult err;

	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	err = named(handle, &ctx);
	if (!err)
		*version = ctx->api_version;
	return err;
}

CUresult sim_ctx_id(CUcontext handle, unsigned long long *id)
{
	struct sim_ctx *ctx;
	CUresult err;

	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	err = named(handle, &ctx);
	if (!err)
		*id = ctx->id;
	return err;
}

CUresult sim_ctx_flags(unsigned *flags)
{
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = sim_current()->flags;
	return CUDA_SUCCESS;
}

CUresult sim_ctx_set_flags(unsigned flags)
{
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	sim_current()->flags = flags;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_ctx_set_limit(CUlimit limit, size_t value)
{
	if (limit < 0 || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	sim_lock();
	sim_current()->limits[limit] = value;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_ctx_get_limit(size_t *value, CUlimit limit)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit < 0 || limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	sim_lock();
	*value = sim_current()->limits[limit];
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_ctx_priorities(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}
