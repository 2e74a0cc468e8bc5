/*
 * Copies, as they are asked for.
 *
 * What waits is as measured and documented: a copy between host and device
 * that is not Async waits; a copy inside a device, and a set, do not. An
 * Async copy into pageable memory waits; one out of it has taken its source
 * when it returns.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/engine.h"

/* A whole box can be reached by a copy of this context. locked. */
static bool in_reach(struct sim_ctx *ctx, const struct sim_box *box, bool write)
{
	struct sim_agent agent = {ctx, false, write};
	uint64_t bytes = sim_box_extent(box);

	return sim_reachable(&agent, box->va, bytes);
}

static bool stage(struct sim_work *work)
{
	uint64_t bytes = sim_box_extent(&work->src);

	work->staging = malloc(bytes);
	if (!work->staging)
		return false;
	memcpy(work->staging, (const void *)(uintptr_t)work->src.va, bytes);
	return true;
}

/* Must the caller wait for the copy? Takes its source where it need not, but
 * could change it. locked. */
static CUresult decide_wait(struct sim_stream *stream, struct sim_work *work,
			    bool sync, bool *wait)
{
	*wait = false;
	if (work->kind == SIM_W_SET)
		return CUDA_SUCCESS;
	if (sync)
		*wait = !sim_is_device_va(work->dst.va) ||
			!sim_is_device_va(work->src.va);
	else if (stream->capture)
		return CUDA_SUCCESS;
	else if (sim_is_pageable(work->dst.va))
		*wait = true;
	else if (sim_is_pageable(work->src.va) && !stage(work))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

/* A set is work of the stream's card, whose memory or peer it must be. A copy
 * that names no contexts has the access of the current one, whatever its stream
 * (both measured, driver 580). */
static bool may_set(const struct sim_ctx *ctx, const struct sim_box *box)
{
	const struct sim_region *region = sim_region_at(box->va);

	if (sim_is_pageable(box->va))
		return false;
	return !region || region->kind == SIM_RESERVED ||
	       !sim_is_device_va(box->va) || region->device == ctx->device ||
	       ctx->peers >> region->device->ordinal & 1;
}

/* Is all it touches there to be touched? locked. */
static bool sound(struct sim_ctx *ctx, const struct sim_work *work)
{
	if (work->kind == SIM_W_SET)
		return in_reach(ctx, &work->dst, true) &&
		       may_set(ctx, &work->dst);
	return in_reach(work->dst_ctx, &work->dst, true) &&
	       in_reach(work->src_ctx, &work->src, false);
}

static CUresult transfer(CUstream hstream, struct sim_work *work, bool sync)
{
	struct sim_stream *stream = sim_stream_of(hstream);
	struct sim_op *op = NULL;
	struct sim_visit visit;
	bool wait;
	CUresult err;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (sync) {
		err = sim_capture_sync(stream);
		if (err)
			return err;
	}
	if (!sim_box_extent(&work->dst))
		return CUDA_SUCCESS;
	if (!work->dst_ctx)
		work->dst_ctx = sim_current();
	if (!work->src_ctx)
		work->src_ctx = sim_current();
	if (!sound(stream->ctx, work))
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_visit_begin(stream, work, &visit);
	if (!err)
		err = decide_wait(stream, work, sync, &wait);
	if (err)
		return err;
	work->us = sim.settings.copy_us;
	err = sim_submit(stream, work, wait || visit.n ? &op : NULL);
	if (op && !err)
		err = sim_visit_end(stream, op, &visit);
	if (op && !wait) {
		sim_op_unref(op);
	} else if (op) {
		sim_op_wait(op);
		/* Else the process ends, and nothing was copied. */
		err = op->state == SIM_DONE ? stream->ctx->sticky
					    : CUDA_ERROR_DEINITIALIZED;
		sim_op_unref(op);
	}
	return err;
}

CUresult sim_transfer(CUstream hstream, struct sim_work *work, bool sync)
{
	CUresult err;

	sim_lock();
	err = transfer(hstream, work, sync);
	sim_unlock();
	return err;
}

static CUresult copy_boxes(struct sim_box dst, struct sim_box src,
			   CUstream stream, bool sync)
{
	struct sim_work work = {.kind = SIM_W_COPY, .dst = dst, .src = src};

	return sim_transfer(stream, &work, sync);
}

static CUresult copy_line(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
			  CUstream stream, bool sync)
{
	return copy_boxes(sim_box_line(dst, bytes), sim_box_line(src, bytes),
			  stream, sync);
}

#define HOST(p) ((CUdeviceptr)(uintptr_t)(p))

CUresult sim_copy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy_line(dst, src, n, NULL, true);
}

CUresult sim_copy_async(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
	return copy_line(dst, src, n, s, false);
}

CUresult sim_copy_htod(CUdeviceptr dst, const void *src, size_t n)
{
	return copy_line(dst, HOST(src), n, NULL, true);
}

CUresult sim_copy_dtoh(void *dst, CUdeviceptr src, size_t n)
{
	return copy_line(HOST(dst), src, n, NULL, true);
}

CUresult sim_copy_dtod(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	return copy_line(dst, src, n, NULL, true);
}

CUresult sim_copy_htod_async(CUdeviceptr dst, const void *src, size_t n,
			     CUstream s)
{
	return copy_line(dst, HOST(src), n, s, false);
}

CUresult sim_copy_dtoh_async(void *dst, CUdeviceptr src, size_t n, CUstream s)
{
	return copy_line(HOST(dst), src, n, s, false);
}

CUresult sim_copy_dtod_async(CUdeviceptr dst, CUdeviceptr src, size_t n,
			     CUstream s)
{
	return copy_line(dst, src, n, s, false);
}

/* A peer copy works for one context at each end, so it needs no peer access
 * and no access set for the other's device. */
static CUresult peer(CUdeviceptr dst, CUcontext dctx, CUdeviceptr src,
		     CUcontext sctx, size_t n, CUstream stream, bool sync)
{
	struct sim_work work = {
		.kind = SIM_W_COPY,
		.dst = sim_box_line(dst, n),
		.src = sim_box_line(src, n),
		.dst_ctx = (struct sim_ctx *)(void *)dctx,
		.src_ctx = (struct sim_ctx *)(void *)sctx,
		.named = true,
	};
	CUresult err;

	sim_lock();
	if (sim_handle_is(SIM_K_CTX, work.dst_ctx) && work.dst_ctx->alive &&
	    sim_handle_is(SIM_K_CTX, work.src_ctx) && work.src_ctx->alive)
		err = transfer(stream, &work, sync);
	else
		err = CUDA_ERROR_INVALID_CONTEXT;
	sim_unlock();
	return err;
}

CUresult sim_copy_peer(CUdeviceptr dst, CUcontext dctx, CUdeviceptr src,
		       CUcontext sctx, size_t n)
{
	return peer(dst, dctx, src, sctx, n, NULL, true);
}

CUresult sim_copy_peer_async(CUdeviceptr dst, CUcontext dctx, CUdeviceptr src,
			     CUcontext sctx, size_t n, CUstream s)
{
	return peer(dst, dctx, src, sctx, n, s, false);
}
