/*
 * Events. A record puts a mark into its stream; the event names the last one.
 */
#include "tests/sim/event.h"

#include <stdlib.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/gpusim.h"
#include "tests/sim/lazy.h"
#include "tests/sim/oracle.h"
#include "tests/sim/pool.h"

struct sim_event *sim_event_of(CUevent handle)
{
	struct sim_event *event = (struct sim_event *)(void *)handle;

	return sim_handle_is(SIM_K_EVENT, event) ? event : NULL;
}

CUresult sim_event_create(CUevent *out, unsigned flags)
{
	const unsigned known = CU_EVENT_BLOCKING_SYNC |
			       CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	struct sim_event *event;

	if (!out || flags & ~known ||
	    (flags & CU_EVENT_INTERPROCESS &&
	     !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	event->ctx = sim_current();
	event->flags = flags;
	sim_list_add(&event->ctx->events, &event->link);
	sim_handle_add(SIM_K_EVENT, event);
	sim_unlock();
	*out = (CUevent)(void *)event;
	return CUDA_SUCCESS;
}

static void destroy(struct sim_event *event)
{
	sim_handle_remove(event);
	sim_list_del(&event->link);
	if (event->mark)
		sim_op_unref(event->mark);
	free(event->deps);
	free(event);
}

CUresult sim_event_destroy(CUevent handle)
{
	struct sim_event *event;

	sim_lock();
	event = sim_event_of(handle);
	if (event)
		destroy(event);
	sim_unlock();
	return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void sim_events_destroy(struct sim_ctx *ctx)
{
	while (!sim_list_empty(&ctx->events))
		destroy(sim_entry(ctx->events.next, struct sim_event, link));
}

void sim_event_is(struct sim_event *event, struct sim_op *op)
{
	sim_op_ref(op);
	if (event->mark)
		sim_op_unref(event->mark);
	event->mark = op;
	event->capture = 0;
}

/* locked */
static CUresult record(struct sim_event *event, struct sim_stream *stream,
		       unsigned flags)
{
	struct sim_work mark = {.kind = SIM_W_MARK, .program = event->program};
	struct sim_op *op;
	CUresult err;

	if (event->ctx != stream->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture && flags & CU_EVENT_RECORD_EXTERNAL) {
		mark.event = event;
		return sim_submit(stream, &mark, NULL);
	}
	if (stream->capture)
		return sim_capture_record(stream, event);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_submit(stream, &mark, &op);
	if (err)
		return err;
	sim_event_is(event, op);
	sim_op_unref(op);
	return CUDA_SUCCESS;
}

CUresult sim_event_record_flags(CUevent handle, CUstream hstream,
				unsigned flags)
{
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct sim_stream *stream;
	struct sim_event *event;

	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	event = sim_event_of(handle);
	stream = sim_stream_of(hstream);
	if (event && stream)
		err = record(event, stream, flags);
	sim_unlock();
	return err;
}

CUresult sim_event_record(CUevent handle, CUstream stream)
{
	return sim_event_record_flags(handle, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult sim_event_query(CUevent handle)
{
	CUresult err = CUDA_SUCCESS;
	struct sim_event *event;

	sim_lock();
	event = sim_event_of(handle);
	if (!event)
		err = CUDA_ERROR_INVALID_HANDLE;
	else if (event->capture)
		err = CUDA_ERROR_CAPTURED_EVENT;
	else if (event->mark && event->mark->state != SIM_DONE)
		err = CUDA_ERROR_NOT_READY;
	else if (event->mark && sim_oracle_on())
		sim_oracle_host_knows(event->mark);
	if (err == CUDA_ERROR_NOT_READY && sim_oracle_on())
		sim_lazy_asked(event->mark->stream);
	sim_unlock();
	return err;
}

CUresult sim_event_synchronize(CUevent handle)
{
	CUresult err = CUDA_SUCCESS;
	struct sim_event *event;

	sim_lock();
	event = sim_event_of(handle);
	if (!event) {
		err = CUDA_ERROR_INVALID_HANDLE;
	} else if (event->capture) {
		err = CUDA_ERROR_CAPTURED_EVENT;
	} else if (event->mark) {
		struct sim_ctx *ctx = event->ctx;
		struct sim_op *mark = event->mark;

		sim_op_ref(mark);
		sim_op_wait(mark);
		sim_op_unref(mark);
		err = ctx->sticky;
		sim_pools_settle();
	}
	sim_unlock();
	return err;
}

CUresult sim_event_elapsed(float *ms, CUevent hstart, CUevent hend)
{
	struct sim_event *start, *end;
	CUresult err = CUDA_SUCCESS;

	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	start = sim_event_of(hstart);
	end = sim_event_of(hend);
	if (!start || !end || !start->mark || !end->mark ||
	    (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		err = CUDA_ERROR_INVALID_HANDLE;
	else if (start->mark->state != SIM_DONE || end->mark->state != SIM_DONE)
		err = CUDA_ERROR_NOT_READY;
	else
		*ms = (float)((double)(int64_t)(end->mark->finished -
						start->mark->finished) /
			      1e6);
	if (!err && sim_oracle_on()) {
		sim_oracle_host_knows(start->mark);
		sim_oracle_host_knows(end->mark);
	}
	sim_unlock();
	return err;
}

/* locked */
static CUresult wait(struct sim_stream *stream, struct sim_event *event,
		     unsigned flags)
{
	struct sim_work work = {.kind = SIM_W_WAIT, .program = event->program};

	if (event->capture)
		return sim_capture_wait(stream, event);
	if (stream->capture) {
		if (flags & CU_EVENT_WAIT_EXTERNAL)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (!event->mark)
			return CUDA_SUCCESS;
		return sim_capture_break(stream,
					 CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	}
	if (event->mark && event->mark->state == SIM_DONE && sim_oracle_on())
		sim_oracle_waited(stream, event->mark, event->program);
	if (!event->mark || event->mark->state == SIM_DONE)
		return CUDA_SUCCESS;
	if (stream->launching)
		return CUDA_SUCCESS; /* a fault of the driver's: launch_us */
	work.awaited = event->mark;
	sim_op_ref(event->mark);
	return sim_submit(stream, &work, NULL);
}

CUresult sim_stream_wait_event(CUstream hstream, CUevent handle, unsigned flags)
{
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct sim_stream *stream;
	struct sim_event *event;

	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(hstream);
	event = sim_event_of(handle);
	if (stream && event)
		err = wait(stream, event, flags);
	sim_unlock();
	return err;
}

__attribute__((visibility("default"))) void gpusim_own_event(void *handle)
{
	struct sim_event *event;

	sim_lock();
	event = sim_event_of(handle);
	if (event)
		event->program = true;
	sim_unlock();
}

#if CUDA_VERSION >= 12050
/* ---- of a whole context ----------------------------------------------------- */

/* The living context behind a handle, else NULL. locked. */
static struct sim_ctx *ctx_of(CUcontext handle)
{
	struct sim_ctx *ctx = (struct sim_ctx *)(void *)handle;

	return sim_handle_is(SIM_K_CTX, ctx) && ctx->alive ? ctx : NULL;
}

CUresult sim_ctx_record_event(CUcontext hctx, CUevent handle)
{
	struct sim_work mark = {.kind = SIM_W_MARK};
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct sim_event *event;
	struct sim_ctx *ctx;
	struct sim_op *op;

	sim_lock();
	ctx = ctx_of(hctx);
	event = sim_event_of(handle);
	if (ctx && event && event->ctx == ctx)
		err = sim_capture_sync_ctx(ctx);
	if (!err)
		err = sim_submit_last(ctx, &mark, &op);
	if (!err) {
		if (event->mark)
			sim_op_unref(event->mark);
		event->mark = op;
		event->capture = 0;
	}
	sim_unlock();
	return err;
}

CUresult sim_ctx_wait_event(CUcontext hctx, CUevent handle)
{
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct sim_event *event;
	struct sim_ctx *ctx;

	sim_lock();
	ctx = ctx_of(hctx);
	event = sim_event_of(handle);
	if (ctx && event)
		err = sim_capture_sync_ctx(ctx);
	if (!err && event->mark)
		err = sim_hold_behind(ctx, event->mark);
	sim_unlock();
	return err;
}
#endif
