/*
 * A hash table of names, filled when it is first asked. Nobody waits for
 * anybody: two threads that fill it at once put the same name into the same
 * place, since both go through the rows in order and pass over what is there.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "shim/hooks.h"
#include "shim/names.h"
#include "shim/special.h"

static const struct {
	const char *name;
	enum gp_name kind;
} rows[] = {
#define GP_HOOK(name)    {#name, GP_NAME_HOOKED},
#define GP_RUNTIME(name) {#name, GP_NAME_RUNTIME},
#define GP_NVML(name)    {#name, GP_NAME_NVML},
#include "shim/hooks.def"
/* A hooked name may come again: the first row is found. */
#define GP_WORK_KNOWN(name) {#name, GP_NAME_KNOWN},
#include "shim/work.def"
};

#define NUM_ROWS  (sizeof(rows) / sizeof(*rows))
#define NUM_SLOTS 2048

_Static_assert(NUM_ROWS < NUM_SLOTS / 2, "the table of names is too full");

/* 1 + index of the row; 0: empty. Synchronization: atomic, and `filled`. */
static uint16_t slots[NUM_SLOTS];
static int filled;

/* FNV-1a. */
static size_t hash(const char *name)
{
	uint32_t h = 2166136261u;

	while (*name)
		h = (h ^ (unsigned char)*name++) * 16777619u;
	return h % NUM_SLOTS;
}

/* The slot that holds `name`, or the empty one where it would go. */
static size_t probe(const char *name)
{
	size_t at = hash(name);
	unsigned row;

	while ((row = __atomic_load_n(&slots[at], __ATOMIC_RELAXED)) != 0 &&
	       strcmp(rows[row - 1].name, name) != 0)
		at = (at + 1) % NUM_SLOTS;
	return at;
}

static __attribute__((noinline, cold)) void fill(void)
{
	for (size_t i = 0; i < NUM_ROWS; i++) {
		size_t at = probe(rows[i].name);

		if (!__atomic_load_n(&slots[at], __ATOMIC_RELAXED))
			__atomic_store_n(&slots[at], (uint16_t)(i + 1),
					 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&filled, 1, __ATOMIC_RELEASE);
}

enum gp_name gp_name_find(const char *name)
{
	unsigned row;

	if (!__atomic_load_n(&filled, __ATOMIC_ACQUIRE))
		fill();
	row = __atomic_load_n(&slots[probe(name)], __ATOMIC_RELAXED);
	return row ? rows[row - 1].kind : GP_NAME_OTHER;
}

bool gp_work_is_known(const char *name)
{
	enum gp_name kind = gp_name_find(name);

	return kind == GP_NAME_KNOWN || kind == GP_NAME_HOOKED;
}

/* ---- newer than we are ------------------------------------------------------- */

/* Guards writing; leaf, nothing is called under it. Entries below num_unknown
 * (atomic) never change. */
static pthread_mutex_t unknown_lock = PTHREAD_MUTEX_INITIALIZER;
static char unknown_text[GP_MAX_UNKNOWN][64];
static const char *unknown_names[GP_MAX_UNKNOWN];
static size_t num_unknown;

void gp_work_note_unknown(const char *name)
{
	size_t n, i;

	pthread_mutex_lock(&unknown_lock);
	n = num_unknown;
	for (i = 0; i < n; i++)
		if (!strncmp(unknown_text[i], name, sizeof(*unknown_text) - 1))
			break;
	if (i == n && n < GP_MAX_UNKNOWN) {
		strncpy(unknown_text[n], name, sizeof(*unknown_text) - 1);
		unknown_names[n] = unknown_text[n];
		__atomic_store_n(&num_unknown, n + 1, __ATOMIC_RELEASE);
		gp_special_set(GP_SPECIAL_UNKNOWN, true);
	}
	pthread_mutex_unlock(&unknown_lock);
}

size_t gp_work_unknown(const char *const **names)
{
	*names = unknown_names;
	return __atomic_load_n(&num_unknown, __ATOMIC_ACQUIRE);
}
