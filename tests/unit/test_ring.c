/*
 * The event ring's promises to threads that meet in it. A writer is held up
 * where it hurts: between choosing an event's place and writing it, where the
 * clock is read.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "stats/process_file.h"

static uint64_t ticks_of_the_test(void);
#define gp_ticks ticks_of_the_test
#include "stats/ring.h"
#undef gp_ticks

#define CHUNKS    16u
#define PER_CHUNK 63u
#define ROUND     (CHUNKS * PER_CHUNK) /* events */

static char ring[CHUNKS * GP_RING_CHUNK] __attribute__((aligned(64)));
static uint64_t taken;

/* Waits twice at `meet`: when it is amid its event `hold_at`, and before it
 * goes on. */
static __thread uint64_t hold_at;
static __thread uint64_t events_made;
static pthread_barrier_t meet;

static uint64_t ticks_of_the_test(void)
{
	if (++events_made == hold_at) {
		pthread_barrier_wait(&meet);
		pthread_barrier_wait(&meet);
	}
	return gp_ticks();
}

static int fresh_ring(void **state)
{
	(void)state;
	memset(ring, 0, sizeof(ring));
	taken = 0;
	gp_ring_start(ring, CHUNKS, &taken);
	return 0;
}

/* A writer's events are told by its name and their number, from 1. */
struct writer {
	pthread_t thread;
	uint64_t name, events;
	uint64_t hold_at; /* 0: nowhere */
	bool stays;       /* until all have met once more */
};

static void *write_events(void *arg)
{
	const struct writer *w = arg;

	hold_at = w->hold_at;
	for (uint64_t i = 1; i <= w->events; i++)
		gp_ring_add(GP_RING_alloc, 0, w->name, i, i, i, i);
	if (w->stays) {
		pthread_barrier_wait(&meet);
		pthread_barrier_wait(&meet);
	}
	return NULL;
}

static void start(struct writer *w)
{
	assert_int_equal(pthread_create(&w->thread, NULL, write_events, w), 0);
}

static void finish(const struct writer *w)
{
	pthread_join(w->thread, NULL);
}

/* How often event `number` of `name` is in the ring, or with 0 any of its. */
static unsigned count(uint64_t name, uint64_t number)
{
	const struct gp_ring_event *e = (void *)ring;
	unsigned n = 0;

	for (unsigned i = 0; i < CHUNKS * (PER_CHUNK + 1); i++)
		n += i % (PER_CHUNK + 1) && e[i].address == name &&
		     (!number || e[i].requested == number) &&
		     e[i].check == gp_ring_sum(e[i].ticks, e[i].address,
					       e[i].requested, e[i].bytes,
					       e[i].allocated, e[i].reserved,
					       e[i].what);
	return n;
}

static void assert_newest(const struct writer *w, uint64_t how_many)
{
	for (uint64_t i = 0; i < how_many && i < w->events; i++)
		if (count(w->name, w->events - i) != 1)
			fail_msg("event %u of writer %u is not there once",
				 (unsigned)(w->events - i), (unsigned)w->name);
}

/* One that is stopped amid an event, while another goes round three times,
 * takes the place of no newer event, and keeps its own. */
static void test_held_up(void **state)
{
	(void)state;
	/* Its first event in a chunk, one amid it, and its last. */
	for (uint64_t at = PER_CHUNK + 1; at <= 2 * PER_CHUNK; at += 31) {
		struct writer slow = {.name = 1, .events = at, .hold_at = at};
		struct writer fast = {.name = 2, .events = 3 * ROUND + 40};

		fresh_ring(NULL);
		pthread_barrier_init(&meet, NULL, 2);
		start(&slow);
		pthread_barrier_wait(&meet);
		start(&fast);
		finish(&fast);
		assert_newest(&fast, (CHUNKS - 3) * PER_CHUNK);
		pthread_barrier_wait(&meet);
		finish(&slow);
		assert_newest(&slow, PER_CHUNK);
		assert_newest(&fast, (CHUNKS - 3) * PER_CHUNK);
		pthread_barrier_destroy(&meet);
	}
}

/* The newest 63 events of each of so many threads are there. */
static void test_newest_of_each(void **state)
{
	enum { WRITERS = CHUNKS / 2 - 1 };
	struct writer writers[WRITERS];

	(void)state;
	pthread_barrier_init(&meet, NULL, WRITERS + 1);
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){
			.name = i + 1,
			.events = i ? 20000 * i + i : 70, /* one is idle soon */
			.stays = true};
		start(&writers[i]);
	}
	pthread_barrier_wait(&meet);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_newest(&writers[i], PER_CHUNK);
	pthread_barrier_wait(&meet);
	for (unsigned i = 0; i < WRITERS; i++)
		finish(&writers[i]);
	pthread_barrier_destroy(&meet);
}

/* What ended threads held is there for others. */
static void test_threads_end(void **state)
{
	struct writer last = {.name = 1000, .events = 2 * ROUND};

	(void)state;
	for (unsigned i = 1; i <= 3 * CHUNKS; i++) {
		struct writer w = {.name = i, .events = 1 + i * 40 % 200};

		start(&w);
		finish(&w);
		assert_newest(&w, PER_CHUNK);
	}
	start(&last);
	finish(&last);
	assert_int_equal(count(last.name, 0), ROUND);
}

/* More threads than there are chunks do what they can. */
static void test_crowd(void **state)
{
	enum { WRITERS = 3 * CHUNKS };
	struct writer writers[WRITERS];
	unsigned whole = 0;

	(void)state;
	pthread_barrier_init(&meet, NULL, WRITERS + 1);
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){.name = i + 1,
					     .events = 3 * ROUND,
					     .hold_at = i % 5 ? 0 : 100,
					     .stays = i % 5};
		start(&writers[i]);
	}
	pthread_barrier_wait(&meet);
	pthread_barrier_wait(&meet);
	for (unsigned i = 0; i < WRITERS; i++)
		finish(&writers[i]);
	for (unsigned i = 0; i < WRITERS; i++)
		whole += count(i + 1, 0);
	assert_in_range(whole, ROUND - WRITERS, ROUND);
	pthread_barrier_destroy(&meet);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held_up),
		cmocka_unit_test_setup(test_newest_of_each, fresh_ring),
		cmocka_unit_test_setup(test_threads_end, fresh_ring),
		cmocka_unit_test_setup(test_crowd, fresh_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
