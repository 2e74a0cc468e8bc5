/*
 * Parts of the slabs: small misses that wait for no other thread, and what
 * becomes of memory when threads have parts of their own.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/state.h"
#include "tests/support/pool_rig.h"

#define WAIT_S  20
#define ROUNDS  100
#define CHANCES 600 /* to meet in a moment that is short */
#define BLOCKS  100
#define SIZES   50
#define NUM_BIG 6

static struct pool_rig rig;

static int open_rig(void **state)
{
	*state = &rig;
	rig = pool_rig_new(GIB, false);
	return pool_rig_open(&rig);
}

static struct gp_cache *own_cache(void)
{
	return gp_cache_find(rig.pool);
}

static uint64_t take(uint64_t bytes)
{
	uint64_t va = pool_rig_alloc(&rig, bytes);

	assert_int_not_equal(va, 0);
	return va;
}

static void give(uint64_t va)
{
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
}

static unsigned part_at(uint64_t va)
{
	struct gp_slab *slab;

	gp_arena_at(&rig.pool->arena, (va - rig.pool->base) >> GP_GRANULE_SHIFT,
		    &slab);
	assert_non_null(slab);
	return (unsigned)(slab->part - rig.pool->slabs.parts);
}

static sem_t ready, go, done;

/* Sizes that it never had before, then from what its cache holds. One block
 * stays, else the slab would be wholly free. */
static void *miss(void *arg)
{
	uint64_t va[SIZES], stays;
	uintptr_t failed = 0;

	(void)arg;
	failed += gp_pool_alloc(rig.pool, 512 * KIB, &stays) != 0;
	sem_post(&ready);
	sem_wait(&go);
	for (uint64_t i = 0; i < SIZES && !failed; i++)
		failed += gp_pool_alloc(rig.pool, (i + 1) * 512, &va[i]) != 0;
	for (uint64_t i = 0; i < SIZES && !failed; i++)
		failed += gp_pool_free(rig.pool, va[i]) != 0;
	failed += gp_pool_alloc(rig.pool, 1000 * KIB, &va[0]) != 0;
	sem_post(&done);
	return (void *)failed;
}

static void small_misses_do_without_the_pools_lock(void **state)
{
	struct timespec until;
	pthread_t thread;
	void *failed;
	int late;

	(void)state;
	rig.pool->tally_slack = GIB; /* no figures are added up */
	assert_int_equal(pthread_create(&thread, NULL, miss, NULL), 0);
	sem_wait(&ready);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	gp_lock(&rig.pool->lock);
	sem_post(&go);
	late = sem_timedwait(&done, &until);
	gp_unlock(&rig.pool->lock);
	pthread_join(thread, &failed);
	assert_int_equal(late, 0);
	assert_null(failed);
	assert_null(pool_rig_check(&rig));
}

static struct gp_cache *meeting;

static void *meet(void *arg)
{
	uint64_t *va = arg;

	meeting = own_cache();
	meeting->meetings = UINT32_MAX / 2; /* often enough */
	sem_post(&ready);
	sem_wait(&go);
	*va = pool_rig_alloc(&rig, 5 * KIB);
	return NULL;
}

/* The one that came later gets a part, and with it what it wants of the slabs
 * there are: no memory is asked for. */
static void threads_that_meet_get_parts(void **state)
{
	uint64_t first = take(4 * KIB), va = 0, reserved;
	pthread_t thread;

	(void)state;
	reserved = gp_pool_reserved(rig.pool);
	assert_int_equal(part_at(first), 0);
	assert_int_equal(pthread_create(&thread, NULL, meet, &va), 0);
	sem_wait(&ready);
	gp_lock(&rig.pool->slabs.parts[0].lock);
	sem_post(&go);
	for (int ms = 0; ms < WAIT_S * 1000 &&
			 !__atomic_load_n(&meeting->part, __ATOMIC_RELAXED);
	     ms++)
		usleep(1000);
	gp_unlock(&rig.pool->slabs.parts[0].lock);
	pthread_join(thread, NULL);
	assert_int_not_equal(meeting->part, 0);
	assert_int_not_equal(va, 0);
	assert_int_equal(part_at(va), meeting->part);
	assert_int_equal(own_cache()->part, 0);
	assert_int_equal(gp_pool_reserved(rig.pool), reserved);
	assert_null(pool_rig_check(&rig));
}

/* A thread without a part's worth of luck: its own has no block that fits. */
static void what_a_part_lacks_others_have(void **state)
{
	uint64_t va[3], reserved;

	(void)state;
	va[0] = take(900 * KIB);
	va[1] = take(1000 * KIB);
	reserved = gp_pool_reserved(rig.pool);
	own_cache()->part = 5;
	give(va[1]);
	va[1] = take(400 * KIB);
	assert_int_equal(part_at(va[1]), 5);
	assert_int_equal(part_at(va[0]), 5); /* of the same slab */
	own_cache()->part = 2;
	va[2] = take(500 * KIB);
	assert_int_equal(part_at(va[2]), 2);
	assert_int_equal(gp_pool_reserved(rig.pool), reserved);
	assert_null(pool_rig_check(&rig));
	for (int i = 0; i < 3; i++)
		give(va[i]);
	gp_pool_trim(rig.pool, UINT64_MAX);
	assert_int_equal(gp_pool_reserved(rig.pool), 0);
	assert_null(pool_rig_check(&rig));
}

static unsigned regions(const struct gp_objects *objects)
{
	unsigned n = 0;

	for (void **r = objects->regions; r; r = *r)
		n++;
	return n;
}

/* One part splits and the other joins, for ever. */
static void descriptors_do_not_pile_up(void **state)
{
	uint64_t va[BLOCKS], last;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		own_cache()->part = 1;
		for (int i = 0; i < BLOCKS; i++)
			va[i] = take(4 * KIB);
		own_cache()->part = 2;
		last = take(8 * KIB);
		assert_int_equal(part_at(va[0]), 2);
		for (int i = 0; i < BLOCKS; i++)
			give(va[i]);
		give(last);
		gp_cache_flush_own(rig.pool, own_cache());
		assert_int_equal(rig.pool->slabs.parts[2].free_blocks, 1);
	}
	assert_in_range(regions(&rig.pool->slabs.parts[1].blocks) +
				regions(&rig.pool->slabs.parts[2].blocks),
			1, 2);
	assert_null(pool_rig_check(&rig));
}

/* Given back without the pool's lock they go all the same, but for the last. */
static void slabs_that_are_free_go(void **state)
{
	uint64_t va[NUM_BIG];

	(void)state;
	for (int i = 0; i < NUM_BIG; i++) {
		own_cache()->part = (uint32_t)i % 2;
		va[i] = take(700 * KIB + (uint64_t)i * 512);
	}
	assert_in_range(rig.pool->slabs.count, NUM_BIG / 2, NUM_BIG);
	for (int i = 0; i < NUM_BIG; i++)
		give(va[i]);
	gp_cache_flush_own(rig.pool, own_cache());
	assert_int_equal(rig.pool->slabs.count, 1);
	assert_null(pool_rig_check(&rig));
}

static uint64_t crowd[2][GP_SLAB_GRANULES]; /* of two slabs, in two parts */

/* Frees all that there is, now of this slab and now of that one, and wants a
 * little of it in another size. */
static void *return_all(void *arg)
{
	uintptr_t failed = 0;
	uint64_t va;

	(void)arg;
	meeting = own_cache();
	for (int i = 0; i < CHANCES; i++) {
		for (uint32_t s = 0; s < 2; s++) {
			meeting->part = s + 1;
			for (unsigned b = 0; b < GP_SLAB_GRANULES; b++)
				failed += gp_pool_alloc(rig.pool, 512,
							&crowd[s][b]) != 0;
		}
		for (unsigned b = 0; b < 2 * GP_SLAB_GRANULES; b++)
			failed += gp_pool_free(rig.pool, crowd[b % 2][b / 2]) !=
				  0;
		sem_post(&ready);
		sem_wait(&go);
		failed += gp_pool_alloc(rig.pool, KIB, &va) != 0;
		sem_post(&done);
		sem_wait(&go);
		failed += gp_pool_free(rig.pool, va) != 0;
	}
	return (void *)failed;
}

/* A thread's freed blocks are in no cache, and not all in the slabs yet. */
static void what_goes_back_is_waited_for(void **state)
{
	unsigned refused = 0;
	pthread_t thread;
	void *failed;

	(void)state;
	model_set_total(rig.model, 4 * MIB);
	assert_int_equal(pthread_create(&thread, NULL, return_all, NULL), 0);
	for (int i = 0; i < CHANCES; i++) {
		uint64_t va;

		sem_wait(&ready);
		sem_post(&go);
		while (gp_cache_holds(meeting, GP_CACHE_PART_SMALL))
			sched_yield();
		va = pool_rig_alloc(&rig, 600 * KIB);
		refused += !va;
		sem_wait(&done);
		if (va)
			give(va);
		sem_post(&go);
	}
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_int_equal(refused, 0);
	assert_null(pool_rig_check(&rig));
}

static int open_with_signals(void **state)
{
	sem_init(&ready, 0, 0);
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	return open_rig(state);
}

#define T(test) \
	cmocka_unit_test_setup_teardown(test, open_with_signals, pool_rig_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(small_misses_do_without_the_pools_lock),
		T(threads_that_meet_get_parts),
		T(what_a_part_lacks_others_have),
		T(descriptors_do_not_pile_up),
		T(slabs_that_are_free_go),
		T(what_goes_back_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
