#define _GNU_SOURCE
#include "tests/order/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

static __thread int self = -1;

/* Only the thread whose turn it is touches these. */
static struct {
	unsigned n, alive;
	bool gone[MAX_THREADS];
	uint64_t random;
	uint32_t often; /* of 1024 points a switch */
	bool keep;
} turns;

static sem_t turn[MAX_THREADS], all_gone;
static bool (*work)(unsigned thread);
static pthread_t thread_of[MAX_THREADS];

static uint32_t draw(uint32_t below)
{
	turns.random ^= turns.random << 13;
	turns.random ^= turns.random >> 7;
	turns.random ^= turns.random << 17;
	return (uint32_t)((turns.random >> 32) * below >> 32);
}

static void await(sem_t *sem)
{
	while (sem_wait(sem) && errno == EINTR)
		;
}

static int other(void)
{
	uint32_t skip = draw(turns.alive - 1);

	for (unsigned i = 0; i < turns.n; i++)
		if (!turns.gone[i] && (int)i != self && skip-- == 0)
			return (int)i;
	abort();
}

int threads_self(void)
{
	return self;
}

void threads_yield(void)
{
	struct timespec moment = {0, 20000};

	if (self < 0 || turns.alive < 2) {
		nanosleep(&moment, NULL);
		return;
	}
	sem_post(&turn[other()]);
	await(&turn[self]);
}

void threads_point(void)
{
	if (self < 0 || turns.alive < 2 || turns.keep)
		return;
	if (draw(1024) < turns.often)
		threads_yield();
}

void threads_keep(bool keep)
{
	turns.keep = keep;
}

static void *go_on(void);

/* Takes the place, and the turn, of the thread that it waits for. What that
 * one does in ending it does as itself. */
static void *follow(void *arg)
{
	self = (int)(intptr_t)arg;
	pthread_join(thread_of[self], NULL);
	thread_of[self] = pthread_self();
	return go_on();
}

static void *go_on(void)
{
	pthread_t next;

	if (work((unsigned)self)) {
		if (pthread_create(&next, NULL, follow, (void *)(intptr_t)self))
			abort();
		return NULL;
	}
	turns.gone[self] = true;
	if (--turns.alive)
		sem_post(&turn[other()]);
	else
		sem_post(&all_gone);
	self = -1;
	return NULL;
}

static void *run(void *arg)
{
	self = (int)(intptr_t)arg;
	await(&turn[self]);
	return go_on();
}

void threads_run(unsigned n, uint64_t seed, bool (*body)(unsigned thread))
{
	static const uint32_t often[] = {0, 8, 32, 100, 300};

	work = body;
	turns.n = n;
	turns.alive = n + 1; /* other() leaves one out, itself */
	turns.random = seed * 0x9e3779b97f4a7c15ull + 1;
	turns.often = often[draw(5)];
	turns.alive = n;
	sem_init(&all_gone, 0, 0);
	for (unsigned i = 0; i < n; i++) {
		sem_init(&turn[i], 0, 0);
		if (pthread_create(&thread_of[i], NULL, run,
				   (void *)(intptr_t)i))
			abort();
	}
	sem_post(&turn[0]);
	await(&all_gone);
	for (unsigned i = 0; i < n; i++)
		pthread_join(thread_of[i], NULL);
}

/* ---- in place of the C library's ----------------------------------------------- */

#define INSTEAD __attribute__((visibility("default")))

INSTEAD int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int err;

	threads_point();
	while ((err = pthread_mutex_trylock(mutex)) == EBUSY)
		threads_yield();
	return err;
}

/* For these threads a wait that ends for no reason, as it may. */
INSTEAD int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct timespec soon;

	if (self < 0) {
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_sec++;
		pthread_cond_timedwait(cond, mutex, &soon);
		return 0;
	}
	pthread_mutex_unlock(mutex);
	threads_yield();
	return pthread_mutex_lock(mutex);
}

INSTEAD int sched_yield(void)
{
	threads_yield();
	return 0;
}
