/* The event ring; see ring.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/ring.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Past the end of a chunk: the first event takes one. */
__thread struct gp_ring_thread gp_ring_thread;
bool gp_ring_on;

/* Written by gp_ring_start(), then constant. */
static char *chunks;
static uint32_t num_chunks;
static uint64_t *taken;

void gp_ring_start(void *ring, uint32_t number, uint64_t *counter)
{
	chunks = ring;
	num_chunks = number;
	taken = counter;
	__atomic_store_n(&gp_ring_on, true, __ATOMIC_RELEASE);
}

void gp_ring_stop(void)
{
	__atomic_store_n(&gp_ring_on, false, __ATOMIC_RELEASE);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((noinline, cold)) struct gp_ring_event *gp_ring_next_chunk(void)
{
	struct gp_ring_thread *t = &gp_ring_thread;
	uint64_t ticket, mono_ns, ticks;
	struct gp_ring_chunk *chunk;
	int saved = errno;

	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* with gp_ring_start() */
	if (!t->thread)
		t->thread = (uint64_t)(uint32_t)syscall(SYS_gettid) << 32;
	ticket = __atomic_add_fetch(taken, 1, __ATOMIC_RELAXED);
	chunk = (void *)(chunks + ticket % num_chunks * GP_RING_CHUNK);
	mono_ns = now_ns();
	ticks = gp_ticks();
#define PUT(field, value) \
	__atomic_store_n(&chunk->field, value, __ATOMIC_RELAXED)
	PUT(ticket, ticket);
	PUT(thread, t->thread >> 32);
	PUT(mono_ns, mono_ns);
	PUT(ticks, ticks);
	PUT(check, mono_ns + ticks + ticket);
#undef PUT
	t->owner = &chunk->ticket;
	t->ticket = ticket;
	t->next = (struct gp_ring_event *)chunk + 1;
	t->end = (struct gp_ring_event *)chunk +
		 GP_RING_CHUNK / sizeof(struct gp_ring_event);
	for (int i = 0; i < GP_RING_AHEAD; i++)
		gp_ring_fetch(t->next + i);
	errno = saved;
	return t->next;
}

const char *gp_ring_kind_name(unsigned kind)
{
	static const char *const names[] = {NULL,
#define X(name, help) #name,
					    GP_RING_KINDS(X)
#undef X
	};

	return kind < GP_RING_KIND_COUNT ? names[kind] : NULL;
}
