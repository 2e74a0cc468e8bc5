/*
 * Streams.
 */
#include <stdlib.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/engine.h"
#include "tests/sim/lazy.h"
#include "tests/sim/oracle.h"
#include "tests/sim/pool.h"

struct sim_stream *sim_stream_new(struct sim_ctx *ctx, unsigned flags)
{
	struct sim_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->ctx = ctx;
	stream->id = ++sim.next_id;
	stream->flags = flags;
	sim_list_init(&stream->active);
	sim_list_add(&ctx->streams, &stream->link);
	return stream;
}

void sim_stream_drop(struct sim_stream *stream)
{
	sim_capture_forget(stream);
	if (stream->head) {
		stream->destroyed = true;
		return;
	}
	sim_list_del(&stream->link);
	free(stream);
}

static struct sim_stream *own_default(struct sim_ctx *ctx)
{
	uint64_t serial = sim_thread()->serial;
	struct sim_stream *stream;
	struct sim_list *l;

	for (l = ctx->streams.next; l != &ctx->streams; l = l->next) {
		stream = sim_entry(l, struct sim_stream, link);
		if (stream->thread == serial)
			return stream;
	}
	stream = sim_stream_new(ctx, 0);
	if (stream)
		stream->thread = serial;
	return stream;
}

struct sim_stream *sim_stream_of(CUstream handle)
{
	struct sim_ctx *ctx = sim_current_named();
	struct sim_stream *stream = (struct sim_stream *)(void *)handle;

	if (handle == CU_STREAM_LEGACY ||
	    (!handle && !sim_thread()->per_thread))
		return ctx && ctx->alive ? ctx->legacy : NULL;
	if (handle == CU_STREAM_PER_THREAD || !handle)
		return ctx && ctx->alive && !ctx->base ? own_default(ctx)
						       : NULL;
	return sim_handle_is(SIM_K_STREAM, stream) && !stream->detached ? stream
									: NULL;
}

/* What the default stream of a green context waits for is not documented: here
 * no stream waits for it, nor it for them. */
static struct sim_stream *new_in(struct sim_ctx *ctx, unsigned flags)
{
	struct sim_stream *stream =
		ctx->base ? sim_stream_new(ctx->base,
					   flags | CU_STREAM_NON_BLOCKING)
			  : sim_stream_new(ctx, flags);

	if (stream && ctx->base)
		stream->green = ctx;
	return stream;
}

CUresult sim_stream_create_in(struct sim_ctx *ctx, CUstream *out,
			      unsigned flags, int priority)
{
	struct sim_stream *stream;

	if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = new_in(ctx, flags);
	if (stream) {
		stream->priority = priority > 0    ? 0
				   : priority < -5 ? -5
						   : priority;
		sim_handle_add(SIM_K_STREAM, stream);
		*out = (CUstream)(void *)stream;
	}
	sim_unlock();
	return stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_stream_create_priority(CUstream *out, unsigned flags, int priority)
{
	return sim_stream_create_in(sim_current_named(), out, flags, priority);
}

CUresult sim_stream_create(CUstream *out, unsigned flags)
{
	return sim_stream_create_priority(out, flags, 0);
}

CUresult sim_stream_destroy(CUstream handle)
{
	struct sim_stream *stream = (struct sim_stream *)(void *)handle;
	CUresult err = CUDA_ERROR_INVALID_HANDLE;

	sim_lock();
	if (sim_handle_is(SIM_K_STREAM, stream) && stream->detached) {
		err = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	} else if (sim_handle_is(SIM_K_STREAM, stream)) {
		sim_handle_remove(stream);
		sim_stream_drop(stream);
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

static CUresult query(struct sim_stream *stream)
{
	if (stream->legacy ? !sim_blocking_idle(stream->ctx)
			   : stream->tail != NULL)
		return CUDA_ERROR_NOT_READY;
	if (sim_oracle_on())
		sim_oracle_idle(stream);
	return CUDA_SUCCESS;
}

CUresult sim_stream_query(CUstream handle)
{
	CUresult err = sim_capture_forbids_beside(handle);
	struct sim_stream *stream;

	if (err)
		return err;
	sim_lock();
	stream = sim_stream_of(handle);
	err = stream ? sim_capture_sync(stream) : CUDA_ERROR_INVALID_HANDLE;
	if (!err)
		err = query(stream);
	if (err == CUDA_ERROR_NOT_READY && sim_oracle_on())
		sim_lazy_asked(stream);
	sim_unlock();
	return err;
}

/* For all that the stream has now. It may go meanwhile. locked. */
static void wait(struct sim_stream *stream)
{
	struct sim_op *tail = stream->tail;

	if (stream->legacy) {
		sim_drain_blocking(stream->ctx);
	} else if (tail) {
		sim_op_ref(tail);
		sim_op_wait(tail);
		sim_op_unref(tail);
	} else if (sim_oracle_on()) {
		sim_oracle_idle(stream);
	}
}

CUresult sim_stream_synchronize(CUstream handle)
{
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct sim_stream *stream;
	struct sim_ctx *ctx;

	sim_lock();
	stream = sim_stream_of(handle);
	if (stream)
		err = sim_capture_sync(stream);
	if (!err) {
		ctx = stream->ctx;
		wait(stream);
		err = ctx->sticky;
	}
	if (!err)
		sim_pools_settle();
	sim_unlock();
	return err;
}

/* ---- what a stream is ------------------------------------------------------ */

CUresult sim_stream_ctx(CUstream handle, CUcontext *ctx)
{
	struct sim_stream *stream;

	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	if (stream)
		*ctx = (CUcontext)(void *)(stream->green ? stream->green
							 : stream->ctx);
	sim_unlock();
	return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

#if CUDA_VERSION >= 12050
CUresult sim_stream_ctx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green)
{
	struct sim_stream *stream;

	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	if (stream)
		*ctx = (CUcontext)(void *)stream->ctx;
	if (stream && green)
		*green = (CUgreenCtx)(stream->green ? stream->green->green
						    : NULL);
	sim_unlock();
	return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
#endif

/* These questions end the stream's capture (measured, driver 580). */
static CUresult asked(struct sim_stream *stream)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture)
		return sim_capture_break(stream,
					 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return CUDA_SUCCESS;
}

CUresult sim_stream_flags(CUstream handle, unsigned *flags)
{
	struct sim_stream *stream;
	CUresult err;

	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	err = asked(stream);
	if (err == CUDA_SUCCESS)
		*flags = stream->flags;
	sim_unlock();
	return err;
}

CUresult sim_stream_priority(CUstream handle, int *priority)
{
	struct sim_stream *stream;

	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	if (stream)
		*priority = stream->priority;
	sim_unlock();
	return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_stream_id(CUstream handle, unsigned long long *id)
{
	struct sim_stream *stream;
	CUresult err;

	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	err = asked(stream);
	if (err == CUDA_SUCCESS)
		*id = stream->id;
	sim_unlock();
	return err;
}

CUresult sim_stream_device(CUstream handle, CUdevice *device)
{
	struct sim_stream *stream;

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	if (stream)
		*device = stream->ctx->device->ordinal;
	sim_unlock();
	return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
