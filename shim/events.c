/*
 * Events by handle: shards of open addressing, each under its own lock, grown
 * as the program makes events. Nothing is evicted: an event that is taken for
 * unknown would be waited for too much or too little.
 */
#include "shim/events.h"

#include <pthread.h>
#include <stdlib.h>

#define SHARDS 64
#define FIRST  16 /* slots of a shard; a power of two */

struct entry {
	CUevent event; /* NULL: never used */
	bool live;     /* else the handle is known to be free */
	struct gp_recorded where;
};

static struct shard {
	_Alignas(64) pthread_mutex_t lock; /* leaf; guards the rest */
	struct entry *entries;
	size_t size, used; /* used: slots with an event, live or not */
} shards[SHARDS] = {
	[0 ... SHARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

static uint64_t hash(CUevent event)
{
	return (uint64_t)(uintptr_t)event * 0x9e3779b97f4a7c15ull;
}

static struct shard *shard_of(CUevent event)
{
	return &shards[hash(event) >> 58];
}

/* The event's slot, or the free one where it belongs; the table is not full. */
static struct entry *find(const struct shard *s, CUevent event)
{
	size_t i = (size_t)(hash(event) >> 20) & (s->size - 1);

	while (s->entries[i].event && s->entries[i].event != event)
		i = (i + 1) & (s->size - 1);
	return &s->entries[i];
}

static bool grow(struct shard *s)
{
	struct shard bigger = {.size = s->size ? s->size * 2 : FIRST};

	bigger.entries = calloc(bigger.size, sizeof(*bigger.entries));
	if (!bigger.entries)
		return false;
	for (size_t i = 0; i < s->size; i++)
		if (s->entries[i].live) {
			*find(&bigger, s->entries[i].event) = s->entries[i];
			bigger.used++;
		}
	free(s->entries);
	s->entries = bigger.entries;
	s->size = bigger.size;
	s->used = bigger.used;
	return true;
}

void gp_event_note(CUevent event, const struct gp_recorded *where)
{
	struct shard *s = shard_of(event);
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	if (s->used * 2 < s->size || grow(s)) {
		e = find(s, event);
		if (!e->event)
			s->used++;
		*e = (struct entry){event, true, *where};
	}
	pthread_mutex_unlock(&s->lock);
}

bool gp_event_look(CUevent event, struct gp_recorded *where)
{
	struct shard *s = shard_of(event);
	const struct entry *e;
	bool known = false;

	pthread_mutex_lock(&s->lock);
	if (s->size) {
		e = find(s, event);
		known = e->live;
		if (known)
			*where = e->where;
	}
	pthread_mutex_unlock(&s->lock);
	return known;
}

void gp_event_forget(CUevent event)
{
	struct shard *s = shard_of(event);

	pthread_mutex_lock(&s->lock);
	if (s->size)
		find(s, event)->live = false;
	pthread_mutex_unlock(&s->lock);
}
