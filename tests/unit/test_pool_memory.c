/*
 * How the pool holds memory: growth, moving, giving back, settings.
 */
#include <errno.h>
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
	return 0;
}

static void growth_takes_what_is_missing(void **state)
{
	uint64_t a;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 197 * MIB);
	assert_int_equal(model_used(rig.model), 198 * MIB);
	gp_pool_free(rig.pool, a);
	/* The free range is made longer by what it lacks. */
	assert_int_equal(pool_rig_alloc(&rig, 209 * MIB), a);
	assert_int_equal(model_used(rig.model), 210 * MIB);
	/* And the tail of it is used first. */
	assert_int_not_equal(pool_rig_alloc(&rig, 3 * MIB), 0);
	assert_int_equal(model_used(rig.model), 212 * MIB);
}

/* Copies through small handles are slow. */
static void no_small_handle_is_left_over(void **state)
{
	uint64_t before;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	before = model_calls(rig.model, MODEL_CREATE);
	assert_int_not_equal(pool_rig_alloc(&rig, 198 * MIB), 0);
	/* Of 18 MiB, not 12 of 16 MiB and one of 6. */
	assert_int_equal(model_calls(rig.model, MODEL_CREATE) - before, 11);
	assert_int_equal(model_used(rig.model), 198 * MIB);
	/* A process that holds much: of 64 MiB at least. */
	assert_int_not_equal(pool_rig_alloc(&rig, 3 * GIB), 0);
	before = model_calls(rig.model, MODEL_CREATE);
	assert_int_not_equal(pool_rig_alloc(&rig, 100 * MIB), 0);
	assert_int_equal(model_calls(rig.model, MODEL_CREATE) - before, 1);
}

static void a_small_process_takes_little(void **state)
{
	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	pool_rig_alloc(&rig, 100);
	assert_int_equal(model_used(rig.model), 2 * MIB);
	for (int i = 0; i < 1000; i++)
		pool_rig_alloc(&rig, 1000);
	assert_int_equal(model_used(rig.model), 2 * MIB);
	pool_rig_alloc(&rig, 3 * MIB);
	assert_int_equal(model_used(rig.model), 6 * MIB);
}

/* Requests just below 1 MiB take what is left between large blocks. */
static void scraps_are_used_before_slabs_grow(void **state)
{
	uint64_t large, small, base, bytes;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	large = pool_rig_alloc(&rig, 3 * MIB);
	assert_int_equal(model_used(rig.model), 4 * MIB);
	small = pool_rig_alloc(&rig, 900 * KIB);
	assert_int_equal(model_used(rig.model), 4 * MIB);
	assert_int_equal(
		gp_pool_find(rig.pool, small + 899 * KIB, &base, &bytes), 0);
	assert_int_equal(base, small);
	/* What is left of it serves smaller ones. */
	pool_rig_alloc(&rig, 100 * KIB);
	assert_int_equal(model_used(rig.model), 4 * MIB);
	/* Those do not open one. */
	gp_pool_free(rig.pool, large);
	pool_rig_alloc(&rig, 600 * KIB);
	assert_int_equal(model_used(rig.model), 6 * MIB);
	assert_null(pool_rig_check(&rig));
	gp_pool_free(rig.pool, small);
	gp_pool_trim(rig.pool, UINT64_MAX);
	assert_null(pool_rig_check(&rig));
}

/* It is no slab to keep: the memory around it would never be idle. */
static void the_last_scrap_is_given_back(void **state)
{
	uint64_t large, small;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	large = pool_rig_alloc(&rig, 3 * MIB);
	small = pool_rig_alloc(&rig, 900 * KIB);
	gp_pool_free(rig.pool, large);
	gp_pool_free(rig.pool, small);
	/* All of it moves. */
	assert_int_not_equal(pool_rig_alloc(&rig, 4 * MIB), 0);
	assert_int_equal(model_used(rig.model), 4 * MIB);
}

/* Copies through many small handles are slow. */
static void a_large_request_gets_large_handles(void **state)
{
	uint64_t before;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	before = model_calls(rig.model, MODEL_CREATE);
	pool_rig_alloc(&rig, 2 * GIB);
	assert_int_equal(model_calls(rig.model, MODEL_CREATE) - before, 32);
	assert_int_equal(model_used(rig.model), 2 * GIB);
}

static void free_memory_moves_before_new_is_taken(void **state)
{
	uint64_t a[10], b;
	uint64_t used;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 10; i++)
		a[i] = pool_rig_alloc(&rig, 20 * MIB);
	used = model_used(rig.model);
	for (int i = 0; i < 10; i += 2)
		gp_pool_free(rig.pool, a[i]);
	b = pool_rig_alloc(&rig, 90 * MIB);
	assert_int_not_equal(b, 0);
	assert_int_equal(model_used(rig.model), used);
	assert_true(pool_rig_stats(&rig).num_remaps >= 4);
	assert_true(model_accessible(rig.model, b, 90 * MIB));
	for (int i = 1; i < 10; i += 2)
		assert_true(model_accessible(rig.model, a[i], 20 * MIB));
}

/* The device is full, and what is free is spread over it. */
static void a_full_device_serves_what_is_free_in_all(void **state)
{
	uint64_t a[64];
	int n = 0;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (; n < 64; n++)
		a[n] = pool_rig_alloc(&rig, 64 * MIB);
	assert_int_not_equal(a[63], 0);
	assert_int_equal(model_used(rig.model), 4 * GIB);
	assert_int_equal(pool_rig_alloc(&rig, 64 * MIB), 0);
	for (int i = 0; i < 64; i += 2)
		gp_pool_free(rig.pool, a[i]);
	assert_int_equal(pool_rig_alloc(&rig, 2 * GIB + 1), 0);
	assert_int_not_equal(pool_rig_alloc(&rig, 2 * GIB), 0);
	assert_int_equal(model_used(rig.model), 4 * GIB);
	assert_int_equal(pool_rig_stats(&rig).num_ooms, 2);
}

/* Caches and blocks set aside count as free before memory is out. */
static void caches_are_searched_before_memory_is_out(void **state)
{
	uint64_t a[1000];

	(void)state;
	model_set_total(rig.model, 64 * MIB);
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 1000; i++)
		a[i] = pool_rig_alloc(&rig, 60000);
	model_set_capturing(rig.model, true);
	for (int i = 0; i < 500; i++)
		gp_pool_free(rig.pool, a[i]);
	model_set_capturing(rig.model, false);
	for (int i = 500; i < 1000; i++)
		gp_pool_free(rig.pool, a[i]);
	assert_int_not_equal(pool_rig_alloc(&rig, 64 * MIB), 0);
	assert_int_equal(pool_rig_stats(&rig).num_ooms, 0);
}

/* A neighbour takes the memory that a growth would need. */
static void growth_fits_what_the_device_has(void **state)
{
	uint64_t a;

	(void)state;
	rig.config.growth_factor = 2.0;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 100 * MIB);
	assert_int_equal(model_used(rig.model), 200 * MIB);
	model_set_total(rig.model, 350 * MIB);
	assert_int_not_equal(pool_rig_alloc(&rig, 220 * MIB), 0);
	assert_true(model_used(rig.model) <= 350 * MIB);
	gp_pool_free(rig.pool, a);
}

static void trim_gives_back_what_is_asked(void **state)
{
	uint64_t a[8], given;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 8; i++)
		a[i] = pool_rig_alloc(&rig, 100 * MIB);
	for (int i = 0; i < 8; i++)
		if (i != 3)
			gp_pool_free(rig.pool, a[i]);
	given = gp_pool_trim(rig.pool, 150 * MIB);
	assert_true(given >= 150 * MIB && given < 220 * MIB);
	assert_int_equal(model_used(rig.model), 800 * MIB - given);
	given += gp_pool_trim(rig.pool, UINT64_MAX);
	/* The live block's handles reach a little beyond it. */
	assert_true(model_used(rig.model) < 140 * MIB);
	assert_int_equal(model_used(rig.model), 800 * MIB - given);
	assert_true(model_accessible(rig.model, a[3], 100 * MIB));
	assert_int_equal(gp_pool_trim(rig.pool, UINT64_MAX), 0);
	assert_int_equal(pool_rig_stats(&rig).num_trims, 2);
}

/* A program frees gigabytes and stays idle: they go within the decay time. */
static void idle_memory_decays(void **state)
{
	uint64_t big, kept;

	(void)state;
	rig.config.cache_policy = GP_CACHE_DECAY;
	rig.config.decay_ms = 1000;
	assert_int_equal(pool_rig_open(&rig), 0);
	big = pool_rig_alloc(&rig, 2 * GIB);
	kept = pool_rig_alloc(&rig, 64 * MIB);
	for (int i = 0; i < 4; i++) {
		model_advance(rig.model, 250000000);
		gp_pool_tick(rig.pool);
	}
	assert_true(model_used(rig.model) >= 2 * GIB + 64 * MIB);
	gp_pool_free(rig.pool, big);
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, 4096));
	/* Not at once: it is likely to be wanted again. */
	model_advance(rig.model, 250000000);
	gp_pool_tick(rig.pool);
	assert_true(model_used(rig.model) >= 2 * GIB);
	for (int i = 0; i < 4; i++) {
		model_advance(rig.model, 250000000);
		gp_pool_tick(rig.pool);
	}
	assert_int_equal(model_used(rig.model), 64 * MIB);
	assert_true(model_accessible(rig.model, kept, 64 * MIB));
}

static void memory_in_use_does_not_decay(void **state)
{
	uint64_t creates = 0;

	(void)state;
	rig.config.cache_policy = GP_CACHE_DECAY;
	rig.config.decay_ms = 1000;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 40; i++) {
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 500 * MIB));
		if (i == 0)
			creates = model_calls(rig.model, MODEL_CREATE);
		model_advance(rig.model, 250000000);
		gp_pool_tick(rig.pool);
	}
	assert_int_equal(model_calls(rig.model, MODEL_CREATE), creates);
	assert_int_equal(model_calls(rig.model, MODEL_RELEASE), 0);
}

static void policy_keep_keeps(void **state)
{
	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, GIB));
	model_advance(rig.model, 3600000000000);
	gp_pool_tick(rig.pool);
	assert_int_equal(model_used(rig.model), GIB);
}

static void policy_none_gives_back_at_once(void **state)
{
	uint64_t small, large;

	(void)state;
	rig.config.cache_policy = GP_CACHE_NONE;
	assert_int_equal(pool_rig_open(&rig), 0);
	small = pool_rig_alloc(&rig, 4096);
	large = pool_rig_alloc(&rig, 100 * MIB);
	gp_pool_free(rig.pool, large);
	assert_int_equal(model_used(rig.model), 2 * MIB);
	gp_pool_free(rig.pool, small);
	assert_int_equal(model_used(rig.model), 0);
}

static void garbage_is_collected_above_the_threshold(void **state)
{
	(void)state;
	rig.config.garbage_collection_threshold = 0.5;
	assert_int_equal(pool_rig_open(&rig), 0);
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, 3 * GIB));
	gp_pool_tick(rig.pool);
	assert_true(model_used(rig.model) <= 2 * GIB);
	assert_true(model_used(rig.model) > 2 * GIB - 128 * MIB);
}

static void divisions_round_up(void **state)
{
	static const struct {
		uint64_t bytes, allocated;
	} cases[] = {
		{1000, 1024}, /* too small for four steps */
		{4097, 5120}, /* slot 0 fills all below 1 MiB */
		{MIB, MIB},   /* powers of two stay */
		{MIB + 1, 5 * MIB / 4},
		{5 * MIB, 5 * MIB},      /* slot 2 is off */
		{9 * MIB + 1, 10 * MIB}, /* slot 3, eight steps */
		{17 * MIB, 17 * MIB},
	};

	(void)state;
	rig.config.roundup_power2_divisions[0] = 4;
	rig.config.roundup_power2_divisions[3] = 8;
	rig.config.roundup_power2_divisions[4] = 1;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t va = pool_rig_alloc(&rig, cases[i].bytes);
		struct gp_pool_stats s = pool_rig_stats(&rig);

		assert_int_equal(s.allocated_bytes.current, cases[i].allocated);
		assert_int_equal(s.requested_bytes.current, cases[i].bytes);
		gp_pool_free(rig.pool, va);
	}
}

/* Programs that have small and large blocks in turn must not move memory
 * between them each time. */
static void taking_turns_settles(void **state)
{
	uint64_t calls = 0;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 100; i++) {
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 5000));
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 50 * MIB));
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 30 * MIB));
		if (i == 10)
			calls = pool_rig_stats(&rig).num_driver_calls;
	}
	assert_int_equal(pool_rig_stats(&rig).num_driver_calls, calls);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, new_rig, pool_rig_end)
	const struct CMUnitTest tests[] = {
		T(growth_takes_what_is_missing),
		T(no_small_handle_is_left_over),
		T(a_small_process_takes_little),
		T(scraps_are_used_before_slabs_grow),
		T(the_last_scrap_is_given_back),
		T(a_large_request_gets_large_handles),
		T(free_memory_moves_before_new_is_taken),
		T(a_full_device_serves_what_is_free_in_all),
		T(caches_are_searched_before_memory_is_out),
		T(growth_fits_what_the_device_has),
		T(trim_gives_back_what_is_asked),
		T(idle_memory_decays),
		T(memory_in_use_does_not_decay),
		T(policy_keep_keeps),
		T(policy_none_gives_back_at_once),
		T(garbage_is_collected_above_the_threshold),
		T(divisions_round_up),
		T(taking_turns_settles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
