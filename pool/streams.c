/* Known streams and who submits to them; see streams.h. */
#include "pool/streams.h"

#include <limits.h>
#include <pthread.h>
#include <stddef.h>

/* ---- threads ---------------------------------------------------------------- */

#define MAX_THREADS (1u << 16)

/* How often each number was given away. Odd: its thread runs. Atomic. */
static uint32_t lives[MAX_THREADS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* leaf */
static uint32_t spare[MAX_THREADS];  /* numbers to give again; lock */
static uint32_t num_spare, num_used; /* lock */

/* The last round of a thread's end; ThreadSanitizer's own end is in that. */
#ifdef __SANITIZE_THREAD__
#define LAST_ROUND (PTHREAD_DESTRUCTOR_ITERATIONS - 1)
#else
#define LAST_ROUND PTHREAD_DESTRUCTOR_ITERATIONS
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* runs leave() when a thread ends */
static bool have_key;
static __thread uint64_t self;
static __thread unsigned rounds; /* of its end */

static void leave(void *arg)
{
	uint32_t number = (uint32_t)(uintptr_t)arg;

	/* In the last round: what others run at a thread's end may submit with
	 * the slots that the thread remembers. */
	if (++rounds < LAST_ROUND && !pthread_setspecific(key, arg))
		return;
	self = 0;
	/* What the thread wrote in its slots is seen by who sees it gone. */
	__atomic_add_fetch(&lives[number], 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&lock);
	spare[num_spare++] = number;
	pthread_mutex_unlock(&lock);
}

static void make_key(void)
{
	have_key = pthread_key_create(&key, leave) == 0;
}

static __attribute__((noinline, cold)) uint64_t enter(void)
{
	uint32_t number = 0;

	pthread_once(&once, make_key);
	if (!have_key)
		return 0;
	pthread_mutex_lock(&lock);
	if (num_spare)
		number = spare[--num_spare];
	else if (num_used < MAX_THREADS - 1)
		number = ++num_used; /* 0 is nobody */
	pthread_mutex_unlock(&lock);
	if (!number || pthread_setspecific(key, (void *)(uintptr_t)number))
		return 0;
	self = (uint64_t)__atomic_add_fetch(&lives[number], 1, __ATOMIC_RELAXED)
		       << 32 |
	       number;
	return self;
}

uint64_t gp_thread_self(void)
{
	return __builtin_expect(self != 0, 1) ? self : enter();
}

bool gp_thread_alive(uint64_t thread)
{
	return thread && __atomic_load_n(&lives[thread % MAX_THREADS],
					 __ATOMIC_ACQUIRE) == thread >> 32;
}

/* ---- streams ------------------------------------------------------------------ */

void gp_streams_init(struct gp_streams *streams)
{
	*streams = (struct gp_streams){0};
	gp_objects_init(&streams->streams, sizeof(struct gp_stream));
	gp_objects_init(&streams->slots, sizeof(struct gp_slot));
}

void gp_streams_exit(struct gp_streams *streams)
{
	gp_objects_exit(&streams->streams);
	gp_objects_exit(&streams->slots);
	*streams = (struct gp_streams){0};
}

static unsigned bucket_of(uint64_t key_, uint64_t thread)
{
	return (unsigned)(((key_ ^ thread) * 0x9e3779b97f4a7c15ull) >> 58);
}

struct gp_stream *gp_stream_find(const struct gp_streams *streams,
				 uint64_t key_, uint64_t thread)
{
	struct gp_stream *s = streams->buckets[bucket_of(key_, thread)];

	while (s && (s->key != key_ || s->thread != thread))
		s = s->chain;
	return s;
}

struct gp_stream *gp_stream_add(struct gp_streams *streams, uint64_t key_,
				uint64_t thread, bool blocking)
{
	struct gp_stream **bucket = &streams->buckets[bucket_of(key_, thread)];
	struct gp_stream *s;

	if (gp_objects_reserve(&streams->streams, 1))
		return NULL;
	s = gp_objects_get(&streams->streams);
	*s = (struct gp_stream){
		.key = key_,
		.thread = thread,
		.serial = ++streams->serial,
		.blocking = blocking,
		.next = streams->first,
		.chain = *bucket,
	};
	gp_lock_init(&s->launch, GP_RANK_LAUNCH);
	*bucket = s;
	streams->first = s;
	streams->count++;
	return s;
}

void gp_stream_remove(struct gp_streams *streams, struct gp_stream *stream)
{
	struct gp_stream **link;

	link = &streams->buckets[bucket_of(stream->key, stream->thread)];
	while (*link != stream)
		link = &(*link)->chain;
	*link = stream->chain;
	for (link = &streams->first; *link != stream;)
		link = &(*link)->next;
	*link = stream->next;
	streams->count--;
	stream->serial = 0; /* marks that know it forget it */
	for (struct gp_slot *slot = stream->slots, *next; slot; slot = next) {
		next = slot->next;
		gp_objects_put(&streams->slots, slot);
	}
	stream->slots = NULL;
	pthread_mutex_destroy(&stream->launch.mutex);
	gp_objects_put(&streams->streams, stream);
}

struct gp_slot *gp_slot_get(struct gp_streams *streams,
			    struct gp_stream *stream, uint64_t thread)
{
	struct gp_slot *slot, *orphan = NULL;

	for (slot = stream->slots; slot; slot = slot->next) {
		if (slot->owner == thread)
			return slot;
		if (!gp_thread_alive(slot->owner))
			orphan = slot;
	}
	if (orphan) {
		orphan->owner = thread;
		return orphan;
	}
	if (gp_objects_reserve(&streams->slots, 1))
		return NULL;
	slot = gp_objects_get(&streams->slots);
	*slot = (struct gp_slot){.stream = stream,
				 .set_off = stream->thread != 0,
				 .next = stream->slots,
				 .owner = thread};
	__atomic_store_n(&stream->slots, slot, __ATOMIC_RELEASE);
	return slot;
}

/* ---- A -------------------------------------------------------------------------- */

bool gp_stream_active(const struct gp_stream *stream)
{
	for (const struct gp_slot *slot = gp_stream_slots(stream); slot;
	     slot = slot->next)
		if (__atomic_load_n(&slot->started, __ATOMIC_ACQUIRE) !=
		    __atomic_load_n(&slot->drained, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

bool gp_stream_returned(const struct gp_stream *stream)
{
	for (const struct gp_slot *slot = gp_stream_slots(stream); slot;
	     slot = slot->next)
		if (gp_slot_finished(slot) !=
		    __atomic_load_n(&slot->drained, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

void gp_slot_drain(struct gp_slot *slot, uint64_t finished)
{
	uint64_t drained = __atomic_load_n(&slot->drained, __ATOMIC_RELAXED);

	while (drained < finished &&
	       !__atomic_compare_exchange_n(&slot->drained, &drained, finished,
					    true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

void gp_stream_note(struct gp_stream *stream)
{
	for (struct gp_slot *slot = stream->slots; slot; slot = slot->next)
		slot->moving = gp_slot_finished(slot);
}

void gp_stream_drain_noted(struct gp_stream *stream)
{
	for (struct gp_slot *slot = stream->slots; slot; slot = slot->next)
		gp_slot_drain(slot, slot->moving);
}
