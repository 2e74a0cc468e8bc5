/*
 * Which pointers the program may name: a stale or invented one is an error
 * code, never a crash in the simulator.
 */
#include <search.h>
#include <stdlib.h>

#include "tests/sim/sim.h"

struct handle {
	const void *object;
	enum sim_kind kind;
};

static void *handles;

static int compare(const void *left, const void *right)
{
	const struct handle *a = left, *b = right;

	if (a->object == b->object)
		return 0;
	return (uintptr_t)a->object < (uintptr_t)b->object ? -1 : 1;
}

void sim_handle_add(enum sim_kind kind, const void *object)
{
	struct handle *handle = malloc(sizeof(*handle));

	if (!handle)
		abort();
	handle->object = object;
	handle->kind = kind;
	if (!tsearch(handle, &handles, compare))
		abort();
}

void sim_handle_remove(const void *object)
{
	struct handle key = {object, 0}, **found, *handle;

	found = tfind(&key, &handles, compare);
	if (!found)
		return;
	handle = *found;
	tdelete(&key, &handles, compare);
	free(handle);
}

bool sim_handle_is(enum sim_kind kind, const void *object)
{
	struct handle key = {object, 0}, **found;

	found = tfind(&key, &handles, compare);
	return found && (*found)->kind == kind;
}
