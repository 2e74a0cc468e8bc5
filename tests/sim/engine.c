#include "tests/sim/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/capture.h"
#include "tests/sim/gpusim.h"

/* How often a wait value is looked at: the host may write it any time. */
#define POLL_NS 50000

/* Guarded by sim.lock. */
static struct {
	struct sim_list active; /* streams with work */
	pthread_t scheduler, host;
	bool scheduler_up, host_up, host_busy;
	long pending;
} engine = {.active = {&engine.active, &engine.active}};

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

/* Does `stream` hold something that `seq` is ordered behind by the legacy
 * stream's rule? */
static bool holds_back(const struct sim_stream *other, uint64_t seq)
{
	return other->head && other->head->seq < seq;
}

/* Is nothing older left on the context's streams; of these, for the legacy
 * stream, the blocking ones? */
static bool oldest(const struct sim_op *op)
{
	const struct sim_ctx *ctx = op->stream->ctx;
	bool all = op->stream->sweeper;
	struct sim_list *l;

	for (l = engine.active.next; l != &engine.active; l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, active);

		if (s->ctx == ctx && holds_back(s, op->seq) &&
		    (all || !(s->flags & CU_STREAM_NON_BLOCKING)))
			return false;
	}
	return true;
}

static bool value_met(const struct sim_work *work)
{
	struct sim_agent agent = {NULL, false, false};
	struct sim_piece piece;
	uint64_t now = 0;
	int64_t ahead;

	/* Unreachable: go on, running it will say what is wrong. */
	if (!sim_reach(&agent, work->dst.va, work->bytes, &piece))
		return true;
	if (work->bytes == 4)
		now = __atomic_load_n((uint32_t *)(void *)piece.at,
				      __ATOMIC_ACQUIRE);
	else
		now = __atomic_load_n((uint64_t *)(void *)piece.at,
				      __ATOMIC_ACQUIRE);
	sim_piece_done(&piece);
	ahead = work->bytes == 4 ? (int32_t)(uint32_t)(now - work->value)
				 : (int64_t)(now - work->value);
	switch (work->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return ahead >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return ahead == 0;
	case CU_STREAM_WAIT_VALUE_AND:
		return now & work->value;
	default:
		return ~(now | work->value) &
		       (work->bytes == 4 ? UINT32_MAX : UINT64_MAX);
	}
}

/* May the head of a stream start? */
static bool ready(struct sim_op *op)
{
	struct sim_stream *stream = op->stream;

	if ((stream->legacy || stream->sweeper) && !oldest(op))
		return false;
	if (!stream->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING) &&
	    stream->ctx->legacy && holds_back(stream->ctx->legacy, op->seq))
		return false;
	if (op->work.kind == SIM_W_WAIT)
		return op->work.awaited->state == SIM_DONE;
	if (op->work.kind == SIM_W_POLL)
		return stream->ctx->sticky || value_met(&op->work);
	return true;
}

static void complete(struct sim_op *op, CUresult err)
{
	struct sim_stream *stream = op->stream;

	if (err && !stream->ctx->sticky)
		stream->ctx->sticky = err;
	op->state = SIM_DONE;
	op->finished = sim_now();
	op->stream = NULL;
	stream->head = op->next;
	if (!stream->head) {
		stream->tail = NULL;
		sim_list_del(&stream->active);
		if (stream->destroyed) {
			sim_list_del(&stream->link);
			free(stream);
		}
	}
	engine.pending--;
	sim_op_unref(op);
	pthread_cond_broadcast(&sim.done);
}

/* Do the work of a head that is due, and take it off its stream. */
static void perform(struct sim_op *op)
{
	struct sim_ctx *ctx = op->stream->ctx;
	CUresult err = CUDA_SUCCESS;

	op->state = SIM_CLAIMED;
	if (op->work.kind == SIM_W_FREE) {
		sim_region_destroy(op->work.region);
	} else if (!ctx->sticky) {
		struct sim_stream *stream = op->stream;

		sim_unlock();
		err = sim_work_run(ctx, (CUstream)(void *)stream, &op->work);
		sim_lock();
	}
	complete(op, err);
}

/* ---- the two threads ----------------------------------------------------- */

/* A head whose time has come, for the host thread or the other; *next: when
 * the earliest of the rest is due. */
static struct sim_op *pick(bool host, uint64_t *next)
{
	struct sim_list *l;
	uint64_t now = sim_now();

	*next = UINT64_MAX;
	for (l = engine.active.next; l != &engine.active; l = l->next) {
		struct sim_op *op =
			sim_entry(l, struct sim_stream, active)->head;

		if (sim_work_is_host(&op->work) != host)
			continue;
		if (op->state == SIM_QUEUED) {
			if (!ready(op)) {
				if (op->work.kind == SIM_W_POLL &&
				    *next > now + POLL_NS)
					*next = now + POLL_NS;
				continue;
			}
			op->state = SIM_RUNNING;
			op->due = now + op->work.us * 1000;
		}
		if (op->state != SIM_RUNNING)
			continue;
		if (op->due <= now)
			return op;
		if (op->due < *next)
			*next = op->due;
	}
	return NULL;
}

static void wait_until(uint64_t due)
{
	struct timespec t = {(time_t)(due / 1000000000u),
			     (long)(due % 1000000000u)};

	if (due == UINT64_MAX)
		pthread_cond_wait(&sim.work, &sim.lock);
	else
		pthread_cond_timedwait(&sim.work, &sim.lock, &t);
}

static void *run_thread(void *arg)
{
	bool host = arg;
	uint64_t next;

	sim_thread()->host_function = host;
	sim_lock();
	while (!sim.stopping) {
		struct sim_op *op = pick(host, &next);

		if (!op) {
			wait_until(next);
			continue;
		}
		engine.host_busy = host;
		perform(op);
		if (host)
			engine.host_busy = false;
		/* The other thread may have something to start now. */
		pthread_cond_broadcast(&sim.work);
	}
	sim_unlock();
	return NULL;
}

static bool start_thread(pthread_t *thread, bool host)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, run_thread, host ? &engine : NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return !err;
}

/* There is work for the threads: have them, and wake them. */
static void wake(bool host)
{
	if (sim.stopping)
		return;
	if (host && !engine.host_up)
		engine.host_up = start_thread(&engine.host, true);
	if (!engine.scheduler_up)
		engine.scheduler_up = start_thread(&engine.scheduler, false);
	pthread_cond_broadcast(&sim.work);
}

void sim_engine_stop(void)
{
	bool host;

	sim_lock();
	sim.stopping = true;
	pthread_cond_broadcast(&sim.work);
	pthread_cond_broadcast(&sim.done);
	/* A host function may never return: it is left behind. */
	host = engine.host_up && !engine.host_busy;
	sim_unlock();
	if (engine.scheduler_up)
		pthread_join(engine.scheduler, NULL);
	if (host)
		pthread_join(engine.host, NULL);
}

/* ---- submission ------------------------------------------------------------ */

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
		sim_list_add(&engine.active, &stream->active);
	engine.pending++;
	return op;
}

/* Put the wait before a stream's next work that sim_hold_behind() asked for.
 * False: no host memory. */
static bool hold(struct sim_stream *stream)
{
	struct sim_op *held = stream->ctx->held;
	struct sim_work wait = {.kind = SIM_W_WAIT, .awaited = held};

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

	if (!host && !op->work.us && op->work.kind != SIM_W_POLL &&
	    op->stream->head == op && ready(op)) {
		perform(op);
		if (engine.pending)
			wake(false);
		return;
	}
	wake(host);
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
		pthread_cond_wait(&sim.done, &sim.lock);
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
	struct sim_work wait = {.kind = SIM_W_WAIT, .awaited = op};
	struct sim_op *held;
	CUresult err;

	if (!hidden(ctx, &ctx->gatekeeper))
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_op_ref(op);
	err = sim_submit(ctx->gatekeeper, &wait, &held);
	if (err)
		return err;
	/* Behind it in its stream are all that were asked for before. */
	if (ctx->held)
		sim_op_unref(ctx->held);
	ctx->held = held;
	return CUDA_SUCCESS;
}

void sim_op_wait(struct sim_op *op)
{
	while (op->state != SIM_DONE && !sim.stopping)
		pthread_cond_wait(&sim.done, &sim.lock);
}

static bool has_work(const struct sim_ctx *ctx, uint64_t until)
{
	struct sim_list *l;

	for (l = engine.active.next; l != &engine.active; l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, active);

		if (s->ctx == ctx && s->head->seq <= until)
			return true;
	}
	return false;
}

bool sim_idle(const struct sim_ctx *ctx)
{
	return !has_work(ctx, UINT64_MAX);
}

void sim_drain(struct sim_ctx *ctx)
{
	uint64_t until = sim.next_seq;

	while (has_work(ctx, until) && !sim.stopping)
		pthread_cond_wait(&sim.done, &sim.lock);
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
	pending = engine.pending;
	sim_unlock();
	return pending;
}
