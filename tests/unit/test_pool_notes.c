/*
 * Notes of live blocks: ids that never come again, marks that end with the
 * allocation, and memory that does not come back while others have it mapped.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/notes.h"
#include "tests/support/pool_rig.h"

static struct pool_rig rig;

static int new_rig(void **state)
{
	*state = &rig;
	rig = pool_rig_new(4 * GIB, false);
	rig.config.cache_policy = GP_CACHE_KEEP;
	return pool_rig_open(&rig);
}

static uint64_t id_of(uint64_t va)
{
	uint64_t id = 0;

	assert_int_equal(gp_pool_id(rig.pool, va, &id), 0);
	return id;
}

static void check(void)
{
	const char *why = pool_rig_check(&rig);

	if (why)
		print_error("%s\n", why);
	assert_null(why);
}

static void ids_never_come_again(void **state)
{
	const uint64_t sizes[] = {1, 100 * KIB, MIB, 40 * MIB};
	uint64_t last = 0, id;

	(void)state;
	for (int i = 0; i < 400; i++) {
		uint64_t va = pool_rig_alloc(&rig, sizes[i % 4]);

		id = id_of(va);
		assert_true(id > last);
		assert_int_equal(id_of(va + sizes[i % 4] - 1), id);
		check();
		assert_int_equal(gp_pool_free(rig.pool, va), 0);
		assert_int_equal(gp_pool_id(rig.pool, va, &last), -ENOENT);
		assert_int_equal(gp_pool_free(rig.pool, va), -ENOENT);
		check();
		last = id;
	}
}

static void marks_end_with_the_allocation(void **state)
{
	uint64_t va = pool_rig_alloc(&rig, 3 * MIB);
	bool sync = true;

	(void)state;
	assert_int_equal(gp_pool_sync_memops(rig.pool, va, &sync), 0);
	assert_false(sync);
	assert_int_equal(gp_pool_set_sync_memops(rig.pool, va + MIB, true), 0);
	assert_int_equal(gp_pool_sync_memops(rig.pool, va, &sync), 0);
	assert_true(sync);
	assert_int_equal(gp_pool_free_idle(rig.pool, va), 0);
	assert_int_equal(gp_pool_sync_memops(rig.pool, va, &sync), -ENOENT);
	assert_int_equal(pool_rig_alloc(&rig, 3 * MIB), va);
	assert_int_equal(gp_pool_sync_memops(rig.pool, va, &sync), 0);
	assert_false(sync);
}

static int hold(uint64_t va, uint64_t id, size_t max, size_t *n,
		uint64_t *offset)
{
	struct gp_pool_piece pieces[64];
	uint64_t bytes;
	int rc = gp_pool_hold(rig.pool, va, id, pieces, max, n, offset, &bytes);

	for (size_t i = 0; !rc && i < *n; i++)
		assert_int_equal(pieces[i].bytes % (2 * MIB), 0);
	return rc;
}

static void held_memory_comes_back_late(void **state)
{
	const uint64_t sizes[] = {100 * KIB, 3 * MIB, 70 * MIB};
	uint64_t offset, id, va;
	size_t n;

	(void)state;
	for (int i = 0; i < 3; i++) {
		va = pool_rig_alloc(&rig, sizes[i]);
		id = id_of(va);
		assert_int_equal(hold(va, id + 1, 64, &n, &offset), -ENOENT);
		assert_int_equal(hold(va + 512, id, 64, &n, &offset), -ENOENT);
		assert_int_equal(hold(va, id, 0, &n, &offset), -E2BIG);
		assert_int_equal(hold(va, id, 64, &n, &offset), 0);
		assert_int_equal(hold(va, id, 64, &n, &offset), 0);
		check();
		assert_int_equal(gp_pool_free(rig.pool, va), 0);
		assert_int_equal(gp_pool_free(rig.pool, va), -ENOENT);
		assert_int_equal(hold(va, id, 64, &n, &offset), -ENOENT);
		check();
		gp_pool_let_go(rig.pool, va, id);
		check();
		for (int j = 0; j < 20; j++)
			assert_int_not_equal(pool_rig_alloc(&rig, sizes[i]),
					     va);
		gp_pool_trim(rig.pool, UINT64_MAX);
		check();
		gp_pool_let_go(rig.pool, va, id);
		check();
		bool again = false;

		for (int j = 0; j < 20; j++)
			again |= pool_rig_alloc(&rig, sizes[i]) == va;
		assert_true(again);
	}
}

static void let_go_before_the_free(void **state)
{
	uint64_t va = pool_rig_alloc(&rig, 3 * MIB), id = id_of(va), offset;
	size_t n;

	(void)state;
	assert_int_equal(hold(va, id, 64, &n, &offset), 0);
	gp_pool_let_go(rig.pool, va, id);
	gp_pool_let_go(rig.pool, va, id); /* one too many */
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	check();
	assert_int_equal(pool_rig_alloc(&rig, 3 * MIB), va);
}

static void destroyed_while_held(void **state)
{
	uint64_t va = pool_rig_alloc(&rig, 3 * MIB), id = id_of(va), offset;
	size_t n;

	(void)state;
	assert_int_equal(hold(va, id, 64, &n, &offset), 0);
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
}

/* One thread frees what another asks about: no block may be lost. */
static uint64_t shared_va;

static void *asker(void *arg)
{
	uint64_t id;

	while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE))
		gp_pool_id(rig.pool,
			   __atomic_load_n(&shared_va, __ATOMIC_RELAXED), &id);
	return NULL;
}

static void asked_while_freed(void **state)
{
	pthread_t thread;
	int stop = 0;

	(void)state;
	shared_va = pool_rig_alloc(&rig, MIB);
	assert_int_equal(pthread_create(&thread, NULL, asker, &stop), 0);
	for (int i = 0; i < 20000; i++) {
		assert_int_equal(gp_pool_free(rig.pool, shared_va), 0);
		__atomic_store_n(&shared_va, pool_rig_alloc(&rig, MIB),
				 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(gp_pool_free(rig.pool, shared_va), 0);
	check();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_rig, pool_rig_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ids_never_come_again),
		TEST(marks_end_with_the_allocation),
		TEST(held_memory_comes_back_late),
		TEST(let_go_before_the_free),
		TEST(destroyed_while_held),
		TEST(asked_while_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
