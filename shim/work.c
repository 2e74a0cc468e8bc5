/*
 * What happens with the work that the program submits: it is counted, by
 * class, and shown to the order of its context (follow.h).
 *
 * A thread counts in a block of its own, with plain additions; the last block
 * is shared by all threads that came too late for one.
 */
#include "shim/work.h"

#include "shim/follow.h"

#define NUM_BLOCKS 64

#define LEGACY     CU_STREAM_LEGACY
#define PER_THREAD CU_STREAM_PER_THREAD
#define NONE       NULL
#define HOST       GP_WORK_HOST
#define DRAINS     GP_WORK_DRAINS

const struct gp_work_row gp_work_rows[GP_WORK_NUM_IDS] = {
#define GP_WORK(name, class, default, stream, object, event, flags) \
	{#name, GP_WORK_##class, default, flags},
#define GP_WORK_HAND(name, class, default, stream, object, event, flags) \
	{#name, GP_WORK_##class, default, flags},
#include "shim/work.def"
};

int gp_work_on;

struct counters {
	_Alignas(64) uint64_t calls[GP_WORK_NUM_CLASSES];
};

/* Synchronization: atomic. Written by the owner alone, the last one by many;
 * a block stays with its thread, and its figures when that has ended. */
static struct counters blocks[NUM_BLOCKS];
static unsigned num_claimed; /* may exceed NUM_BLOCKS; atomic */

static __thread struct counters *mine;

static __attribute__((noinline, cold)) struct counters *claim(void)
{
	unsigned n = NUM_BLOCKS - 1;

	if (__atomic_load_n(&num_claimed, __ATOMIC_RELAXED) < NUM_BLOCKS - 1)
		n = __atomic_fetch_add(&num_claimed, 1, __ATOMIC_RELAXED);
	mine = &blocks[n < NUM_BLOCKS - 1 ? n : NUM_BLOCKS - 1];
	return mine;
}

static void count(enum gp_work_class class)
{
	struct counters *block = mine ? mine : claim();
	uint64_t *calls = &block->calls[class];

	if (block == &blocks[NUM_BLOCKS - 1])
		__atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
	else
		__atomic_store_n(calls,
				 __atomic_load_n(calls, __ATOMIC_RELAXED) + 1,
				 __ATOMIC_RELAXED);
}

uint64_t gp_work_calls(enum gp_work_class class)
{
	uint64_t sum = 0;

	for (int i = 0; i < NUM_BLOCKS; i++)
		sum += __atomic_load_n(&blocks[i].calls[class],
				       __ATOMIC_RELAXED);
	return sum;
}

void gp_work_watch(bool on)
{
	__atomic_store_n(&gp_work_on, on, __ATOMIC_RELAXED);
}

void gp_work_enter(struct gp_work *work, enum gp_work_id id, CUstream stream,
		   void *object, CUevent event)
{
	const struct gp_work_row *row = &gp_work_rows[id];

	work->id = id;
	work->stream = stream ? stream : row->default_stream;
	work->object = object;
	work->event = event;
	work->slot = NULL;
	work->proves = false;
	count(row->class);
	gp_follow_begin(work, row);
}

void gp_work_leave(struct gp_work *work, CUresult rc)
{
	gp_follow_end(work, &gp_work_rows[work->id], rc);
}
