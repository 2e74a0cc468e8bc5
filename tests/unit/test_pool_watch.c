/*
 * Watched blocks: whatever way one is freed, it is out of the call sites before
 * it can be handed out again, and the mark does not stay.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pool/pool.h"
#include "stats/sites.h"
#include "tests/support/pool_rig.h"

static uint64_t live(void)
{
	struct gp_sites_totals totals;

	gp_sites_get(&totals);
	return totals.entered_now;
}

static uint64_t watched(struct pool_rig *rig, uint64_t bytes)
{
	uint64_t va = pool_rig_alloc(rig, bytes), before = live();
	struct gp_stack stack = {.native = 1, .frames = {7}};

	assert_int_not_equal(va, 0);
	assert_true(gp_sites_add(va, (uintptr_t)rig->pool, &stack,
				 (struct gp_weight){(double)bytes, 1}, 1));
	gp_pool_watch(rig->pool, va);
	assert_int_equal(live(), before + 1);
	return va;
}

static struct pool_rig open_rig(bool no_vmm)
{
	struct pool_rig rig = pool_rig_new(GIB, no_vmm);

	rig.config.check = true;
	assert_int_equal(pool_rig_open(&rig), 0);
	return rig;
}

static void close_rig(struct pool_rig *rig)
{
	assert_null(pool_rig_check(rig));
	assert_null(pool_rig_close(rig));
	assert_int_equal(live(), 0);
}

static void *free_there(void *arg)
{
	uint64_t *va = arg;
	struct gp_pool *pool = gp_pool_of(*va);

	assert_int_equal(gp_pool_free(pool, *va), 0);
	return NULL;
}

static void every_way(bool no_vmm, uint64_t bytes)
{
	struct pool_rig rig = open_rig(no_vmm);
	pthread_t thread;
	uint64_t va;

	va = watched(&rig, bytes);
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	assert_int_equal(live(), 0);
	assert_int_equal(gp_pool_free(rig.pool, va), -ENOENT);
	va = watched(&rig, bytes);
	assert_int_equal(gp_pool_free_own(rig.pool, va), 0);
	assert_int_equal(live(), 0);
	va = watched(&rig, bytes);
	assert_int_equal(gp_pool_free_idle(rig.pool, va), 0);
	assert_int_equal(live(), 0);
	va = watched(&rig, bytes);
	assert_int_equal(pthread_create(&thread, NULL, free_there, &va), 0);
	pthread_join(thread, NULL);
	assert_int_equal(live(), 0);

	/* A wait that fails: the block is aside. */
	va = watched(&rig, bytes);
	model_fail(rig.model, MODEL_SYNC, 1, -EIO);
	assert_int_equal(gp_pool_free(rig.pool, va), -EIO);
	assert_int_equal(live(), 0);
	close_rig(&rig);
}

static void test_every_way(void **state)
{
	(void)state;
	every_way(false, 4096);
	every_way(false, 3 * MIB);
	every_way(true, 4096);
	every_way(true, 3 * MIB);
}

/* The next tenant of a block that was watched is not. */
static void test_mark_does_not_stay(void **state)
{
	struct pool_rig rig = open_rig(false);
	struct gp_stack stack = {.native = 1, .frames = {7}};
	uint64_t va = watched(&rig, MIB), again;

	(void)state;
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	again = pool_rig_alloc(&rig, MIB);
	assert_int_equal(again, va); /* else this shows nothing */
	/* As if it were somebody else's: the free must not look. */
	gp_sites_add(va, 99, &stack, (struct gp_weight){1, 1}, 1);
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	assert_int_equal(live(), 1);
	gp_sites_drop(99);
	close_rig(&rig);
}

static void test_pool_goes(void **state)
{
	struct pool_rig rig = open_rig(false);

	(void)state;
	for (int i = 0; i < 100; i++)
		watched(&rig, 5000);
	assert_int_equal(live(), 100);
	pool_rig_close(&rig); /* memory is left behind: it says so */
	assert_int_equal(live(), 0);
}

/* Not a live block: nothing is marked. */
static void test_nothing_there(void **state)
{
	struct pool_rig rig = open_rig(false);
	uint64_t va = pool_rig_alloc(&rig, MIB);

	(void)state;
	gp_pool_watch(rig.pool, va + 512);
	gp_pool_watch(rig.pool, 0x1000);
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	gp_pool_watch(rig.pool, va);
	close_rig(&rig);
}

static int start(void **state)
{
	(void)state;
	return gp_sites_start(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_way),
		cmocka_unit_test(test_mark_does_not_stay),
		cmocka_unit_test(test_pool_goes),
		cmocka_unit_test(test_nothing_there),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
