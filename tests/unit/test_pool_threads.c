/*
 * Threads: blocks that travel, threads that end, operations that overlap.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "pool/state.h"
#include "tests/support/pool_rig.h"

static struct pool_rig rig;

static int open_rig(void **state)
{
	*state = &rig;
	rig = pool_rig_new(GIB, false);
	return pool_rig_open(&rig);
}

static void in_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
	pthread_join(thread, NULL);
}

struct list {
	uint64_t va[2000];
	int length, failures;
};

static void *free_all(void *arg)
{
	struct list *list = arg;

	for (int i = 0; i < list->length; i++)
		list->failures += gp_pool_free(rig.pool, list->va[i]) != 0;
	return NULL;
}

static void *allocate_all(void *arg)
{
	struct list *list = arg;

	for (int i = 0; i < list->length; i++)
		list->failures += gp_pool_alloc(rig.pool, 3000 + i % 7 * 512,
						&list->va[i]) != 0;
	return NULL;
}

/* What another thread frees comes back to the owner without growth. */
static void blocks_come_back_to_their_owner(void **state)
{
	struct list list = {.length = 2000};
	uint64_t used, calls;

	(void)state;
	allocate_all(&list);
	used = model_used(rig.model);
	calls = pool_rig_stats(&rig).num_driver_calls;
	for (int i = 0; i < 20; i++) {
		in_thread(free_all, &list);
		assert_null(pool_rig_check(&rig));
		assert_int_equal(pool_rig_stats(&rig).allocation.current, 0);
		allocate_all(&list);
	}
	free_all(&list);
	assert_int_equal(list.failures, 0);
	assert_int_equal(model_used(rig.model), used);
	assert_int_equal(pool_rig_stats(&rig).num_driver_calls, calls);
	assert_int_equal(pool_rig_stats(&rig).allocation.peak, 2000);
}

/* A thread ends; its blocks live on, its cache serves others. */
static void a_thread_that_ends_leaves_nothing(void **state)
{
	struct list list;
	uint64_t used = 0;

	(void)state;
	list.failures = 0;
	for (int i = 0; i < 1500; i++) { /* more than there are caches */
		list.length = i % 50 ? 20 : 2000;
		in_thread(allocate_all, &list);
		in_thread(free_all, &list);
		if (i == 0)
			used = model_used(rig.model);
	}
	assert_int_equal(list.failures, 0);
	assert_int_equal(model_used(rig.model), used);
	assert_in_range(rig.pool->num_caches, 1, 2);
	list.length = 2000;
	in_thread(allocate_all, &list);
	free_all(&list);
	assert_int_equal(pool_rig_stats(&rig).allocation.current, 0);
	gp_pool_trim(rig.pool, UINT64_MAX);
	assert_int_equal(model_used(rig.model), 0);
}

/* Memory that an idle thread holds on to is found by others. */
static sem_t cached, done;

static void *hold_in_cache(void *arg)
{
	uint64_t va;

	(void)arg;
	if (gp_pool_alloc(rig.pool, 700 * MIB, &va) ||
	    gp_pool_free(rig.pool, va))
		return NULL;
	sem_post(&cached);
	sem_wait(&done);
	return NULL;
}

static void another_threads_cache_is_no_loss(void **state)
{
	pthread_t thread;

	(void)state;
	sem_init(&cached, 0, 0);
	sem_init(&done, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, hold_in_cache, NULL), 0);
	sem_wait(&cached);
	assert_int_not_equal(pool_rig_alloc(&rig, 900 * MIB), 0);
	assert_int_equal(pool_rig_stats(&rig).num_ooms, 0);
	sem_post(&done);
	pthread_join(thread, NULL);
}

/* Two threads in turn, each with one block at a time: one would do, but then
 * each would have to take it out of the other's cache every time. */
struct turns {
	sem_t mine, *theirs;
	uint64_t bytes, last;
	int failures, changes;
};

static void *take_turns(void *arg)
{
	struct turns *turns = arg;
	uint64_t va = 0;

	for (int i = 0; i < 200; i++) {
		sem_wait(&turns->mine);
		turns->failures += gp_pool_alloc(rig.pool, turns->bytes, &va) ||
				   gp_pool_free(rig.pool, va);
		if (i >= 100 && va != turns->last)
			turns->changes++;
		turns->last = va;
		sem_post(turns->theirs);
	}
	return NULL;
}

/* True: at last each had a block of its own. */
static bool turns_of(uint64_t bytes)
{
	struct turns a = {.bytes = bytes}, b = {.bytes = bytes};
	pthread_t thread;

	a.theirs = &b.mine;
	b.theirs = &a.mine;
	sem_init(&a.mine, 0, 1);
	sem_init(&b.mine, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, take_turns, &a), 0);
	take_turns(&b);
	pthread_join(thread, NULL);
	assert_int_equal(a.failures + b.failures, 0);
	assert_int_equal(a.changes + b.changes, 0);
	return a.last != b.last;
}

static void threads_do_not_rob_each_other_for_ever(void **state)
{
	(void)state;
	assert_true(turns_of(16 * MIB));
	assert_int_equal(pool_rig_stats(&rig).reserved_bytes.peak, 32 * MIB);
	assert_true(turns_of(MIB / 2 + 1));
}

/* As long as memory is not short. */
static void before_memory_runs_out_they_do(void **state)
{
	(void)state;
	model_set_total(rig.model, 16 * MIB);
	assert_false(turns_of(16 * MIB));
}

/* While a trim is between the driver and the books nothing is free, but it
 * will be: a request then waits and is served. */
static sem_t releasing;
static bool first;

static void slow_release(void *arg, enum model_call call)
{
	const struct timespec nap = {.tv_nsec = 20000000};

	(void)arg;
	if (call != MODEL_RELEASE ||
	    !__atomic_exchange_n(&first, false, __ATOMIC_SEQ_CST))
		return;
	sem_post(&releasing);
	nanosleep(&nap, NULL);
}

static void *trim(void *arg)
{
	(void)arg;
	gp_pool_trim(rig.pool, UINT64_MAX);
	return NULL;
}

static void memory_on_its_way_is_waited_for(void **state)
{
	pthread_t thread;
	uint64_t va;

	(void)state;
	sem_init(&releasing, 0, 0);
	first = true;
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, GIB));
	model_set_hook(rig.model, slow_release, NULL);
	assert_int_equal(pthread_create(&thread, NULL, trim, NULL), 0);
	sem_wait(&releasing);
	assert_int_equal(gp_pool_alloc(rig.pool, 1000 * MIB, &va), 0);
	pthread_join(thread, NULL);
	model_set_hook(rig.model, NULL, NULL);
	assert_int_equal(pool_rig_stats(&rig).num_ooms, 0);
}

/* A driver call is made with no lock held: the pool answers meanwhile. */
static void ask(void *arg, enum model_call call)
{
	struct gp_pool_stats stats;
	uint64_t base, bytes;
	char why[64];

	(void)call;
	gp_pool_get_stats(rig.pool, &stats);
	assert_int_equal(
		gp_pool_find(rig.pool, *(uint64_t *)arg, &base, &bytes), 0);
	assert_int_equal(gp_pool_check(rig.pool, why, sizeof(why)), 0);
}

static void no_lock_is_held_across_a_driver_call(void **state)
{
	uint64_t live = pool_rig_alloc(&rig, 5000);
	uint64_t a[4];

	(void)state;
	model_set_hook(rig.model, ask, &live);
	for (int i = 0; i < 4; i++)
		a[i] = pool_rig_alloc(&rig, 240 * MIB);
	gp_pool_free(rig.pool, a[0]);
	gp_pool_free(rig.pool, a[2]);
	assert_int_not_equal(pool_rig_alloc(&rig, 450 * MIB), 0);
	gp_pool_free(rig.pool, a[1]);
	gp_pool_trim(rig.pool, UINT64_MAX);
	model_set_hook(rig.model, NULL, NULL);
	assert_true(pool_rig_stats(&rig).num_remaps > 0);
}

/* ---- peaks ------------------------------------------------------------------- */

static void *free_eight(void *arg)
{
	uint64_t *va = arg;
	uintptr_t failures = 0;

	for (int i = 0; i < 8; i++)
		failures += gp_pool_free(rig.pool, va[i]) != 0;
	return (void *)failures;
}

/* One thread's count only rises, the others' only fall: their highest levels
 * are of different moments, and together no peak. */
static void peaks_are_of_one_moment(void **state)
{
	uint64_t va[8];

	(void)state;
	for (int round = 0; round < 30; round++) {
		pthread_t thread;
		void *failures;

		for (int i = 0; i < 8; i++) {
			va[i] = pool_rig_alloc(&rig, 16 * MIB);
			assert_int_not_equal(va[i], 0);
		}
		assert_int_equal(pthread_create(&thread, NULL, free_eight, va),
				 0);
		pthread_join(thread, &failures);
		assert_null(failures);
		if (round % 10 == 9)
			pool_rig_stats(&rig);
	}
	struct gp_pool_stats stats = pool_rig_stats(&rig);

	assert_int_equal(stats.allocated_bytes.current, 0);
	assert_int_equal(stats.allocated_bytes.peak, 8 * 16 * MIB);
	assert_true(stats.allocated_bytes.peak <= stats.reserved_bytes.peak);
}

struct pieces {
	uint64_t first, second; /* neighbours, the program's */
	uint64_t got;
};

/* Frees what another thread allocated, and wants as much in one piece. */
static void *free_and_join(void *arg)
{
	struct pieces *p = arg;

	gp_pool_free(rig.pool, p->first);
	gp_pool_free(rig.pool, p->second);
	p->got = pool_rig_alloc(&rig, 16 * MIB);
	return NULL;
}

/* Else a larger range would be broken into, and memory moved for whoever needs
 * that one: as a program that frees in one thread what it allocates in another
 * does at every step. */
static void free_memory_in_other_caches_counts(void **state)
{
	struct pieces p;
	uint64_t wall, large;

	(void)state;
	large = pool_rig_alloc(&rig, 40 * MIB);
	wall = pool_rig_alloc(&rig, 2 * MIB);
	p.first = pool_rig_alloc(&rig, 8 * MIB);
	p.second = pool_rig_alloc(&rig, 8 * MIB);
	assert_int_equal(p.second, p.first + 8 * MIB);
	assert_true(wall && pool_rig_alloc(&rig, 2 * MIB));
	assert_int_equal(gp_pool_free(rig.pool, large), 0);
	gp_pool_collect(rig.pool);
	in_thread(free_and_join, &p);
	assert_int_equal(p.got, p.first);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, open_rig, pool_rig_end)
	const struct CMUnitTest tests[] = {
		T(blocks_come_back_to_their_owner),
		T(a_thread_that_ends_leaves_nothing),
		T(another_threads_cache_is_no_loss),
		T(free_memory_in_other_caches_counts),
		T(threads_do_not_rob_each_other_for_ever),
		T(before_memory_runs_out_they_do),
		T(memory_on_its_way_is_waited_for),
		T(no_lock_is_held_across_a_driver_call),
		T(peaks_are_of_one_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
