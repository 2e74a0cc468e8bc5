/*
 * What pool.h promises: sizes, addresses, states of a block, counters,
 * captures and failing waits.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/pool_rig.h"

static struct pool_rig rig;

static int open_rig(void **state)
{
	*state = &rig;
	rig = pool_rig_new(4 * GIB, false);
	return pool_rig_open(&rig);
}

static void creation_takes_no_memory(void **state)
{
	(void)state;
	assert_int_equal(model_used(rig.model), 0);
	assert_int_equal(model_calls(rig.model, MODEL_RESERVE), 1);
	assert_int_equal(model_total_calls(rig.model), 1);
}

static void wrong_arguments_are_refused(void **state)
{
	uint64_t va = 42;

	(void)state;
	assert_int_equal(gp_pool_alloc(rig.pool, 0, &va), -EINVAL);
	assert_int_equal(gp_pool_alloc(rig.pool, 5 * GIB, &va), -ENOMEM);
	assert_int_equal(gp_pool_alloc(rig.pool, UINT64_MAX, &va), -ENOMEM);
	assert_int_equal(va, 42);
	assert_int_equal(pool_rig_stats(&rig).num_ooms, 2);
	assert_int_equal(model_used(rig.model), 0);
}

static void addresses_are_aligned(void **state)
{
	static const uint64_t sizes[] = {
		1,       511,     512,      513,       4096,
		100000,  MIB - 1, MIB,      MIB + 1,   3 * MIB / 2,
		2 * MIB, 7 * MIB, 20 * MIB, 256 * MIB,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t va = pool_rig_alloc(&rig, sizes[i]);

		assert_int_not_equal(va, 0);
		assert_int_equal(
			va % (sizes[i] < MIB ? GP_ALIGN_SMALL : GP_ALIGN_LARGE),
			0);
		assert_true(model_accessible(rig.model, va, sizes[i]));
	}
}

/* Every way in which an address can be no live allocation. */
static void only_a_live_start_can_be_freed(void **state)
{
	uint64_t small = pool_rig_alloc(&rig, 4096);
	uint64_t large = pool_rig_alloc(&rig, 9 * MIB);
	const uint64_t wrong[] = {
		0,
		1,
		small + 1,
		small + 512,
		small + 4096,
		small - 512,
		large + 64 * KIB,
		large + 9 * MIB,
		large + 512,
		large + 1,
		large + GIB,
		UINT64_MAX,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(gp_pool_free(rig.pool, wrong[i]), -ENOENT);
		assert_int_equal(gp_pool_free_idle(rig.pool, wrong[i]),
				 -ENOENT);
	}
	assert_int_equal(pool_rig_stats(&rig).allocation.current, 2);
	assert_int_equal(gp_pool_free(rig.pool, small), 0);
	assert_int_equal(gp_pool_free(rig.pool, large), 0);
}

/* A block can be freed once, whatever has become of it since. */
static void second_free_fails_in_every_state(void **state)
{
	uint64_t sizes[] = {4096, 9 * MIB};

	(void)state;
	for (int i = 0; i < 2; i++) {
		/* In the thread's cache. */
		uint64_t va = pool_rig_alloc(&rig, sizes[i]);

		assert_int_equal(gp_pool_free(rig.pool, va), 0);
		assert_int_equal(gp_pool_free(rig.pool, va), -ENOENT);
		assert_int_equal(gp_pool_free_idle(rig.pool, va), -ENOENT);
		/* Set aside. */
		va = pool_rig_alloc(&rig, sizes[i]);
		model_set_capturing(rig.model, true);
		assert_int_equal(gp_pool_free(rig.pool, va), 0);
		assert_int_equal(gp_pool_free(rig.pool, va), -ENOENT);
		model_set_capturing(rig.model, false);
		assert_int_equal(gp_pool_free(rig.pool, va), -ENOENT);
		/* Back among the free ranges, with or without memory. */
		gp_pool_tick(rig.pool);
		assert_int_equal(gp_pool_free(rig.pool, va), -ENOENT);
		gp_pool_trim(rig.pool, UINT64_MAX);
		assert_int_equal(gp_pool_free(rig.pool, va), -ENOENT);
		assert_null(pool_rig_check(&rig));
	}
	assert_int_equal(pool_rig_stats(&rig).allocation.current, 0);
	assert_int_equal(pool_rig_stats(&rig).num_free_calls, 4);
}

static void interior_addresses_are_found(void **state)
{
	static const uint64_t sizes[] = {700, 4096, 900000, MIB, 77 * MIB + 3};
	uint64_t base, bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t va = pool_rig_alloc(&rig, sizes[i]);
		const uint64_t at[] = {0, 1, sizes[i] / 2, sizes[i] - 1};

		for (int j = 0; j < 4; j++) {
			base = bytes = 0;
			assert_int_equal(gp_pool_find(rig.pool, va + at[j],
						      &base, &bytes),
					 0);
			assert_int_equal(base, va);
			assert_int_equal(bytes, sizes[i]);
			assert_ptr_equal(gp_pool_of(va + at[j]), rig.pool);
		}
		assert_int_equal(
			gp_pool_find(rig.pool, va + sizes[i], &base, &bytes),
			-ENOENT);
		assert_int_equal(gp_pool_free(rig.pool, va), 0);
		assert_int_equal(gp_pool_find(rig.pool, va, &base, &bytes),
				 -ENOENT);
		assert_ptr_equal(gp_pool_of(va), rig.pool);
	}
	assert_null(gp_pool_of(0));
	assert_null(gp_pool_of(UINT64_MAX));
	assert_int_equal(gp_pool_find(rig.pool, 0, &base, &bytes), -ENOENT);
}

/* Whether a range is within what was asked for. */
static void ends_of_blocks(void **state)
{
	static const uint64_t sizes[] = {1,       700,     4096,     900000,
					 MIB,     3 * MIB, 70 * MIB, 5 * MIB,
					 MIB + 1, 100};
	uint64_t va[10], base, bytes, held;

	(void)state;
	for (int i = 0; i < 10; i++)
		va[i] = pool_rig_alloc(&rig, sizes[i]);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(
			gp_pool_span(rig.pool, va[i], &base, &bytes, &held), 0);
		assert_int_equal(base, va[i]);
		assert_int_equal(bytes, sizes[i]);
		assert_true(held >= bytes);
		for (uint64_t at = 0; at < bytes; at += 1 + bytes / 7) {
			uint64_t v = va[i] + at, left = bytes - at;

			assert_true(gp_pool_fits(rig.pool, v, 0));
			assert_true(gp_pool_fits(rig.pool, v, 1));
			assert_true(gp_pool_fits(rig.pool, v, left));
			assert_false(gp_pool_fits(rig.pool, v, left + 1));
			assert_false(gp_pool_fits(rig.pool, v, left + MIB));
			assert_false(gp_pool_fits(rig.pool, v, UINT64_MAX));
		}
	}
	for (int i = 0; i < 10; i++) {
		assert_int_equal(gp_pool_free(rig.pool, va[i]), 0);
		assert_false(gp_pool_fits(rig.pool, va[i], 1));
		assert_true(gp_pool_fits(rig.pool, va[i], 0));
	}
	assert_int_equal(gp_pool_span(rig.pool, va[3], &base, &bytes, &held),
			 -ENOENT);
}

/* With one thread the counters and peaks are exact. */
static void counters_are_exact(void **state)
{
	uint64_t a, b, c;
	struct gp_pool_stats s;

	(void)state;
	a = pool_rig_alloc(&rig, 700);
	b = pool_rig_alloc(&rig, 3 * MIB + 1);
	gp_pool_free(rig.pool, a);
	gp_pool_free(rig.pool, b);
	for (int i = 0; i < 1000; i++) {
		c = pool_rig_alloc(&rig, 700);
		gp_pool_free(rig.pool, c);
	}
	c = pool_rig_alloc(&rig, 100);
	s = pool_rig_stats(&rig);
	assert_int_equal(s.requested_bytes.current, 100);
	assert_int_equal(s.requested_bytes.peak, 700 + 3 * MIB + 1);
	assert_int_equal(s.requested_bytes.allocated,
			 1001 * 700 + 3 * MIB + 1 + 100);
	assert_int_equal(s.requested_bytes.freed, 1001 * 700 + 3 * MIB + 1);
	assert_int_equal(s.allocated_bytes.current, 512);
	assert_int_equal(s.allocated_bytes.peak, 1024 + 3 * MIB + 64 * KIB);
	assert_int_equal(s.allocation.current, 1);
	assert_int_equal(s.allocation.peak, 2);
	assert_int_equal(s.num_alloc_calls, 1003);
	assert_int_equal(s.num_free_calls, 1002);
	assert_int_equal(s.num_hits, 1001);
	assert_int_equal(s.num_waits, 1002);
	assert_int_equal(s.rounding_bytes, 412);
	assert_int_equal(s.reserved_bytes.current, model_used(rig.model));
	assert_int_equal(s.cached_bytes, s.reserved_bytes.current - 512);
	assert_int_equal(s.segment.current, model_objects(rig.model));
}

static void a_hit_calls_the_driver_only_to_wait(void **state)
{
	uint64_t calls, waits;

	(void)state;
	for (int i = 0; i < 2; i++) {
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 5000));
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 50 * MIB));
	}
	calls = model_total_calls(rig.model);
	waits = model_calls(rig.model, MODEL_SYNC);
	for (int i = 0; i < 100; i++) {
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 5000));
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 50 * MIB));
	}
	assert_int_equal(model_calls(rig.model, MODEL_SYNC) - waits, 200);
	assert_int_equal(model_total_calls(rig.model) - calls, 200);
	/* And none when the caller has waited. */
	for (int i = 0; i < 100; i++)
		gp_pool_free_idle(rig.pool, pool_rig_alloc(&rig, 5000));
	assert_int_equal(model_total_calls(rig.model) - calls, 200);
}

/* What is freed during a capture is not handed out before a wait after it. */
static void capture_sets_blocks_aside(void **state)
{
	uint64_t a = pool_rig_alloc(&rig, 64 * MIB), b;
	struct gp_pool_stats s;

	(void)state;
	model_set_capturing(rig.model, true);
	assert_int_equal(gp_pool_free(rig.pool, a), 0);
	s = pool_rig_stats(&rig);
	assert_int_equal(s.num_deferred, 1);
	assert_int_equal(s.requested_bytes.current, 0);
	b = pool_rig_alloc(&rig, 64 * MIB);
	assert_int_not_equal(b, 0);
	assert_int_not_equal(b, a);
	assert_int_equal(gp_pool_trim(rig.pool, UINT64_MAX), 0);
	assert_null(pool_rig_check(&rig));
	model_set_capturing(rig.model, false);
	/* The free of b waits, and so covers a. */
	assert_int_equal(gp_pool_free(rig.pool, b), 0);
	assert_int_equal(gp_pool_trim(rig.pool, UINT64_MAX), 128 * MIB);
	assert_int_equal(model_used(rig.model), 0);
}

static void capture_that_needs_memory_grows(void **state)
{
	(void)state;
	model_set_capturing(rig.model, true);
	for (int i = 0; i < 8; i++) {
		uint64_t va = pool_rig_alloc(&rig, 400 * MIB);

		assert_int_not_equal(va, 0);
		assert_int_equal(gp_pool_free(rig.pool, va), 0);
	}
	/* Nothing may be reused yet. */
	assert_int_equal(pool_rig_alloc(&rig, 1024 * MIB), 0);
	model_set_capturing(rig.model, false);
	assert_int_not_equal(pool_rig_alloc(&rig, 1024 * MIB), 0);
}

static void failing_wait_is_told_and_sets_aside(void **state)
{
	uint64_t a = pool_rig_alloc(&rig, 8 * MIB), b;

	(void)state;
	model_fail(rig.model, MODEL_SYNC, 1, -EIO);
	assert_int_equal(gp_pool_free(rig.pool, a), -EIO);
	assert_int_equal(gp_pool_free(rig.pool, a), -ENOENT);
	assert_int_equal(pool_rig_stats(&rig).allocation.current, 0);
	b = pool_rig_alloc(&rig, 8 * MIB);
	/* The search for b waited once more, with success: a is b, or free. */
	assert_null(pool_rig_check(&rig));
	assert_int_equal(gp_pool_free(rig.pool, b), 0);
	gp_pool_trim(rig.pool, UINT64_MAX);
	assert_int_equal(model_used(rig.model), 0);
}

static void pools_do_not_mix(void **state)
{
	struct pool_rig other = pool_rig_new(GIB, false);
	uint64_t a, b;

	(void)state;
	/* Two models give out the same addresses; keep them apart. */
	uint64_t hole;

	assert_int_equal(
		other.driver.ops->reserve(other.driver.dev, 64 * GIB, &hole),
		0);
	assert_int_equal(pool_rig_open(&other), 0);
	a = pool_rig_alloc(&rig, 4096);
	b = pool_rig_alloc(&other, 4096);
	assert_ptr_equal(gp_pool_of(a), rig.pool);
	assert_ptr_equal(gp_pool_of(b), other.pool);
	assert_int_equal(gp_pool_free(rig.pool, b), -ENOENT);
	assert_int_equal(gp_pool_free(other.pool, a), -ENOENT);
	assert_int_equal(gp_pool_free(other.pool, b), 0);
	assert_null(pool_rig_close(&other));
	assert_null(gp_pool_of(b));
	assert_int_equal(gp_pool_free(rig.pool, a), 0);
	/* The slot of a pool that went serves the next one. */
	for (int i = 0; i < 200; i++) {
		struct pool_rig next = pool_rig_new(GIB, false);

		assert_int_equal(next.driver.ops->reserve(next.driver.dev,
							  64 * GIB, &hole),
				 0);
		assert_int_equal(pool_rig_open(&next), 0);
		b = pool_rig_alloc(&next, 4096);
		assert_ptr_equal(gp_pool_of(b), next.pool);
		assert_int_equal(gp_pool_free(next.pool, b), 0);
		assert_null(pool_rig_close(&next));
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, open_rig, pool_rig_end)
	const struct CMUnitTest tests[] = {
		T(creation_takes_no_memory),
		T(wrong_arguments_are_refused),
		T(addresses_are_aligned),
		T(only_a_live_start_can_be_freed),
		T(second_free_fails_in_every_state),
		T(interior_addresses_are_found),
		T(ends_of_blocks),
		T(counters_are_exact),
		T(a_hit_calls_the_driver_only_to_wait),
		T(capture_sets_blocks_aside),
		T(capture_that_needs_memory_grows),
		T(failing_wait_is_told_and_sets_aside),
		T(pools_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
