/*
 * Copies and sets as they are carried out: piece by piece, each pinned while
 * it is worked on, without the lock. What cannot be reached is the fault a
 * card reports as an illegal address.
 */
#include "tests/sim/work.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/engine.h"
#include "tests/sim/graph.h"
#include "tests/sim/graph_pages.h"

struct sim_box sim_box_line(CUdeviceptr va, uint64_t bytes)
{
	return (struct sim_box){va, bytes, bytes, bytes, 1, 1};
}

uint64_t sim_box_extent(const struct sim_box *box)
{
	if (!box->width || !box->height || !box->depth)
		return 0;
	return (box->depth - 1) * box->slice + (box->height - 1) * box->pitch +
	       box->width;
}

static bool reach(struct sim_ctx *ctx, bool write, CUdeviceptr va,
		  uint64_t bytes, struct sim_piece *piece)
{
	struct sim_agent agent = {ctx, false, write};
	bool good;

	sim_lock();
	good = sim_reach(&agent, va, bytes, piece);
	sim_unlock();
	return good;
}

static void done(struct sim_piece *piece)
{
	sim_lock();
	sim_piece_done(piece);
	sim_unlock();
}

static void fill(char *at, uint64_t bytes, uint64_t value, unsigned width)
{
	if (width == 1) {
		memset(at, (int)value, bytes);
	} else if (width == 2) {
		uint16_t v = (uint16_t)value;

		for (uint64_t i = 0; i + 2 <= bytes; i += 2)
			memcpy(at + i, &v, 2);
	} else {
		uint32_t v = (uint32_t)value;

		for (uint64_t i = 0; i + 4 <= bytes; i += 4)
			memcpy(at + i, &v, 4);
	}
}

static CUresult set_row(struct sim_ctx *ctx, CUdeviceptr va, uint64_t bytes,
			const struct sim_work *work)
{
	struct sim_piece piece;

	for (; bytes; va += piece.bytes, bytes -= piece.bytes) {
		if (!reach(ctx, true, va, bytes, &piece))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		fill(piece.at, piece.bytes, work->value, work->bytes);
		done(&piece);
	}
	return CUDA_SUCCESS;
}

static CUresult copy_row(struct sim_ctx *ctx, const struct sim_work *work,
			 CUdeviceptr dst, CUdeviceptr src, const char *staged)
{
	struct sim_ctx *dst_ctx = work->dst_ctx ? work->dst_ctx : ctx;
	struct sim_ctx *src_ctx = work->src_ctx ? work->src_ctx : ctx;
	uint64_t bytes = work->dst.width;
	struct sim_piece to, from = {NULL, 0, NULL};

	while (bytes) {
		uint64_t n;

		if (staged)
			from = (struct sim_piece){(char *)staged, bytes, NULL};
		else if (!reach(src_ctx, false, src, bytes, &from))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (!reach(dst_ctx, true, dst, from.bytes, &to)) {
			done(&from);
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		}
		n = to.bytes;
		memmove(to.at, from.at, n);
		done(&to);
		done(&from);
		dst += n;
		src += n;
		staged = staged ? staged + n : NULL;
		bytes -= n;
	}
	return CUDA_SUCCESS;
}

static CUresult run_boxes(struct sim_ctx *ctx, const struct sim_work *work)
{
	const struct sim_box *d = &work->dst, *s = &work->src;
	CUresult err = CUDA_SUCCESS;

	for (uint64_t z = 0; z < d->depth; z++) {
		for (uint64_t y = 0; y < d->height && !err; y++) {
			CUdeviceptr to = d->va + z * d->slice + y * d->pitch;
			uint64_t at = z * s->slice + y * s->pitch;
			const char *staged = work->staging;

			if (work->kind == SIM_W_SET)
				err = set_row(ctx, to, d->width, work);
			else
				err = copy_row(ctx, work, to, s->va + at,
					       staged ? staged + at : NULL);
		}
	}
	return err;
}

static CUresult write_value(struct sim_ctx *ctx, const struct sim_work *work)
{
	struct sim_piece piece;

	if (!reach(ctx, true, work->dst.va, work->bytes, &piece))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (work->bytes == 4)
		__atomic_store_n((uint32_t *)(void *)piece.at,
				 (uint32_t)work->value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)(void *)piece.at, work->value,
				 __ATOMIC_RELEASE);
	done(&piece);
	return CUDA_SUCCESS;
}

static CUresult look(struct sim_ctx *ctx, const struct sim_work *work)
{
	struct sim_piece piece;

	if (!reach(ctx, false, work->dst.va, work->bytes, &piece))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	done(&piece);
	return CUDA_SUCCESS;
}

CUresult sim_work_run(struct sim_ctx *ctx, CUstream stream,
		      const struct sim_work *work)
{
	switch (work->kind) {
	case SIM_W_SET:
	case SIM_W_COPY:
		return run_boxes(ctx, work);
	case SIM_W_KERNEL:
		return work->kernel->run(ctx, work->args);
	case SIM_W_HOST:
		work->host(work->data);
		return CUDA_SUCCESS;
	case SIM_W_CALLBACK:
		work->callback(stream, CUDA_SUCCESS, work->data);
		return CUDA_SUCCESS;
	case SIM_W_WRITE:
		return write_value(ctx, work);
	case SIM_W_POLL:
		return look(ctx, work);
	case SIM_W_GRAPH:
		return sim_exec_run(work->exec, ctx, stream);
	case SIM_W_MARK:
	case SIM_W_WAIT:
	case SIM_W_FREE:
	case SIM_W_NODE_ALLOC:
	case SIM_W_NODE_FREE:
		break;
	}
	return CUDA_SUCCESS;
}

bool sim_work_is_host(const struct sim_work *work)
{
	if (work->kind == SIM_W_GRAPH)
		return work->exec->has_host;
	return work->kind == SIM_W_HOST || work->kind == SIM_W_CALLBACK;
}

void sim_work_drop(struct sim_work *work)
{
	free(work->staging);
	work->staging = NULL;
	if (work->awaited)
		sim_op_unref(work->awaited);
	work->awaited = NULL;
	if (work->exec)
		sim_exec_unref(work->exec);
	work->exec = NULL;
	if (work->run) {
		sim_run_done(work->run);
		sim_run_unref(work->run);
	}
	work->run = NULL;
}
