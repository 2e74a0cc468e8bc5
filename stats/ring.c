/* The event ring; see ring.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/ring.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stats/clock.h"

/* Past the end of a chunk: the first event takes one. */
__thread struct gp_ring_thread gp_ring_thread;
bool gp_ring_on;

/* Written by gp_ring_start(), then constant. */
static char *chunks;
static uint32_t num_chunks;
static uint64_t *taken;
static pthread_key_t key; /* runs leave() when a thread ends */
static bool have_key;

static uint64_t turns;  /* chunks looked at; atomic */
static uint64_t robbed; /* chunks taken from their holders; atomic */

/* Others may take it, if it has not been taken from us already. */
static void release(struct gp_ring_chunk *chunk, uint64_t ticket)
{
	if (chunk)
		__atomic_compare_exchange_n(&chunk->holder, &ticket, 0, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* What the thread does after this takes a chunk anew, and comes here again. */
static void leave(void *arg)
{
	struct gp_ring_thread *t = arg, was = *t;

	*t = (struct gp_ring_thread){0};
	/* In the child of a fork they are the parent's. */
	if (!__atomic_load_n(&gp_ring_on, __ATOMIC_RELAXED))
		return;
	release(was.before, was.before_ticket);
	release(was.chunk, was.ticket);
}

void gp_ring_start(void *ring, uint32_t number, uint64_t *counter)
{
	chunks = ring;
	num_chunks = number;
	taken = counter;
	have_key = pthread_key_create(&key, leave) == 0;
	__atomic_store_n(&gp_ring_on, true, __ATOMIC_RELEASE);
}

void gp_ring_stop(void)
{
	__atomic_store_n(&gp_ring_on, false, __ATOMIC_RELEASE);
}

static void enter(struct gp_ring_thread *t)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* with gp_ring_start() */
	t->thread = (uint64_t)(uint32_t)syscall(SYS_gettid) << 32;
	if (have_key)
		pthread_setspecific(key, t);
}

static struct gp_ring_chunk *chunk_at(uint64_t turn)
{
	return (void *)(chunks + turn % num_chunks * GP_RING_CHUNK);
}

/* The next chunk that nobody holds; of too many that are held, one in turn. */
static struct gp_ring_chunk *take(uint64_t ticket)
{
	struct gp_ring_chunk *chunk;
	uint32_t looks = 0;

	do {
		uint64_t nobody = 0;

		chunk = chunk_at(
			__atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED));
		if (!__atomic_load_n(&chunk->holder, __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(&chunk->holder, &nobody, ticket,
						false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return chunk;
	} while (++looks < num_chunks && looks < GP_RING_LOOKS);
	chunk = chunk_at(__atomic_add_fetch(&robbed, 1, __ATOMIC_RELAXED));
	__atomic_store_n(&chunk->holder, ticket, __ATOMIC_RELAXED);
	return chunk;
}

static void sign(struct gp_ring_chunk *chunk, uint64_t ticket, uint64_t thread)
{
	uint64_t mono_ns = gp_clock_ns(CLOCK_MONOTONIC);
	uint64_t ticks = gp_ticks();

#define PUT(field, value) \
	__atomic_store_n(&chunk->field, value, __ATOMIC_RELAXED)
	PUT(ticket, ticket);
	PUT(thread, thread >> 32);
	PUT(mono_ns, mono_ns);
	PUT(ticks, ticks);
	PUT(check, mono_ns + ticks + ticket);
#undef PUT
}

__attribute__((noinline, cold)) struct gp_ring_event *gp_ring_next_chunk(void)
{
	struct gp_ring_thread *t = &gp_ring_thread;
	struct gp_ring_chunk *chunk;
	uint64_t ticket;
	int saved = errno;

	if (!t->thread)
		enter(t);
	release(t->before, t->before_ticket);
	ticket = __atomic_add_fetch(taken, 1, __ATOMIC_RELAXED);
	chunk = take(ticket);
	sign(chunk, ticket, t->thread);
	t->before = t->chunk;
	t->before_ticket = t->ticket;
	t->chunk = chunk;
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
