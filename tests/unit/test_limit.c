/*
 * The ledger of a device: a cap that holds to the byte, also for threads that
 * race for the last of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "pool/limit.h"

#define MIB     (1ull << 20)
#define THREADS 8
#define ROUNDS  20000

static int reserve(struct gp_limit *limit, const struct gp_charge *charge)
{
	uint64_t outcomes;

	return gp_limit_reserve(limit, charge, &outcomes);
}

static uint64_t held(struct gp_limit *limit)
{
	struct gp_limit_stats stats;
	uint64_t sum = 0;

	gp_limit_get(limit, &stats);
	for (int i = 0; i < GP_PART_NUM; i++)
		sum += stats.part[i];
	assert_int_equal(sum, stats.held);
	return stats.held;
}

static void test_exact(void **state)
{
	const struct gp_charge most = {GP_PART_pool, 10 * MIB, NULL};
	const struct gp_charge byte = {GP_PART_array, 1, NULL};
	struct gp_limit_stats stats;
	struct gp_limit limit;

	(void)state;
	gp_limit_init(&limit, 10 * MIB);
	assert_int_equal(reserve(&limit, &most), 0);
	assert_int_equal(reserve(&limit, &byte), -ENOMEM);
	gp_limit_cancel(&limit, &most);
	assert_int_equal(held(&limit), 0);
	gp_limit_get(&limit, &stats);
	assert_int_equal(stats.peak, 0); /* it was never held */
	assert_int_equal(reserve(&limit, &byte), 0);
	gp_limit_keep(&limit);
	assert_int_equal(reserve(&limit, &most), -ENOMEM);
	gp_limit_give(&limit, &byte);
	assert_int_equal(reserve(&limit, &most), 0);
	gp_limit_keep(&limit);
	gp_limit_get(&limit, &stats);
	assert_int_equal(stats.peak, 10 * MIB);
	assert_int_equal(stats.part[GP_PART_pool], 10 * MIB);
}

static void test_huge_requests_do_not_wrap(void **state)
{
	const struct gp_charge some = {GP_PART_plain, MIB, NULL};
	const struct gp_charge huge = {GP_PART_plain, UINT64_MAX - MIB / 2,
				       NULL};
	struct gp_limit limit;

	(void)state;
	gp_limit_init(&limit, 10 * MIB);
	assert_int_equal(reserve(&limit, &some), 0);
	gp_limit_keep(&limit);
	assert_int_equal(reserve(&limit, &huge), -ENOMEM);
	gp_limit_set(&limit, GP_NO_LIMIT);
	assert_int_equal(reserve(&limit, &huge), -ENOMEM);
	assert_int_equal(held(&limit), MIB);
}

/* Small ones share pieces, as the driver has them do. */
static void test_small(void **state)
{
	struct gp_limit_small context = {0};
	const struct gp_charge small = {GP_PART_plain, MIB / 2, &context};
	struct gp_limit limit;

	(void)state;
	gp_limit_init(&limit, 4 * MIB);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(reserve(&limit, &small), 0);
		gp_limit_keep(&limit);
		assert_int_equal(held(&limit), i < 4 ? 2 * MIB : 4 * MIB);
	}
	assert_int_equal(reserve(&limit, &small), -ENOMEM);
	for (int i = 0; i < 8; i++)
		gp_limit_give(&limit, &small);
	assert_int_equal(held(&limit), 0);
}

/* But not with another context's, nor with other parts. */
static void test_small_of_others(void **state)
{
	struct gp_limit_small context = {0}, other = {0};
	const struct gp_charge charges[] = {
		{GP_PART_plain, MIB / 2, &context},
		{GP_PART_plain, MIB / 2, &other},
		{GP_PART_array, MIB / 2, &other},
	};
	struct gp_limit limit;

	(void)state;
	gp_limit_init(&limit, 6 * MIB);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(reserve(&limit, &charges[i % 3]), 0);
		gp_limit_keep(&limit);
		assert_int_equal(held(&limit), (i < 2 ? i + 1 : 3) * 2 * MIB);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(reserve(&limit, &charges[i]), -ENOMEM);
	for (int i = 0; i < 12; i++)
		gp_limit_give(&limit, &charges[i % 3]);
	assert_int_equal(held(&limit), 0);
}

static void test_lower(void **state)
{
	const struct gp_charge some = {GP_PART_managed, 6 * MIB, NULL};
	struct gp_limit limit;

	(void)state;
	gp_limit_init(&limit, GP_NO_LIMIT);
	assert_int_equal(reserve(&limit, &some), 0);
	gp_limit_keep(&limit);
	assert_int_equal(gp_limit_set(&limit, 4 * MIB), 2 * MIB);
	assert_int_equal(gp_limit_excess(&limit), 2 * MIB);
	assert_int_equal(reserve(&limit, &some), -ENOMEM);
	gp_limit_give(&limit, &some);
	assert_int_equal(gp_limit_excess(&limit), 0);
	gp_limit_adjust(&limit, GP_PART_context, 0, 3 * MIB);
	gp_limit_adjust(&limit, GP_PART_context, 3 * MIB, 2 * MIB);
	assert_int_equal(held(&limit), 2 * MIB);
}

/* Nothing is under way: a wait would be for ever. */
static void test_wait_for_nobody(void **state)
{
	const struct gp_charge all = {GP_PART_pool, MIB, NULL};
	struct gp_limit limit;
	uint64_t seen;

	(void)state;
	gp_limit_init(&limit, MIB);
	assert_int_equal(reserve(&limit, &all), 0);
	gp_limit_keep(&limit);
	assert_int_equal(gp_limit_reserve(&limit, &all, &seen), -ENOMEM);
	assert_false(gp_limit_wait(&limit, seen));
}

/* What was under way when the request was refused may end before the wait. */
static void test_outcome_before_the_wait(void **state)
{
	const struct gp_charge all = {GP_PART_pool, MIB, NULL};
	struct gp_limit limit;
	uint64_t seen;

	(void)state;
	gp_limit_init(&limit, MIB);
	assert_int_equal(reserve(&limit, &all), 0);
	assert_int_equal(gp_limit_reserve(&limit, &all, &seen), -ENOMEM);
	gp_limit_cancel(&limit, &all);
	assert_true(gp_limit_wait(&limit, seen));
	assert_int_equal(gp_limit_reserve(&limit, &all, &seen), 0);
}

/* There is room for every thread but one, and of each second reservation the
 * driver call fails. Only who finds all others' memory kept may be refused. */
struct race {
	struct gp_limit limit;
	int live;    /* atomic: kept now */
	int over;    /* atomic: the cap did not hold */
	int refused; /* atomic */
};

static void *racer(void *arg)
{
	const struct gp_charge one = {GP_PART_virtual, MIB, NULL};
	struct race *race = arg;
	uint64_t seen;

	for (int i = 0; i < ROUNDS; i++) {
		bool taken = false;

		do
			taken = gp_limit_reserve(&race->limit, &one, &seen) ==
				0;
		while (!taken && gp_limit_wait(&race->limit, seen));
		if (!taken) {
			__atomic_add_fetch(&race->refused, 1, __ATOMIC_SEQ_CST);
			continue;
		}
		if (i % 2) {
			gp_limit_cancel(&race->limit, &one);
			continue;
		}
		if (__atomic_add_fetch(&race->live, 1, __ATOMIC_SEQ_CST) >
		    THREADS - 1)
			__atomic_store_n(&race->over, 1, __ATOMIC_SEQ_CST);
		gp_limit_keep(&race->limit);
		if (i % 16 == 0)
			sched_yield();
		__atomic_sub_fetch(&race->live, 1, __ATOMIC_SEQ_CST);
		gp_limit_give(&race->limit, &one);
	}
	return NULL;
}

static void test_race(void **state)
{
	pthread_t threads[THREADS];
	struct race race = {.live = 0};
	struct gp_limit_stats stats;

	(void)state;
	gp_limit_init(&race.limit, (THREADS - 1) * MIB);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, racer, &race), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	gp_limit_get(&race.limit, &stats);
	assert_int_equal(race.over, 0);
	assert_int_equal(stats.held, 0);
	assert_true(stats.peak <= (THREADS - 1) * MIB);
}

/* All but one MiB is kept for good; of the threads that race for that one, each
 * whose driver call fails must leave it to another: nobody is refused. */
static void *last_one(void *arg)
{
	const struct gp_charge one = {GP_PART_virtual, MIB, NULL};
	struct race *race = arg;
	uint64_t seen;

	for (int i = 0; i < ROUNDS / 10; i++) {
		bool taken;

		do
			taken = gp_limit_reserve(&race->limit, &one, &seen) ==
				0;
		while (!taken && gp_limit_wait(&race->limit, seen));
		if (!taken) {
			__atomic_add_fetch(&race->refused, 1, __ATOMIC_SEQ_CST);
			continue;
		}
		if (i % 8 == 0)
			sched_yield();
		gp_limit_cancel(&race->limit, &one);
	}
	return NULL;
}

static void test_last_one(void **state)
{
	const struct gp_charge rest = {GP_PART_pool, 7 * MIB, NULL};
	pthread_t threads[THREADS];
	struct race race = {.live = 0};

	(void)state;
	gp_limit_init(&race.limit, 8 * MIB);
	assert_int_equal(reserve(&race.limit, &rest), 0);
	gp_limit_keep(&race.limit);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, last_one, &race), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(race.refused, 0);
	assert_int_equal(held(&race.limit), 7 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_huge_requests_do_not_wrap),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_small_of_others),
		cmocka_unit_test(test_lower),
		cmocka_unit_test(test_wait_for_nobody),
		cmocka_unit_test(test_outcome_before_the_wait),
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_last_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
