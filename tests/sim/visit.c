/*
 * Copies that reach memory of a context other than their stream's, of another
 * card or the same.
 *
 * As measured (driver 580; two H200, two contexts of one; with peer access and
 * without). A copy in the legacy stream is in that of each such context as well,
 * asynchronous or not. In other streams it is in no order with the other's
 * work, but cuCtxSynchronize and cuMemFree there wait for it; only not for one
 * by the card that it comes from to a peer, or to another context of its own. All that
 * holds where the driver knows whose the memory is: of cuMemAlloc, or with the
 * contexts named. Virtual memory belongs to none.
 */
#include "tests/sim/engine.h"
#include "tests/sim/oracle.h"

/* Whose memory, as the driver knows; NULL: nobody's. */
static struct sim_ctx *host_of(CUdeviceptr va, struct sim_ctx *named,
			       const struct sim_work *work)
{
	const struct sim_region *region = sim_region_at(va);

	if (!sim_is_device_va(va) || !region)
		return NULL;
	if (work->named)
		return named;
	return region->kind == SIM_RESERVED ? NULL : region->ctx;
}

static void add(struct sim_visit *visit, struct sim_ctx *ctx, bool kept)
{
	if (visit->n && visit->at[0] == ctx)
		return;
	visit->at[visit->n] = ctx;
	visit->kept[visit->n++] = kept;
}

static bool reaches(const struct sim_ctx *ctx, const struct sim_ctx *other)
{
	return ctx->device == other->device ||
	       ctx->peers >> other->device->ordinal & 1;
}

CUresult sim_visit_begin(struct sim_stream *stream, const struct sim_work *work,
			 struct sim_visit *visit)
{
	struct sim_ctx *own = stream->ctx, *from, *to;
	CUresult err = CUDA_SUCCESS;

	visit->n = 0;
	if (work->kind != SIM_W_COPY || stream->capture)
		return CUDA_SUCCESS;
	from = host_of(work->src.va, work->src_ctx, work);
	to = host_of(work->dst.va, work->dst_ctx, work);
	if (from && from != own)
		add(visit, from, true);
	if (to && to != own)
		add(visit, to, from != own || !reaches(own, to));
	for (unsigned i = 0; stream->legacy && i < visit->n && !err; i++) {
		struct sim_work mark = {.kind = SIM_W_MARK, .program = true};
		struct sim_work wait = {.kind = SIM_W_WAIT, .program = true};

		err = sim_submit(visit->at[i]->legacy, &mark, &wait.awaited);
		if (!err)
			err = sim_submit(stream, &wait, NULL);
	}
	return err;
}

CUresult sim_visit_end(struct sim_stream *stream, struct sim_op *op,
		       const struct sim_visit *visit)
{
	CUresult err = CUDA_SUCCESS;

	if (visit->n && sim_oracle_on())
		sim_oracle_visit(op, visit);
	for (unsigned i = 0; i < visit->n && !err; i++) {
		struct sim_ctx *at = visit->at[i];
		struct sim_work wait = {
			.kind = SIM_W_WAIT, .awaited = op, .program = true};

		if (!stream->legacy && !visit->kept[i])
			continue;
		sim_op_ref(op);
		err = stream->legacy
			      ? sim_submit(at->legacy, &wait, NULL)
			      : sim_submit_hidden(at, &at->visits, &wait, NULL);
	}
	return err;
}
