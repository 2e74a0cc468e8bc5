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
	bool loose;    /* recorded unseen: no record is known to hold */
	unsigned recording;
	uint64_t latest; /* record that began; none, if some overlapped */
	struct gp_recorded where;
};

static struct shard {
	_Alignas(64) pthread_mutex_t lock; /* leaf; guards the rest */
	struct entry *entries;
	size_t size, used; /* used: slots with an event, live or not */
	uint64_t records;
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
		if (s->entries[i].live || s->entries[i].loose ||
		    s->entries[i].recording) {
			*find(&bigger, s->entries[i].event) = s->entries[i];
			bigger.used++;
		}
	free(s->entries);
	s->entries = bigger.entries;
	s->size = bigger.size;
	s->used = bigger.used;
	return true;
}

/* The event's entry, made where it has none; NULL: no host memory. */
static struct entry *entry_of(struct shard *s, CUevent event)
{
	struct entry *e = s->size ? find(s, event) : NULL;

	if (e && e->event)
		return e;
	if (s->used * 2 >= s->size && !grow(s))
		return NULL;
	e = find(s, event);
	e->event = event;
	s->used++;
	return e;
}

uint64_t gp_event_records(CUevent event)
{
	struct shard *s = shard_of(event);
	uint64_t record = 0;
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	e = entry_of(s, event);
	if (e) {
		record = ++s->records;
		e->latest = e->recording++ ? ++s->records : record;
		e->where.record = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return record;
}

/* Under the lock. */
static struct entry *end(struct shard *s, CUevent event, uint64_t record)
{
	struct entry *e = record ? find(s, event) : NULL;

	if (!e || !e->recording)
		return NULL;
	e->recording--;
	return e;
}

void gp_event_recorded(CUevent event, uint64_t record,
		       const struct gp_recorded *where)
{
	struct shard *s = shard_of(event);
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	e = end(s, event, record);
	if (e && where) {
		e->live = true;
		e->where = *where;
		e->where.record = e->latest == record && !e->loose ? record : 0;
	} else if (e) {
		e->live = false;
	}
	pthread_mutex_unlock(&s->lock);
}

void gp_event_unplaced(CUevent event, uint64_t record)
{
	struct shard *s = shard_of(event);

	pthread_mutex_lock(&s->lock);
	end(s, event, record);
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

void gp_event_loosen(CUevent event, const struct gp_recorded *where)
{
	struct shard *s = shard_of(event);
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	e = entry_of(s, event);
	if (e) {
		e->loose = true;
		if (where) {
			e->live = true;
			e->where = *where;
		}
		e->where.record = 0;
	}
	pthread_mutex_unlock(&s->lock);
}

void gp_event_forget(CUevent event)
{
	struct shard *s = shard_of(event);
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	if (s->size) {
		e = find(s, event);
		e->live = false;
		e->loose = false;
	}
	pthread_mutex_unlock(&s->lock);
}
