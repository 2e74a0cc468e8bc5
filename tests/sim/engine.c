/*
 * Completing operations, and the two threads that work streams off.
 */
#include "tests/sim/engine.h"
#include "tests/sim/graph_memory.h"
#include "tests/sim/oracle.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* How often a wait value is looked at: the host may write it any time. */
#define POLL_NS 50000

/* Guarded by sim.lock. */
static struct {
	pthread_t scheduler, host;
	bool scheduler_up, host_up, host_busy;
} engine;

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
	sim.pending--;
	sim_op_unref(op);
	pthread_cond_broadcast(&sim.done);
}

void sim_op_perform(struct sim_op *op)
{
	struct sim_ctx *ctx = op->stream->ctx;
	CUresult err = CUDA_SUCCESS;

	op->state = SIM_CLAIMED;
	if (sim_oracle_on())
		sim_oracle_run(op);
	if (op->work.kind == SIM_W_FREE) {
		if (op->work.region->kind == SIM_GRAPH)
			sim_graph_reached(op->work.region);
		else
			sim_region_destroy(op->work.region);
	} else if (!ctx->sticky) {
		struct sim_stream *stream = op->stream;

		sim_unlock();
		err = sim_work_run(ctx, (CUstream)(void *)stream, &op->work);
		sim_lock();
	}
	if (op->work.run)
		sim_run_done(op->work.run);
	if (err && sim_oracle_on())
		sim_oracle_failed(op, err);
	complete(op, err);
}

/* A head whose time has come, for the host thread or the other; *next: when
 * the earliest of the rest is due. */
static struct sim_op *pick(bool host, uint64_t *next)
{
	struct sim_list *l;
	uint64_t now = sim_now();

	*next = UINT64_MAX;
	for (l = sim.active.next; l != &sim.active; l = l->next) {
		struct sim_op *op =
			sim_entry(l, struct sim_stream, active)->head;

		if (sim_work_is_host(&op->work) != host)
			continue;
		if (op->state == SIM_QUEUED) {
			if (!sim_op_ready(op)) {
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
		sim_op_perform(op);
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

void sim_engine_wake(bool host)
{
	if (sim.stopping || sim_oracle_on())
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
