/* Frames and places; see stack.h. */
#define _GNU_SOURCE
#include "stats/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "stats/symbols.h"

#define MAX_PLACES 8192u /* a power of two; half of it is used at most */
#define TEXT_BYTES (1u << 20)

struct place {
	uint32_t file, function; /* offsets in text */
};

/* Rank: leaf. Entries and text are only ever added to: once a place's number
 * is known, it is read without the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place places[MAX_PLACES / 2 + 1]; /* the first is unused */
static uint16_t slots[MAX_PLACES];              /* hashed, 0: free */
static char text[TEXT_BYTES];                   /* starts with "" */
static uint32_t num_places = 1, used = 1;       /* guarded by lock */
static uint64_t lost;                           /* atomic */

static uint64_t hash_text(uint64_t hash, const char *at)
{
	for (; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 0x100000001b3ull;
	return hash * 0x9e3779b97f4a7c15ull;
}

/* Under the lock. 0: no room; "" is at 0 as well. */
static uint32_t keep_text(const char *at)
{
	size_t size = strlen(at) + 1;
	uint32_t offset = used;

	if (size == 1)
		return 0;
	/* Most functions are in the file of the one before. */
	if (num_places > 1 && !strcmp(text + places[num_places - 1].file, at))
		return places[num_places - 1].file;
	if (size > TEXT_BYTES - used)
		return 0;
	memcpy(text + offset, at, size);
	used += (uint32_t)size;
	return offset;
}

static uint32_t add(const char *file, const char *function)
{
	struct place place;

	if (num_places > MAX_PLACES / 2)
		return 0;
	place.file = keep_text(file);
	place.function = keep_text(function);
	if ((*file && !place.file) || (*function && !place.function))
		return 0;
	places[num_places] = place;
	return num_places++;
}

uint32_t gp_place(const char *file, const char *function)
{
	uint64_t i =
		hash_text(hash_text(0xcbf29ce484222325ull, file), function);
	uint32_t found = 0;

	i = (i >> 32) % MAX_PLACES;
	pthread_mutex_lock(&lock);
	for (; slots[i] && !found; i = (i + 1) % MAX_PLACES) {
		const struct place *place = &places[slots[i]];

		if (!strcmp(text + place->file, file) &&
		    !strcmp(text + place->function, function))
			found = slots[i];
	}
	if (!found) {
		found = add(file, function);
		slots[i] = (uint16_t)found;
	}
	pthread_mutex_unlock(&lock);
	if (!found)
		__atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED);
	return found;
}

uint64_t gp_places_lost(void)
{
	return __atomic_load_n(&lost, __ATOMIC_RELAXED);
}

const char *gp_stack_python_says(enum gp_stack_python why)
{
	switch (why) {
	case GP_PYTHON_NOT_HERE:
		return "The thread runs no Python code.";
	case GP_PYTHON_UNKNOWN:
		return "Without Python frames: this Python is not known.";
	case GP_PYTHON_UNREADABLE:
		return "Without Python frames: they could not be read.";
	case GP_PYTHON_FRAMES:
	case GP_PYTHON_NONE:
		break;
	}
	return "";
}

void gp_frame_look_up(uint64_t frame, struct gp_frame_text *out)
{
	struct link_map *map = NULL;
	Dl_info info;

	out->function = out->file = "";
	out->line = out->offset = out->address = 0;
	out->name[0] = '\0';
	if (gp_frame_is_place(frame)) {
		const struct place *place = &places[(frame >> 32 & 0x7fffffff) %
						    (MAX_PLACES / 2 + 1)];

		out->file = text + place->file;
		out->function = text + place->function;
		out->line = frame & 0xffffffff;
		return;
	}
	out->address = frame;
	/* A return address: what was called may have been the last
	 * instruction of its function. */
	if (!frame ||
	    !dladdr1((void *)(uintptr_t)(frame - 1), &info, (void **)&map,
		     RTLD_DL_LINKMAP) ||
	    !info.dli_fname || !map)
		return;
	out->file = info.dli_fname;
	out->offset = frame - (uintptr_t)info.dli_fbase;
	out->function = out->name;
	if (info.dli_sname)
		out->function = info.dli_sname;
	else /* the program's own name may be a relative one */
		gp_symbol_find(
			map->l_name[0] ? info.dli_fname : "/proc/self/exe",
			frame - 1 - map->l_addr, out->name, sizeof(out->name));
}

uint64_t gp_stack_hash(const struct gp_stack *stack)
{
	uint64_t hash = stack->python + 1;

	for (unsigned i = 0; i < stack->python + stack->native; i++) {
		hash = (hash ^ stack->frames[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return hash;
}
