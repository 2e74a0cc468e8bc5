/*
 * Work without time: with schedule:N nothing runs but when somebody submits
 * or waits, and then whatever the seed picks of what may run. So streams run
 * ahead of each other or stay behind for long, and the same seed does the
 * same again. Whoever waits does the work himself; when none is left that may
 * run, he gives way to the program's other threads.
 */
#include "tests/sim/lazy.h"

#include <sched.h>
#include <time.h>

#include "tests/sim/gpusim.h"
#include "tests/sim/oracle.h"

/* So often may everybody wait for others before it is a deadlock; and so long,
 * as a thread that takes no turns may have a lock and no processor. */
#define PATIENCE 20000
#define NAP_NS   1000000
#define NAPS     4000

/* Guarded by sim.lock. */
static struct {
	bool seeded;
	uint64_t random;
	unsigned pace;  /* steps after a submission, of 16 at the most */
	uint64_t steps; /* done so far */
} lazy;

static void (*_Atomic yield)(void);

static uint32_t draw(uint32_t below)
{
	if (!lazy.seeded) {
		lazy.seeded = true;
		lazy.random = sim.settings.schedule * 0x9e3779b97f4a7c15ull;
		lazy.pace = (unsigned)(lazy.random >> 40) % 4;
	}
	lazy.random ^= lazy.random << 13;
	lazy.random ^= lazy.random >> 7;
	lazy.random ^= lazy.random << 17;
	return (uint32_t)((lazy.random >> 32) * below >> 32);
}

static bool may_run(const struct sim_op *op)
{
	return op->state == SIM_QUEUED && sim_op_ready(op);
}

/* The favourite of those that may run, or any of them. */
static struct sim_op *pick(void)
{
	struct sim_op *best = NULL;
	bool any = draw(8) == 0;
	unsigned n = 0;
	struct sim_list *l;

	for (l = sim.active.next; l != &sim.active; l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, active);

		if (!may_run(s->head))
			continue;
		if (!s->luck)
			s->luck = draw(UINT32_MAX) | 1;
		n++;
		if (!best ||
		    (any ? draw(n) == 0 : s->luck > best->stream->luck))
			best = s->head;
	}
	if (best && draw(16) == 0)
		best->stream->luck = draw(UINT32_MAX) | 1;
	return best;
}

static void perform(struct sim_op *op)
{
	struct sim_thread *thread = sim_thread();
	bool outside = !thread->host_function;

	lazy.steps++;
	op->state = SIM_RUNNING;
	if (sim_work_is_host(&op->work))
		thread->host_function = true;
	sim_op_perform(op);
	if (outside)
		thread->host_function = false;
}

static bool step(void)
{
	struct sim_op *op = pick();

	if (op)
		perform(op);
	return op;
}

void sim_lazy_submitted(void)
{
	static const unsigned often[] = {0, 4, 10, 16};

	draw(2);
	while (draw(20) < often[lazy.pace] && step())
		;
	if (draw(200) == 0)
		lazy.pace = draw(4);
}

void sim_lazy_asked(struct sim_stream *stream)
{
	if (draw(2) && stream && stream->head && may_run(stream->head))
		perform(stream->head);
	else if (draw(4) == 0)
		step();
}

static void deadlock(void)
{
	struct sim_list *l;
	const struct sim_past *stuck = NULL;

	for (l = sim.active.next; l != &sim.active && !stuck; l = l->next)
		stuck = sim_entry(l, struct sim_stream, active)->head->past;
	sim_oracle_object(stuck, NULL,
			  "everybody waits: the work cannot go on");
}

void sim_lazy_wait(void)
{
	void (*give_way)(void) = yield;
	static uint64_t seen;
	static unsigned times;
	const struct timespec nap = {.tv_nsec = NAP_NS};
	bool tired;

	if (step())
		return;
	if (seen != lazy.steps + sim.next_seq) {
		seen = lazy.steps + sim.next_seq;
		times = 0;
	} else if (++times > PATIENCE + NAPS) {
		deadlock();
	}
	tired = times > PATIENCE;
	sim_unlock();
	if (tired)
		nanosleep(&nap, NULL);
	if (give_way)
		give_way();
	else
		sched_yield();
	sim_lock();
}

__attribute__((visibility("default"))) void gpusim_on_wait(void (*fn)(void))
{
	yield = fn;
}
