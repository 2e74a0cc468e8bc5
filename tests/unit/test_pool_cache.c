/*
 * A thread keeps its blocks: what other threads do with its cache for a moment
 * does not take its hits away.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/state.h"
#include "tests/support/pool_rig.h"

#define BYTES (16 * MIB)

static struct pool_rig rig;

static int open_rig(void **state)
{
	*state = &rig;
	rig = pool_rig_new(GIB, false);
	return pool_rig_open(&rig);
}

static int open_rounding_rig(void **state)
{
	*state = &rig;
	rig = pool_rig_new(GIB, false);
	for (int i = 0; i < GP_DIVISIONS; i++)
		rig.config.roundup_power2_divisions[i] = 4;
	return pool_rig_open(&rig);
}

static void pair(void)
{
	uint64_t va = pool_rig_alloc(&rig, BYTES);

	assert_int_not_equal(va, 0);
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
}

static struct gp_cache *own_cache(void)
{
	return gp_cache_find(rig.pool);
}

/* As another thread has it: what this one holds, and debug builds look at, is
 * none the more. */
static void lock_elsewhere(struct gp_cache *cache)
{
	assert_int_equal(__atomic_exchange_n(&cache->lock, 1, __ATOMIC_ACQUIRE),
			 0);
}

static void unlock_elsewhere(struct gp_cache *cache)
{
	__atomic_store_n(&cache->lock, 0, __ATOMIC_RELEASE);
}

/* In place of the C library's: a thread that waits for a lock calls it. */
static struct gp_cache *let_go;
static int yields;

int sched_yield(void)
{
	yields++;
	if (let_go)
		unlock_elsewhere(let_go);
	let_go = NULL;
	return 0;
}

/* Somebody adds figures up just then: the free waits, and the block is there for
 * the next allocation. */
static void a_free_waits_for_a_busy_cache(void **state)
{
	uint64_t va = pool_rig_alloc(&rig, BYTES);
	struct gp_cache *cache = own_cache();

	(void)state;
	assert_int_not_equal(va, 0);
	yields = 0;
	lock_elsewhere(cache);
	let_go = cache;
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	assert_int_equal(yields, 1);
	assert_int_equal(cache->large, 1);
	assert_null(cache->remote);
}

/* But not for ever: a signal may have come while the thread itself had it. */
static void though_not_for_ever(void **state)
{
	uint64_t va = pool_rig_alloc(&rig, BYTES);
	struct gp_cache *cache = own_cache();

	(void)state;
	assert_int_not_equal(va, 0);
	lock_elsewhere(cache);
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	assert_int_equal(cache->large, 0);
	assert_non_null(cache->remote);
	unlock_elsewhere(cache);
	assert_int_equal(pool_rig_alloc(&rig, BYTES), va);
}

/* Figures are added up when a thread's level rose, with every cache locked. It
 * did not where the block was its own, whatever the way there: a request that is
 * rounded is never a plain hit. */
static void own_blocks_add_nothing_up(void **state)
{
	uint64_t va;

	(void)state;
	pair();
	assert_int_equal(pool_rig_stats(&rig).allocated_bytes.current, 0);
	va = pool_rig_alloc(&rig, BYTES);
	assert_int_not_equal(va, 0);
	assert_int_equal(gp_pool_allocated(rig.pool), 0);
	assert_int_equal(pool_rig_stats(&rig).allocated_bytes.current, BYTES);
}

/* What another thread gave back does count. */
static void *free_it(void *arg)
{
	return (void *)(uintptr_t)gp_pool_free(rig.pool, *(uint64_t *)arg);
}

static void others_blocks_do(void **state)
{
	uint64_t va = pool_rig_alloc(&rig, BYTES);
	pthread_t thread;
	void *failed;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, free_it, &va), 0);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(pool_rig_stats(&rig).allocated_bytes.current, 0);
	assert_int_equal(pool_rig_alloc(&rig, BYTES), va);
	assert_int_equal(gp_pool_allocated(rig.pool), BYTES);
}

/* A thread looks for a place in all caches, and leaves this one's second block
 * where it can be found. To get that back is no reason to look into the other's
 * cache: it would miss in turn, and so on. */
static sem_t looked, done;
static struct gp_cache *others;

static void *look_and_keep(void *arg)
{
	(void)arg;
	pair();
	others = own_cache();
	sem_post(&looked);
	sem_wait(&done);
	return NULL;
}

static void the_robbed_do_not_rob(void **state)
{
	uint64_t a = pool_rig_alloc(&rig, BYTES);
	uint64_t b = pool_rig_alloc(&rig, BYTES);
	pthread_t thread;

	(void)state;
	assert_int_equal(gp_pool_free(rig.pool, a), 0);
	assert_int_equal(gp_pool_free(rig.pool, b), 0);
	assert_int_equal(own_cache()->large, 2);
	sem_init(&looked, 0, 0);
	sem_init(&done, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, look_and_keep, NULL), 0);
	sem_wait(&looked);
	assert_int_equal(own_cache()->large, 0);
	assert_int_equal(others->large, 1);
	assert_int_not_equal(pool_rig_alloc(&rig, BYTES), 0);
	assert_int_equal(others->large, 1);
	assert_int_equal(pool_rig_stats(&rig).reserved_bytes.peak, 2 * BYTES);
	sem_post(&done);
	pthread_join(thread, NULL);
}

/* Another thread's cache is left alone where it is empty: its lock belongs to a
 * core that is busy with it. */
static void an_empty_cache_is_left_alone(void **state)
{
	pthread_t thread;

	(void)state;
	sem_init(&looked, 0, 0);
	sem_init(&done, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, look_and_keep, NULL), 0);
	sem_wait(&looked);
	assert_int_equal(others->large, 1);
	assert_int_not_equal(pool_rig_alloc(&rig, BYTES), 0);
	assert_int_equal(others->large, 0);
	rig.pool->tally_slack = GIB; /* no figures are added up */
	yields = 0;
	let_go = others;
	__atomic_store_n(&others->lock, 1, __ATOMIC_RELAXED);
	assert_int_not_equal(pool_rig_alloc(&rig, BYTES), 0);
	assert_int_equal(yields, 0);
	let_go = NULL;
	gp_cache_unlock(others);
	sem_post(&done);
	pthread_join(thread, NULL);
}

#define T(test) cmocka_unit_test_setup_teardown(test, open_rig, pool_rig_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_free_waits_for_a_busy_cache),
		T(though_not_for_ever),
		cmocka_unit_test_setup_teardown(own_blocks_add_nothing_up,
						open_rounding_rig,
						pool_rig_end),
		T(others_blocks_do),
		T(the_robbed_do_not_rob),
		T(an_empty_cache_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
