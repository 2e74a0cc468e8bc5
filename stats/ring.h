/*
 * The event ring: what the pool did last, in memory that outlives the process
 * (process_file.h).
 *
 * A thread takes a chunk at a time, so that threads meet at the shared counters
 * once in 63 events. Chunks are taken in turn, and whose turn has come round is
 * written over from its start: the oldest events go first.
 *
 * A thread holds the chunk that it fills and the one before it, so its newest 63
 * events are there however long it is kept from running and whatever the others
 * write meanwhile; and no thread writes into a chunk that is another's now. With
 * its end it holds none. A held chunk is passed by, unless so many are held that
 * GP_RING_LOOKS of them in a row are, or all: with more threads than half the
 * chunks, or half GP_RING_LOOKS. Then one is taken from its holder, which notices
 * before its next event; should it be amid one, that event may be lost, or one
 * of the new holder's. A torn event, there or where the process ended, has a
 * wrong checksum: it is skipped, never misread.
 *
 * Readers sort by time; allocated and reserved are as the thread knew them:
 * exact in a program with one thread.
 */
#ifndef GP_STATS_RING_H
#define GP_STATS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/process_file.h"

/* X(name, help): the number is the row's, from 1. Only add at the end. */
#define GP_RING_KINDS(X)                                                \
	X(alloc, "memory handed to the program")                        \
	X(free, "memory it gave back")                                  \
	X(segment_map, "a handle mapped into the pool's address range") \
	X(segment_unmap, "a handle unmapped")                           \
	X(segment_alloc, "a segment from the driver")                   \
	X(segment_free, "a segment given back to it")                   \
	X(oom, "a request that could not be served")                    \
	X(trim, "cached memory given back to the driver")               \
	X(limit, "the limit was changed; requested: the new one")       \
	X(neighbour, "asked others to trim; requested, and what it gave")

enum gp_ring_kind {
	GP_RING_none,
#define X(name, help) GP_RING_##name,
	GP_RING_KINDS(X)
#undef X
		GP_RING_KIND_COUNT
};

struct gp_ring_event {
	uint64_t ticks;
	uint64_t address;   /* where the block begins, red zone and all */
	uint64_t requested; /* bytes the program asked for */
	uint64_t bytes;     /* of the block */
	uint64_t allocated; /* after it, on the device in this pool */
	uint64_t reserved;
	uint64_t what; /* kind | device << 8 | thread << 32 */
	uint64_t check;
};

/* The first event's place is the chunk's head. */
struct gp_ring_chunk {
	uint64_t ticket; /* atomic; the owner's. 0: never taken */
	uint64_t thread;
	uint64_t mono_ns, ticks; /* the same moment */
	uint64_t check;          /* mono_ns + ticks + ticket */
	uint64_t holder; /* atomic; ticket of whom may write here, or 0 */
	uint64_t unused[2];
};

#define GP_RING_CHUNK 4096u
/* Held chunks that are passed by before one is taken from its holder. */
#define GP_RING_LOOKS 256u
_Static_assert(sizeof(struct gp_ring_event) == 64, "one cache line an event");
_Static_assert(sizeof(struct gp_ring_chunk) == 64, "in the place of one");

/* Odd, so that a change of any one word changes the sum. */
#define GP_RING_K1 0x9e3779b97f4a7c15ull
#define GP_RING_K2 0xbf58476d1ce4e5b9ull
#define GP_RING_K3 0x94d049bb133111ebull
#define GP_RING_K4 0xd6e8feb86659fd93ull
#define GP_RING_K5 0xa0761d6478bd642full
#define GP_RING_K6 0xe7037ed1a0b428dbull
#define GP_RING_K7 0x8ebc6af09c88c6e3ull

static inline uint64_t gp_ring_sum(uint64_t ticks, uint64_t address,
				   uint64_t requested, uint64_t bytes,
				   uint64_t allocated, uint64_t reserved,
				   uint64_t what)
{
	return ticks * GP_RING_K1 + address * GP_RING_K2 +
	       requested * GP_RING_K3 + bytes * GP_RING_K4 +
	       allocated * GP_RING_K5 + reserved * GP_RING_K6 +
	       what * GP_RING_K7 + 1;
}

/* Only its thread's own. */
struct gp_ring_thread {
	struct gp_ring_event *next, *end;
	const uint64_t *owner; /* the chunk's ticket */
	uint64_t ticket;
	uint64_t thread;                      /* << 32; 0: holds no chunk */
	struct gp_ring_chunk *chunk, *before; /* held; or NULL */
	uint64_t before_ticket;
};

extern __thread struct gp_ring_thread gp_ring_thread;
extern bool gp_ring_on; /* atomic */

/* `chunks` (at least 1) of GP_RING_CHUNK zeroed bytes, and a zeroed counter. They
 * stay. */
void gp_ring_start(void *ring, uint32_t chunks, uint64_t *taken);
/* No more events, from any thread. In the child of a fork. */
void gp_ring_stop(void);

/* Gives the thread another chunk; where its first event goes. Preserves errno. */
struct gp_ring_event *gp_ring_next_chunk(void);

/* Events ahead that are fetched to be written: an atomic exchange, as the pool's
 * hit path makes, waits for every store before it, and a line that has to come
 * from memory first costs more than the rest of the event. */
#define GP_RING_AHEAD 4

static inline void gp_ring_fetch(const struct gp_ring_event *e)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)e));
#else
	__builtin_prefetch(e, 1);
#endif
}

/* Something happened now. Any thread, under any lock; preserves errno. */
static inline __attribute__((always_inline)) void
gp_ring_add(enum gp_ring_kind kind, uint32_t device, uint64_t address,
	    uint64_t requested, uint64_t bytes, uint64_t allocated,
	    uint64_t reserved)
{
	struct gp_ring_thread *t = &gp_ring_thread;
	struct gp_ring_event *e = t->next;
	uint64_t ticks, what;

	if (!__atomic_load_n(&gp_ring_on, __ATOMIC_RELAXED))
		return;
	if (__builtin_expect(e == t->end || __atomic_load_n(t->owner,
							    __ATOMIC_RELAXED) !=
						    t->ticket,
			     0))
		e = gp_ring_next_chunk();
	t->next = e + 1;
	gp_ring_fetch(e + GP_RING_AHEAD);
	ticks = gp_ticks();
	what = (uint64_t)kind | (uint64_t)(device & 0xff) << 8 | t->thread;
#define PUT(field, value) __atomic_store_n(&e->field, value, __ATOMIC_RELAXED)
	PUT(ticks, ticks);
	PUT(address, address);
	PUT(requested, requested);
	PUT(bytes, bytes);
	PUT(allocated, allocated);
	PUT(reserved, reserved);
	PUT(what, what);
	PUT(check, gp_ring_sum(ticks, address, requested, bytes, allocated,
			       reserved, what));
#undef PUT
}

#endif
