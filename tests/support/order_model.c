/* Vector clocks; see order_model.h. */
#include "tests/support/order_model.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_HANDLE 100u
#define EVENTS       512u
#define THREADS      16u
#define PROGRAMS     64u /* events of the program */

struct clock {
	uint32_t at[OM_STREAMS];
};

struct stream {
	bool known, gone, blocking, capturing, ours;
	uint32_t count;      /* submissions */
	struct clock order;  /* what comes next is behind this */
	struct clock plain;  /* as a waiting cuMemFree has it */
	uint32_t host_count; /* the last submission for the host */
};

struct event {
	bool used, captured;
	struct clock order, plain;
};

struct range {
	uint64_t tenant;
	struct clock last; /* accesses by tenants so far */
	struct clock now;  /* accesses by this one */
};

struct om {
	pthread_mutex_t lock; /* guards all below */
	uint64_t random;
	struct stream streams[OM_STREAMS]; /* 0: legacy; 1..16: threads' */
	unsigned num_streams;
	struct event events[EVENTS]; /* the pool's */
	unsigned num_events;
	struct event programs[PROGRAMS];
	unsigned num_programs;
	struct range ranges[OM_RANGES];
	struct clock host;       /* what is known over */
	struct clock plain_host; /* the same in the plain program */
	struct clock barrier;    /* what the last full free was behind */
	struct clock results;    /* of the host, before the free under way */
	bool judge_all;
	char error[240];
};

static __thread unsigned self;

void om_thread(unsigned thread)
{
	self = thread;
}

static void __attribute__((format(printf, 2, 3)))
wrong(struct om *om, const char *format, ...)
{
	va_list args;

	if (om->error[0])
		return;
	va_start(args, format);
	vsnprintf(om->error, sizeof(om->error), format, args);
	va_end(args);
}

static void add(struct clock *to, const struct clock *from)
{
	for (unsigned i = 0; i < OM_STREAMS; i++)
		if (to->at[i] < from->at[i])
			to->at[i] = from->at[i];
}

/* The first stream of which `a` has more than `b`; -1: none. */
static int beyond(const struct clock *a, const struct clock *b)
{
	for (unsigned i = 0; i < OM_STREAMS; i++)
		if (a->at[i] > b->at[i])
			return (int)i;
	return -1;
}

static struct stream *stream_of(struct om *om, uint64_t handle, unsigned *index)
{
	if (handle == 1)
		*index = 0;
	else if (handle == 2)
		*index = 1 + self;
	else if (handle >= FIRST_HANDLE &&
		 handle < FIRST_HANDLE + om->num_streams)
		*index = (unsigned)(handle - FIRST_HANDLE);
	else {
		wrong(om, "stream %llu does not exist",
		      (unsigned long long)handle);
		*index = 0;
	}
	if (om->streams[*index].gone)
		wrong(om, "stream %u is gone", *index);
	return &om->streams[*index];
}

/* What the default streams' rules order before the next thing in s. */
static void implicit(struct om *om, struct stream *s)
{
	struct stream *legacy = &om->streams[0];

	if (s == legacy) {
		for (unsigned i = 1; i < om->num_streams; i++) {
			struct stream *other = &om->streams[i];

			if (!other->blocking)
				continue;
			if (other->capturing)
				wrong(om, "the legacy stream was used while a "
					  "blocking stream captures");
			add(&s->order, &other->order);
			add(&s->plain, &other->plain);
		}
	} else if (s->blocking) {
		add(&s->order, &legacy->order);
		add(&s->plain, &legacy->plain);
	}
}

/* ---- the pool's side ---------------------------------------------------------- */

static int event_create(void *dev, uint64_t *event)
{
	struct om *om = dev;
	int rc = -ENOMEM;

	pthread_mutex_lock(&om->lock);
	if (om->num_events < EVENTS) {
		*event = om->num_events++;
		rc = 0;
	}
	pthread_mutex_unlock(&om->lock);
	return rc;
}

static int record(void *dev, uint64_t event, uint64_t handle)
{
	struct om *om = dev;
	unsigned index;

	pthread_mutex_lock(&om->lock);
	struct stream *s = stream_of(om, handle, &index);
	struct event *e = &om->events[event];

	if (s->capturing)
		wrong(om, "the pool recorded in stream %u, which captures",
		      index);
	implicit(om, s);
	e->used = true;
	e->order = s->order;
	pthread_mutex_unlock(&om->lock);
	return 0;
}

static int wait(void *dev, uint64_t handle, uint64_t event)
{
	struct om *om = dev;
	unsigned index;

	pthread_mutex_lock(&om->lock);
	struct stream *s = stream_of(om, handle, &index);

	if (s->capturing)
		wrong(om, "the pool made stream %u wait, which captures",
		      index);
	if (!om->events[event].used)
		wrong(om, "a wait for an event never recorded");
	implicit(om, s);
	add(&s->order, &om->events[event].order);
	pthread_mutex_unlock(&om->lock);
	return 0;
}

static bool chance(struct om *om)
{
	om->random ^= om->random << 13;
	om->random ^= om->random >> 7;
	om->random ^= om->random << 17;
	return (om->random >> 20) % 3 == 0;
}

static int query(void *dev, uint64_t event)
{
	struct om *om = dev;
	int rc = -EAGAIN;

	pthread_mutex_lock(&om->lock);
	if (beyond(&om->events[event].order, &om->host) < 0)
		rc = 0;
	else if (chance(om)) {
		add(&om->host, &om->events[event].order);
		rc = 0;
	}
	pthread_mutex_unlock(&om->lock);
	return rc;
}

static int event_sync(void *dev, uint64_t event)
{
	struct om *om = dev;

	pthread_mutex_lock(&om->lock);
	add(&om->host, &om->events[event].order);
	pthread_mutex_unlock(&om->lock);
	return 0;
}

static int stream_create(void *dev, bool blocking, uint64_t *handle)
{
	struct om *om = dev;

	*handle = om_stream(om, blocking);
	if (!*handle)
		return -ENOMEM;
	pthread_mutex_lock(&om->lock);
	om->streams[*handle - FIRST_HANDLE].ours = true;
	pthread_mutex_unlock(&om->lock);
	return 0;
}

static void stream_destroy(void *dev, uint64_t handle)
{
	(void)dev;
	(void)handle;
}

static bool is_capturing(void *dev, uint64_t handle)
{
	struct om *om = dev;
	unsigned index;
	bool yes;

	pthread_mutex_lock(&om->lock);
	yes = stream_of(om, handle, &index)->capturing;
	pthread_mutex_unlock(&om->lock);
	return yes;
}

/* To ask ends a capture. */
static bool is_blocking(void *dev, uint64_t handle)
{
	struct om *om = dev;
	struct stream *s;
	unsigned index;
	bool yes;

	pthread_mutex_lock(&om->lock);
	s = stream_of(om, handle, &index);
	if (s->capturing)
		wrong(om, "stream %u was asked for its flags while it captures",
		      index);
	yes = s->blocking;
	pthread_mutex_unlock(&om->lock);
	return yes;
}

static const struct gp_stream_ops stream_ops = {
	.event_create = event_create,
	.record = record,
	.wait = wait,
	.query = query,
	.event_sync = event_sync,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.is_capturing = is_capturing,
	.is_blocking = is_blocking,
};

static bool capturing(struct om *om)
{
	bool any = false;

	pthread_mutex_lock(&om->lock);
	for (unsigned i = 0; i < om->num_streams; i++)
		any |= om->streams[i].capturing;
	pthread_mutex_unlock(&om->lock);
	return any;
}

static int sync_context(void *dev)
{
	if (capturing(dev))
		return -EBUSY;
	om_sync_all(dev);
	return 0;
}

static const struct gp_driver_ops driver_ops = {
	.sync = sync_context,
};

struct om *om_create(uint64_t seed, struct gp_driver *driver)
{
	struct om *om = calloc(1, sizeof(*om));

	if (!om)
		abort();
	pthread_mutex_init(&om->lock, NULL);
	om->random = seed * 0x9e3779b97f4a7c15ull | 1;
	om->num_streams = 1 + THREADS;
	for (unsigned i = 0; i < om->num_streams; i++) {
		om->streams[i].known = true;
		om->streams[i].blocking = i > 0;
	}
	*driver = (struct gp_driver){
		.ops = &driver_ops, .streams = &stream_ops, .dev = om};
	return om;
}

void om_destroy(struct om *om)
{
	pthread_mutex_destroy(&om->lock);
	free(om);
}

const char *om_error(struct om *om)
{
	const char *error;

	pthread_mutex_lock(&om->lock);
	error = om->error[0] ? om->error : NULL;
	pthread_mutex_unlock(&om->lock);
	return error;
}

/* ---- the program's side --------------------------------------------------------- */

uint64_t om_stream(struct om *om, bool blocking)
{
	uint64_t handle = 0;

	pthread_mutex_lock(&om->lock);
	if (om->num_streams < OM_STREAMS) {
		struct stream *s = &om->streams[om->num_streams];

		s->known = true;
		s->blocking = blocking;
		handle = FIRST_HANDLE + om->num_streams++;
	}
	pthread_mutex_unlock(&om->lock);
	return handle;
}

void om_stream_gone(struct om *om, uint64_t handle)
{
	unsigned index;

	pthread_mutex_lock(&om->lock);
	stream_of(om, handle, &index)->gone = true;
	pthread_mutex_unlock(&om->lock);
}

static void judge(struct om *om, unsigned index, const struct range *r,
		  unsigned range)
{
	const struct stream *s = &om->streams[index];
	struct clock ours = s->order;
	int other;

	add(&ours, &om->host);
	other = beyond(&r->last, &ours);
	if (other >= 0)
		wrong(om,
		      "range %u: work of another tenant in stream %d is not "
		      "before this in stream %u",
		      range, other, index);
	if (!om->judge_all)
		return;
	other = beyond(&om->barrier, &ours);
	if (other >= 0)
		wrong(om,
		      "work in stream %u is not behind stream %d as the last "
		      "free had it",
		      index, other);
	struct clock plain = s->plain;

	add(&plain, &om->plain_host);
	other = beyond(&s->order, &plain);
	if (other >= 0)
		wrong(om,
		      "work in stream %u is behind more of stream %d than "
		      "plain",
		      index, other);
}

void om_submit(struct om *om, uint64_t handle, unsigned range, uint64_t tenant)
{
	struct range *r = &om->ranges[range];
	unsigned index;

	pthread_mutex_lock(&om->lock);
	struct stream *s = stream_of(om, handle, &index);

	implicit(om, s);
	add(&s->plain, &om->plain_host);
	if (r->tenant != tenant) {
		add(&r->last, &r->now);
		memset(&r->now, 0, sizeof(r->now));
		r->tenant = tenant;
	}
	judge(om, index, r, range);
	s->count++;
	s->order.at[index] = s->plain.at[index] = s->count;
	r->now.at[index] = s->count;
	pthread_mutex_unlock(&om->lock);
}

void om_host_result(struct om *om, uint64_t handle)
{
	unsigned index;

	pthread_mutex_lock(&om->lock);
	struct stream *s = stream_of(om, handle, &index);

	s->host_count = s->count;
	pthread_mutex_unlock(&om->lock);
}

static void known(struct om *om, const struct clock *order,
		  const struct clock *plain)
{
	add(&om->host, order);
	add(&om->plain_host, order);
	add(&om->plain_host, plain);
}

void om_sync_stream(struct om *om, uint64_t handle)
{
	unsigned index;

	pthread_mutex_lock(&om->lock);
	struct stream *s = stream_of(om, handle, &index);

	implicit(om, s);
	known(om, &s->order, &s->plain);
	pthread_mutex_unlock(&om->lock);
}

bool om_query_stream(struct om *om, uint64_t handle)
{
	unsigned index;
	bool yes;

	pthread_mutex_lock(&om->lock);
	struct stream *s = stream_of(om, handle, &index);

	implicit(om, s);
	yes = beyond(&s->order, &om->host) < 0 || chance(om);
	if (yes)
		known(om, &s->order, &s->plain);
	pthread_mutex_unlock(&om->lock);
	return yes;
}

void om_sync_all(struct om *om)
{
	pthread_mutex_lock(&om->lock);
	for (unsigned i = 0; i < om->num_streams; i++)
		if (om->streams[i].count || om->streams[i].ours)
			known(om, &om->streams[i].order, &om->streams[i].plain);
	pthread_mutex_unlock(&om->lock);
}

unsigned om_event(struct om *om)
{
	unsigned event;

	pthread_mutex_lock(&om->lock);
	event = om->num_programs++ % PROGRAMS;
	pthread_mutex_unlock(&om->lock);
	return event;
}

void om_record(struct om *om, unsigned event, uint64_t handle)
{
	struct event *e = &om->programs[event];
	unsigned index;

	pthread_mutex_lock(&om->lock);
	struct stream *s = stream_of(om, handle, &index);

	implicit(om, s);
	add(&s->plain, &om->plain_host);
	e->used = true;
	e->order = s->order;
	e->plain = s->plain;
	pthread_mutex_unlock(&om->lock);
}

void om_wait(struct om *om, uint64_t handle, unsigned event)
{
	struct event *e = &om->programs[event];
	unsigned index;

	pthread_mutex_lock(&om->lock);
	struct stream *s = stream_of(om, handle, &index);

	implicit(om, s);
	add(&s->plain, &om->plain_host);
	if (e->used) {
		add(&s->order, &e->order);
		add(&s->plain, &e->plain);
	}
	pthread_mutex_unlock(&om->lock);
}

void om_event_sync(struct om *om, unsigned event)
{
	pthread_mutex_lock(&om->lock);
	if (om->programs[event].used)
		known(om, &om->programs[event].order,
		      &om->programs[event].plain);
	pthread_mutex_unlock(&om->lock);
}

void om_capture(struct om *om, uint64_t handle, bool on)
{
	unsigned index;

	pthread_mutex_lock(&om->lock);
	stream_of(om, handle, &index)->capturing = on;
	pthread_mutex_unlock(&om->lock);
}

/* Everything submitted so far. */
static struct clock everything(const struct om *om)
{
	struct clock all = {0};

	for (unsigned i = 0; i < om->num_streams; i++)
		all.at[i] = om->streams[i].count;
	return all;
}

void om_free_begins(struct om *om)
{
	pthread_mutex_lock(&om->lock);
	struct clock all = everything(om);

	add(&om->barrier, &all);
	add(&om->plain_host, &all);
	for (unsigned i = 0; i < om->num_streams; i++)
		om->results.at[i] = om->streams[i].host_count;
	pthread_mutex_unlock(&om->lock);
}

void om_free_ended(struct om *om)
{
	pthread_mutex_lock(&om->lock);
	if (om->judge_all && beyond(&om->results, &om->host) >= 0)
		wrong(om, "a free returned before the host's results came");
	pthread_mutex_unlock(&om->lock);
}

void om_free_own(struct om *om)
{
	pthread_mutex_lock(&om->lock);
	struct clock all = everything(om);

	add(&om->plain_host, &all);
	pthread_mutex_unlock(&om->lock);
}

void om_unmap(struct om *om, unsigned range)
{
	struct range *r = &om->ranges[range];

	pthread_mutex_lock(&om->lock);
	if (beyond(&r->last, &om->host) >= 0 || beyond(&r->now, &om->host) >= 0)
		wrong(om, "range %u was unmapped in use", range);
	pthread_mutex_unlock(&om->lock);
}

void om_judge_all(struct om *om, bool on)
{
	om->judge_all = on;
}
