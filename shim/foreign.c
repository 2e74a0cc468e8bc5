/*
 * An open-addressing table under one lock. Only pass-through calls come here,
 * each next to a driver call that costs a hundred times as much.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "shim/foreign.h"
#include "shim/stacks.h"
#include "stats/sites.h"

struct slot {
	uint64_t key; /* 0: free */
	struct gp_foreign entry;
};

/* Rank: leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by lock. */
static struct slot *slots;
static size_t capacity; /* a power of two, or 0 */
static size_t used;

static size_t home(uint64_t key)
{
	key ^= key >> 33;
	key *= 0xff51afd7ed558ccdull;
	key ^= key >> 33;
	return key & (capacity - 1);
}

static struct slot *find(uint64_t key)
{
	if (!capacity)
		return NULL;
	for (size_t i = home(key); slots[i].key; i = (i + 1) & (capacity - 1))
		if (slots[i].key == key)
			return &slots[i];
	return NULL;
}

static void put(uint64_t key, const struct gp_foreign *entry)
{
	size_t i = home(key);

	while (slots[i].key)
		i = (i + 1) & (capacity - 1);
	slots[i].key = key;
	slots[i].entry = *entry;
	used++;
}

static bool grow(void)
{
	struct slot *old = slots;
	size_t old_capacity = capacity;
	struct slot *made = calloc(capacity ? capacity * 2 : 64, sizeof(*made));

	if (!made)
		return false;
	slots = made;
	capacity = capacity ? capacity * 2 : 64;
	used = 0;
	for (size_t i = 0; i < old_capacity; i++)
		if (old[i].key)
			put(old[i].key, &old[i].entry);
	free(old);
	return true;
}

/* Backward-shift deletion: no tombstones, lookups stay short. */
static void erase(struct slot *slot)
{
	size_t hole = (size_t)(slot - slots);
	size_t i = hole;

	for (;;) {
		i = (i + 1) & (capacity - 1);
		if (!slots[i].key)
			break;
		/* Move i into the hole unless its home lies between them. */
		if (((i - home(slots[i].key)) & (capacity - 1)) >=
		    ((i - hole) & (capacity - 1))) {
			slots[hole] = slots[i];
			hole = i;
		}
	}
	slots[hole].key = 0;
	used--;
}

/* Is it one whose call stack is kept? Host memory is not. */
static bool watch(uint64_t key, const struct gp_foreign *entry)
{
	return entry->bytes && !gp_kind_is_host(entry->kind) &&
	       gp_sampler_due(&gp_stacks_sampler, entry->bytes) &&
	       gp_stacks_due(NULL, key, entry->bytes);
}

/* It is the program's no more. */
static void gone(uint64_t key, const struct gp_foreign *entry)
{
	if (!entry->owner)
		gp_kind_sub(entry->kind, entry->bytes);
	if (entry->watched)
		gp_sites_remove(key);
}

bool gp_foreign_add(uint64_t key, const struct gp_foreign *entry,
		    struct gp_foreign *before)
{
	int saved = errno;
	struct gp_foreign old, watched = *entry;
	bool entered = false;

	if (before)
		before->refs = 0;
	if (!key)
		return false;
	if (gp_foreign_take(key, &old) && before)
		*before = old;
	watched.watched = watch(key, entry);
	pthread_mutex_lock(&lock);
	if ((used + 1) * 4 <= capacity * 3 || grow()) {
		put(key, &watched);
		entered = true;
	}
	pthread_mutex_unlock(&lock);
	if (entered && !entry->owner)
		gp_kind_add(entry->kind, entry->bytes);
	errno = saved;
	return entered;
}

bool gp_foreign_take(uint64_t key, struct gp_foreign *entry)
{
	struct slot *slot;

	if (!key)
		return false;
	pthread_mutex_lock(&lock);
	slot = find(key);
	if (slot) {
		*entry = slot->entry;
		erase(slot);
	}
	pthread_mutex_unlock(&lock);
	if (!slot)
		return false;
	gone(key, entry);
	return true;
}

bool gp_foreign_look(uint64_t key, struct gp_foreign *entry)
{
	struct slot *slot;

	pthread_mutex_lock(&lock);
	slot = find(key);
	if (slot)
		*entry = slot->entry;
	pthread_mutex_unlock(&lock);
	return slot != NULL;
}

bool gp_foreign_ref(uint64_t key)
{
	struct slot *slot;

	pthread_mutex_lock(&lock);
	slot = find(key);
	if (slot)
		slot->entry.refs++;
	pthread_mutex_unlock(&lock);
	return slot != NULL;
}

bool gp_foreign_unref(uint64_t key, struct gp_foreign *entry)
{
	struct slot *slot;
	bool last = false;

	pthread_mutex_lock(&lock);
	slot = find(key);
	if (slot && --slot->entry.refs == 0) {
		*entry = slot->entry;
		erase(slot);
		last = true;
	}
	pthread_mutex_unlock(&lock);
	if (last)
		gone(key, entry);
	return last;
}

/* The first entry from slot *at on that matches. */
static bool take_match(size_t *at,
		       bool (*match)(const struct gp_foreign *, const void *),
		       const void *arg, uint64_t *key, struct gp_foreign *entry)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (; *at < capacity && !found; ++*at) {
		if (!slots[*at].key || !match(&slots[*at].entry, arg))
			continue;
		found = true;
		*key = slots[*at].key;
		*entry = slots[*at].entry;
		erase(&slots[*at]);
		break; /* another may stand there now */
	}
	pthread_mutex_unlock(&lock);
	return found;
}

void gp_foreign_forget(bool (*match)(const struct gp_foreign *, const void *),
		       const void *arg,
		       void (*dropped)(uint64_t key, const struct gp_foreign *))
{
	struct gp_foreign entry;

	/* Twice: a deletion may move an entry from the end to before it. */
	for (int round = 0; round < 2; round++) {
		uint64_t key;
		size_t at = 0;

		while (take_match(&at, match, arg, &key, &entry)) {
			gone(key, &entry);
			dropped(key, &entry);
		}
	}
}
