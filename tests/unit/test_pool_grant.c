/*
 * The driver is told again who may reach the memory: of each mapped handle once,
 * wherever it lies, and also while other threads make it move.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/pool_rig.h"

static struct pool_rig rig;

static int new_rig(void **state)
{
	*state = &rig;
	rig = pool_rig_new(4 * GIB, false);
	rig.config.cache_policy = GP_CACHE_KEEP;
	return pool_rig_open(&rig);
}

static uint64_t told(void)
{
	return model_calls(rig.model, MODEL_SET_ACCESS);
}

static void each_handle_once(void **state)
{
	const uint64_t sizes[] = {100 * KIB, MIB,       3 * MIB,
				  70 * MIB,  900 * KIB, 500 * MIB};
	uint64_t before;

	(void)state;
	assert_int_equal(gp_pool_regrant(rig.pool), 0);
	assert_int_equal(told(), 0);
	for (int i = 0; i < 6; i++)
		assert_int_not_equal(pool_rig_alloc(&rig, sizes[i]), 0);
	before = told();
	assert_int_equal(gp_pool_regrant(rig.pool), 0);
	assert_int_equal(told() - before, model_mappings(rig.model));
	assert_null(pool_rig_check(&rig));
}

static void a_refusal_is_told(void **state)
{
	(void)state;
	assert_int_not_equal(pool_rig_alloc(&rig, 70 * MIB), 0);
	assert_true(model_mappings(rig.model) > 1);
	model_fail(rig.model, MODEL_SET_ACCESS, 2, -EIO);
	assert_int_equal(gp_pool_regrant(rig.pool), -EIO);
	assert_int_equal(gp_pool_regrant(rig.pool), 0);
	assert_null(pool_rig_check(&rig));
}

static void *granter(void *arg)
{
	while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE))
		if (gp_pool_regrant(rig.pool))
			return (void *)1;
	return NULL;
}

static void while_memory_moves(void **state)
{
	pthread_t thread;
	void *failed = NULL;
	int stop = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, granter, &stop), 0);
	for (int i = 0; i < 300; i++) {
		uint64_t a =
			pool_rig_alloc(&rig, (uint64_t)(i % 17 + 1) * 9 * MIB);
		uint64_t b = pool_rig_alloc(&rig, 300 * KIB);

		assert_int_not_equal(a, 0);
		gp_pool_free(rig.pool, a);
		if (i % 7 == 0)
			gp_pool_trim(rig.pool, 64 * MIB);
		gp_pool_free(rig.pool, b);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_null(pool_rig_check(&rig));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_rig, pool_rig_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_handle_once),
		TEST(a_refusal_is_told),
		TEST(while_memory_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
