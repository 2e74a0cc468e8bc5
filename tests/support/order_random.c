/* Random programs on an order; see order_random.h. */
#include "tests/support/order_random.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "pool/order.h"
#include "tests/support/order_model.h"

#define STREAMS 6u
#define EVENTS  8u
#define THREADS 4u
#define LEGACY  ((uint64_t)GP_STREAM_LEGACY)
#define OWN     ((uint64_t)GP_STREAM_PER_THREAD)

struct range {
	uint64_t tenant; /* 0: free */
	uint64_t stamp;
	unsigned users; /* threads that submit work on it */
};

struct event {
	unsigned model;
	bool recorded;
	struct gp_slot *slot;
	uint64_t finished;
	uint64_t serial; /* of its stream */
};

struct run {
	const struct order_program *program;
	struct om *om;
	struct gp_driver driver;
	struct gp_order order;
	pthread_mutex_t lock; /* guards all below; held by whose turn it is */
	pthread_cond_t turned;
	unsigned turn, left;
	uint64_t random, tenants;
	struct range ranges[OM_RANGES];
	struct {
		uint64_t handle;
		bool blocking, capturing;
		unsigned users; /* threads in a call on it */
	} streams[STREAMS];
	struct event events[EVENTS];
	unsigned captures;
};

static __thread unsigned me; /* the worker */

struct worker {
	struct run *run;
	unsigned index;
	pthread_t thread;
};

static uint64_t below(struct run *run, uint64_t n)
{
	run->random ^= run->random << 13;
	run->random ^= run->random >> 7;
	run->random ^= run->random << 17;
	return (run->random >> 16) % n;
}

/* Calls into the order and the driver: without the lock, unless threads take
 * turns. */
static void let_go(struct run *run)
{
	if (!run->program->turns)
		pthread_mutex_unlock(&run->lock);
}

static void come_back(struct run *run)
{
	if (!run->program->turns)
		pthread_mutex_lock(&run->lock);
}

/* Others go on while this thread is in a call that waits. */
static void pass_turn(struct run *run)
{
	run->turn = (unsigned)below(run, run->program->threads);
	pthread_cond_broadcast(&run->turned);
	while (run->left && run->turn != me)
		pthread_cond_wait(&run->turned, &run->lock);
}

/* ---- steps --------------------------------------------------------------------- */

static void allocate(struct run *run)
{
	struct range *r = &run->ranges[below(run, OM_RANGES)];

	if (!r->tenant && gp_order_reissue(&run->order, r->stamp))
		r->tenant = ++run->tenants;
}

static void free_one(struct run *run)
{
	struct range *r = &run->ranges[below(run, OM_RANGES)];
	bool own = run->program->own && below(run, 8);
	uint64_t waits;

	if (!r->tenant || r->users)
		return;
	if (own)
		om_free_own(run->om);
	else
		om_free_begins(run->om);
	gp_order_free(&run->order, own ? GP_FREE_OWN : GP_FREE_FULL, &r->stamp,
		      &waits);
	if (!own)
		om_free_ended(run->om);
	r->tenant = 0;
}

static void unmap(struct run *run)
{
	unsigned i = (unsigned)below(run, OM_RANGES);

	if (below(run, 4) == 0)
		gp_order_poll(&run->order);
	if (!run->ranges[i].tenant &&
	    gp_order_idle(&run->order, run->ranges[i].stamp))
		om_unmap(run->om, i);
}

/* A stream to use; *index: STREAMS for the default ones. */
static uint64_t pick_stream(struct run *run, unsigned *index)
{
	unsigned i = (unsigned)below(run, STREAMS + 2);

	*index = STREAMS;
	if (i >= STREAMS)
		return i == STREAMS ? LEGACY : OWN;
	*index = i;
	return run->streams[i].handle;
}

static void enter_stream(struct run *run, unsigned index)
{
	if (index < STREAMS)
		run->streams[index].users++;
}

static void leave_stream(struct run *run, unsigned index)
{
	if (index < STREAMS)
		run->streams[index].users--;
}

static bool usable(struct run *run, uint64_t stream, unsigned index)
{
	if (stream == LEGACY)
		return !run->captures;
	return index == STREAMS || !run->streams[index].capturing;
}

static void submit(struct run *run)
{
	unsigned range = (unsigned)below(run, OM_RANGES), index;
	uint64_t tenant = run->ranges[range].tenant;
	uint64_t stream = pick_stream(run, &index);
	bool shows = below(run, 12) == 0;
	struct gp_slot *slot;

	if (!tenant || !usable(run, stream, index))
		return;
	enter_stream(run, index);
	run->ranges[range].users++;
	let_go(run);
	slot = gp_order_slot(&run->order, stream);
	gp_order_begin(slot);
	om_submit(run->om, stream, range, tenant);
	if (shows)
		om_host_result(run->om, stream);
	gp_order_end(slot);
	if (shows)
		gp_order_shows(slot);
	come_back(run);
	run->ranges[range].users--;
	leave_stream(run, index);
}

static void sync_stream(struct run *run)
{
	struct gp_proof proof;
	unsigned index;
	uint64_t stream = pick_stream(run, &index);
	bool query = below(run, 2), good = true;

	if (!usable(run, stream, index))
		return;
	enter_stream(run, index);
	let_go(run);
	gp_order_expect_stream(&run->order, stream, &proof);
	if (query)
		good = om_query_stream(run->om, stream);
	else
		om_sync_stream(run->om, stream);
	if (run->program->turns && below(run, 2))
		pass_turn(run);
	if (good)
		gp_order_proven(&proof);
	come_back(run);
	leave_stream(run, index);
}

static void sync_all(struct run *run)
{
	struct gp_proof proof;

	if (run->captures)
		return;
	let_go(run);
	gp_order_expect_all(&run->order, &proof);
	om_sync_all(run->om);
	gp_order_proven(&proof);
	come_back(run);
}

static void record(struct run *run)
{
	struct event *e = &run->events[below(run, EVENTS)];
	unsigned index;
	uint64_t stream = pick_stream(run, &index);
	struct gp_slot *slot;

	if (!usable(run, stream, index))
		return;
	/* A record is a submission, and under the lock: no place of the event
	 * but this one. */
	slot = gp_order_slot(&run->order, stream);
	gp_order_begin(slot);
	e->slot = slot;
	e->finished = slot->finished;
	e->serial = slot->stream->serial;
	e->recorded = true;
	om_record(run->om, e->model, stream);
	gp_order_end(slot);
}

static void wait_event(struct run *run)
{
	const struct event *e = &run->events[below(run, EVENTS)];
	unsigned index;
	uint64_t stream = pick_stream(run, &index);
	struct gp_slot *slot;

	if (!usable(run, stream, index))
		return;
	slot = gp_order_slot(&run->order, stream);
	gp_order_begin(slot);
	om_wait(run->om, stream, e->model);
	gp_order_end(slot);
}

static void sync_event(struct run *run)
{
	const struct event *e = &run->events[below(run, EVENTS)];

	if (!e->recorded)
		return;
	om_event_sync(run->om, e->model);
	gp_order_proven_slot(&run->order, e->slot, e->serial, e->finished);
}

static void replace_stream(struct run *run)
{
	unsigned i = (unsigned)below(run, STREAMS);
	struct gp_stream *known;
	bool blocking = below(run, 2);
	uint64_t fresh;

	if (run->streams[i].users || run->streams[i].capturing)
		return;
	fresh = om_stream(run->om, blocking);
	if (!fresh)
		return;
	known = gp_order_known(&run->order, run->streams[i].handle);
	if (known) {
		gp_order_set_off(&run->order, known);
		gp_order_forget(&run->order, known);
	}
	om_stream_gone(run->om, run->streams[i].handle);
	run->streams[i].handle = fresh;
	run->streams[i].blocking = blocking;
}

static void capture(struct run *run)
{
	unsigned i = (unsigned)below(run, STREAMS);
	uint64_t stream = run->streams[i].handle;
	struct gp_slot *slot;

	if (run->streams[i].users)
		return;
	slot = gp_order_slot(&run->order, stream);
	if (run->streams[i].capturing) {
		om_capture(run->om, stream, false);
		gp_order_recheck(&run->order);
		run->streams[i].capturing = false;
		run->captures--;
		return;
	}
	if (run->captures || !run->program->turns)
		return;
	gp_order_seize(slot->stream, NULL);
	om_capture(run->om, stream, true);
	gp_order_yield(slot->stream, NULL);
	run->streams[i].capturing = true;
	run->captures++;
}

/* ---- the run -------------------------------------------------------------------- */

static void step(struct run *run)
{
	switch (below(run, 40)) {
	case 0:
	case 1:
		sync_stream(run);
		break;
	case 2:
		if (below(run, 4) == 0)
			sync_all(run);
		break;
	case 3:
	case 4:
		record(run);
		break;
	case 5:
	case 6:
		wait_event(run);
		break;
	case 7:
		sync_event(run);
		break;
	case 8:
		replace_stream(run);
		break;
	case 9:
		capture(run);
		break;
	case 10:
	case 11:
		unmap(run);
		break;
	case 12:
	case 13:
	case 14:
	case 15:
	case 16:
		free_one(run);
		break;
	case 17:
	case 18:
	case 19:
	case 20:
	case 21:
	case 22:
		allocate(run);
		break;
	default:
		submit(run);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct run *run = w->run;

	me = w->index;
	om_thread(me);
	pthread_mutex_lock(&run->lock);
	while (run->left) {
		if (run->program->turns && run->turn != me) {
			pthread_cond_wait(&run->turned, &run->lock);
			continue;
		}
		/* Several steps a turn: a change of threads takes long. */
		for (unsigned n = 1 + (unsigned)below(run, 12); n && run->left;
		     n--) {
			run->left--; /* a step may let the others in */
			step(run);
			if (om_error(run->om))
				run->left = 0;
		}
		if (run->program->turns) {
			run->turn = (unsigned)below(run, run->program->threads);
			pthread_cond_broadcast(&run->turned);
		}
	}
	pthread_cond_broadcast(&run->turned);
	pthread_mutex_unlock(&run->lock);
	return NULL;
}

static void start(struct run *run)
{
	run->om = om_create(run->random, &run->driver);
	om_judge_all(run->om, run->program->turns);
	gp_order_init(&run->order, &run->driver, GP_BARRIER_AUTO, false);
	for (unsigned i = 0; i < STREAMS; i++) {
		run->streams[i].blocking = i % 2;
		run->streams[i].handle = om_stream(run->om, i % 2);
	}
	for (unsigned i = 0; i < EVENTS; i++)
		run->events[i].model = om_event(run->om);
}

bool order_random(const struct order_program *program, char *why, size_t size)
{
	struct worker workers[THREADS];
	static struct run run; /* too large for a stack */
	unsigned threads = program->threads;
	const char *error;

	memset(&run, 0, sizeof(run));
	run.program = program;
	run.left = program->steps;
	run.random = (program->seed + 1) * 0x9e3779b97f4a7c15ull | 1;
	pthread_mutex_init(&run.lock, NULL);
	pthread_cond_init(&run.turned, NULL);
	start(&run);
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){.run = &run, .index = i};
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	error = om_error(run.om);
	if (error)
		snprintf(why, size, "seed %llu: %s",
			 (unsigned long long)program->seed, error);
	bool good = !error;

	gp_order_exit(&run.order);
	om_destroy(run.om);
	pthread_cond_destroy(&run.turned);
	pthread_mutex_destroy(&run.lock);
	return good;
}
