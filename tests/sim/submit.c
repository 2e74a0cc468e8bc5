/*
 * Giving streams work, and waiting for it.
 */
#include <stdlib.h>

#include "tests/sim/capture.h"
#include "tests/sim/engine.h"
#include "tests/sim/gpusim.h"
#include "tests/sim/lazy.h"
#include "tests/sim/oracle.h"

void sim_op_ref(struct sim_op *op)
{
	op->refs++;
}

void sim_op_unref(struct sim_op *op)
{
	if (--op->refs)
		return;
	sim_work_drop(&op->work);
	free(op);
}

static struct sim_op *enqueue(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->stream = stream;
	op->seq = ++sim.next_seq;
	op->refs = 1;
	op->work = *work;
	if (stream->tail)
		stream->tail->next = op;
	else
		stream->head = op;
	stream->tail = op;
	if (stream->head == op)
		sim_list_add(&sim.active, &stream->active);
	sim.pending++;
	if (sim_oracle_on())
		sim_oracle_submit(op);
	return op;
}

/* Put the wait before a stream's next work that sim_hold_behind() asked for.
 * False: no host memory. */
static bool hold(struct sim_stream *stream)
{
	struct sim_op *held = stream->ctx->held;
	struct sim_work wait = {
		.kind = SIM_W_WAIT, .awaited = held, .program = true};

	if (!held || held->state == SIM_DONE || stream->hidden ||
	    stream->held >= held->seq)
		return true;
	if (!enqueue(stream, &wait))
		return false;
	sim_op_ref(held);
	stream->held = held->seq;
	return true;
}

/* Do what needs no waiting at once; leave the rest to the threads. */
static void advance(struct sim_op *op)
{
	bool host = sim_work_is_host(&op->work);

	if (sim_oracle_on()) {
		sim_lazy_submitted();
		return;
	}
	if (!host && !op->work.us && op->work.kind != SIM_W_POLL &&
	    op->stream->head == op && sim_op_ready(op)) {
		sim_op_perform(op);
		if (sim.pending)
			sim_engine_wake(false);
		return;
	}
	sim_engine_wake(host);
}

CUresult sim_submit(struct sim_stream *stream, struct sim_work *work,
		    struct sim_op **out)
{
	struct sim_ctx *ctx = stream->ctx;
	struct sim_op *op;
	CUresult err = sim_capture_submit(stream, work);

	if (out)
		*out = NULL;
	if (err == CUDA_SUCCESS)
		return CUDA_SUCCESS; /* it is a node now */
	if (err != CUDA_ERROR_NOT_FOUND) {
		sim_work_drop(work);
		return err;
	}
	while (ctx->barriers && !sim.stopping)
		sim_wait_more();
	if (!ctx->alive) { /* gone meanwhile, and the stream with it */
		sim_work_drop(work);
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	op = ctx->sticky || !hold(stream) ? NULL : enqueue(stream, work);
	if (!op) {
		sim_work_drop(work);
		return ctx->sticky ? ctx->sticky : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (out) {
		sim_op_ref(op);
		*out = op;
	}
	sim_op_ref(op);
	advance(op);
	sim_op_unref(op);
	return CUDA_SUCCESS;
}

/* A stream of the engine's own. */
static struct sim_stream *hidden(struct sim_ctx *ctx,
				 struct sim_stream **stream)
{
	if (!*stream)
		*stream = sim_stream_new(ctx, CU_STREAM_NON_BLOCKING);
	if (*stream)
		(*stream)->hidden = true;
	return *stream;
}

CUresult sim_submit_hidden(struct sim_ctx *ctx, struct sim_stream **stream,
			   struct sim_work *work, struct sim_op **op)
{
	if (hidden(ctx, stream))
		return sim_submit(*stream, work, op);
	sim_work_drop(work);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_submit_last(struct sim_ctx *ctx, struct sim_work *work,
			 struct sim_op **op)
{
	if (!hidden(ctx, &ctx->sweeper))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->sweeper->sweeper = true;
	return sim_submit(ctx->sweeper, work, op);
}

CUresult sim_hold_behind(struct sim_ctx *ctx, struct sim_op *op)
{
	struct sim_work wait = {
		.kind = SIM_W_WAIT, .awaited = op, .program = true};
	struct sim_op *held;
	CUresult err;

	sim_op_ref(op);
	err = sim_submit_hidden(ctx, &ctx->gatekeeper, &wait, &held);
	if (err)
		return err;
	/* Behind it in its stream are all that were asked for before. */
	if (ctx->held)
		sim_op_unref(ctx->held);
	ctx->held = held;
	return CUDA_SUCCESS;
}

void sim_wait_more(void)
{
	if (sim_oracle_on())
		sim_lazy_wait();
	else
		pthread_cond_wait(&sim.done, &sim.lock);
}

void sim_op_wait(struct sim_op *op)
{
	if (sim_oracle_on())
		sim_oracle_host_waits(op);
	while (op->state != SIM_DONE && !sim.stopping)
		sim_wait_more();
	if (sim_oracle_on())
		sim_oracle_host_knows(op);
}

/* Of work up to `until`; only of streams that the legacy one waits for? */
static bool has_work(const struct sim_ctx *ctx, uint64_t until, bool blocking)
{
	struct sim_list *l;

	for (l = sim.active.next; l != &sim.active; l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, active);

		if (s->ctx == ctx && s->head->seq <= until &&
		    !(blocking && s->flags & CU_STREAM_NON_BLOCKING))
			return true;
	}
	return false;
}

bool sim_idle(const struct sim_ctx *ctx)
{
	return !has_work(ctx, UINT64_MAX, false);
}

bool sim_blocking_idle(struct sim_ctx *ctx)
{
	struct sim_clock clock;

	if (has_work(ctx, UINT64_MAX, true))
		return false;
	if (sim_oracle_on()) {
		sim_oracle_drain_begin(ctx, true, &clock);
		sim_oracle_drain_end(&clock);
	}
	return true;
}

static void drain(struct sim_ctx *ctx, bool blocking)
{
	uint64_t until = sim.next_seq;
	struct sim_clock clock;

	if (sim_oracle_on())
		sim_oracle_drain_begin(ctx, blocking, &clock);
	if (sim_oracle_on() && has_work(ctx, until, blocking))
		sim_oracle_drain_waits(&clock);
	while (has_work(ctx, until, blocking) && !sim.stopping)
		sim_wait_more();
	if (sim_oracle_on())
		sim_oracle_drain_end(&clock);
}

void sim_drain(struct sim_ctx *ctx)
{
	drain(ctx, false);
}

void sim_drain_blocking(struct sim_ctx *ctx)
{
	drain(ctx, true);
}

void sim_barrier_begin(struct sim_ctx *ctx)
{
	ctx->barriers++;
	sim_drain(ctx);
}

void sim_barrier_end(struct sim_ctx *ctx)
{
	ctx->barriers--;
	pthread_cond_broadcast(&sim.done);
}

__attribute__((visibility("default"))) long gpusim_pending(void)
{
	long pending;

	sim_lock();
	pending = sim.pending;
	sim_unlock();
	return pending;
}
