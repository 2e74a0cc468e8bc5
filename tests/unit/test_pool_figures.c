/*
 * The pool's figures: by size, by what free memory is good for, peaks and
 * their resets, and what the driver was spared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/pool_rig.h"

static struct pool_rig rig;

static int set_up(void **state)
{
	*state = &rig;
	rig = pool_rig_new(2 * GIB, false);
	return 0;
}

static void is(const struct gp_stat *stat, uint64_t current, uint64_t peak,
	       uint64_t allocated)
{
	assert_int_equal(stat->current, current);
	assert_int_equal(stat->peak, peak);
	assert_int_equal(stat->allocated, allocated);
	assert_int_equal(stat->freed, allocated - current);
}

static void small_and_large_are_told_apart(void **state)
{
	uint64_t small[3], large;
	struct gp_pool_stats s;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 3; i++)
		small[i] = pool_rig_alloc(&rig, 1000);
	large = pool_rig_alloc(&rig, 5 * MIB - 1);
	gp_pool_free(rig.pool, small[1]);
	s = pool_rig_stats(&rig);
	is(&s.allocated_bytes_small, 2048, 3072, 3072);
	is(&s.requested_bytes_small, 2000, 3000, 3000);
	is(&s.allocation_small, 2, 3, 3);
	is(&s.allocated_bytes_large, 5 * MIB, 5 * MIB, 5 * MIB);
	is(&s.requested_bytes_large, 5 * MIB - 1, 5 * MIB - 1, 5 * MIB - 1);
	is(&s.allocation_large, 1, 1, 1);
	is(&s.allocated_bytes, 5 * MIB + 2048, 5 * MIB + 3072, 5 * MIB + 3072);
	is(&s.active_bytes, 5 * MIB + 2048, 5 * MIB + 3072, 5 * MIB + 3072);
	is(&s.segment_small, 1, 1, 1);
	is(&s.reserved_bytes_small, 2 * MIB, 2 * MIB, 2 * MIB);
	assert_int_equal(s.reserved_bytes_small.current +
				 s.reserved_bytes_large.current,
			 s.reserved_bytes.current);
	assert_int_equal(s.segment_small.current + s.segment_large.current,
			 s.segment.current);
	/* Hits count as misses do. */
	gp_pool_free(rig.pool, large);
	for (int i = 0; i < 10; i++)
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 5 * MIB));
	s = pool_rig_stats(&rig);
	is(&s.allocation_large, 0, 1, 11);
	is(&s.allocated_bytes_large, 0, 5 * MIB, 55 * MIB);
	is(&s.allocation_small, 2, 3, 3);
}

/* A handle of the last free slab serves a large request: its part changes. */
static void handles_change_sides(void **state)
{
	struct gp_pool_stats s;
	uint64_t va[40];

	(void)state;
	assert_null(pool_rig_close(&rig));
	rig = pool_rig_new(32 * MIB, false);
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 40; i++)
		va[i] = pool_rig_alloc(&rig, 800 * KIB);
	for (int i = 0; i < 40; i++)
		if (va[i])
			gp_pool_free(rig.pool, va[i]);
	s = pool_rig_stats(&rig);
	assert_int_equal(s.reserved_bytes_small.current, 32 * MIB);
	assert_int_equal(s.reserved_bytes_large.current, 0);
	assert_int_not_equal(pool_rig_alloc(&rig, 20 * MIB), 0);
	s = pool_rig_stats(&rig);
	assert_true(s.num_remaps > 0);
	is(&s.reserved_bytes_large, 20 * MIB, 20 * MIB, 20 * MIB);
	is(&s.reserved_bytes_small, 12 * MIB, 32 * MIB, 32 * MIB);
	assert_int_equal(s.reserved_bytes.allocated, 32 * MIB);
}

/* Free memory in a handle that is in use elsewhere can neither move nor go. */
static void free_memory_by_its_use(void **state)
{
	uint64_t a, b, c;
	struct gp_pool_stats s;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 1 * MIB);
	b = pool_rig_alloc(&rig, 1 * MIB);
	c = pool_rig_alloc(&rig, 64 * MIB);
	assert_int_not_equal(a, 0);
	gp_pool_free(rig.pool, b);
	gp_pool_free(rig.pool, c);
	gp_pool_collect(rig.pool);
	s = pool_rig_stats(&rig);
	assert_int_equal(s.inactive_split_bytes.current, 1 * MIB);
	assert_int_equal(s.inactive_split_bytes_large.current, 1 * MIB);
	assert_int_equal(s.inactive_split_bytes_small.current, 0);
	assert_int_equal(s.inactive_split.current, 1);
	assert_int_equal(s.movable_bytes, 64 * MIB);
	assert_int_equal(s.cached_bytes, 65 * MIB);
	/* What the figure calls movable goes back, and no more. */
	assert_int_equal(gp_pool_trim(rig.pool, UINT64_MAX), s.movable_bytes);
	gp_pool_free(rig.pool, a);
	gp_pool_collect(rig.pool);
	s = pool_rig_stats(&rig);
	is(&s.inactive_split_bytes, 0, 1 * MIB, 1 * MIB);
	assert_int_equal(s.movable_bytes, 2 * MIB);
}

static void free_parts_of_slabs_are_bound(void **state)
{
	uint64_t va[4];
	struct gp_pool_stats s;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 4; i++)
		va[i] = pool_rig_alloc(&rig, 256 * KIB);
	gp_pool_free(rig.pool, va[1]);
	gp_pool_collect(rig.pool);
	s = pool_rig_stats(&rig);
	assert_int_equal(s.inactive_split_bytes_small.current,
			 2 * MIB - 3 * 256 * KIB);
	assert_int_equal(s.inactive_split_small.current, 2);
	assert_int_equal(s.movable_bytes, 0);
	assert_int_equal(s.largest_free_bytes, MIB);
	for (int i = 0; i < 4; i++)
		if (i != 1)
			gp_pool_free(rig.pool, va[i]);
	gp_pool_collect(rig.pool);
	/* The last slab is kept, with nothing in it. */
	s = pool_rig_stats(&rig);
	assert_int_equal(s.inactive_split_bytes.current, 0);
	assert_int_equal(s.inactive_split.current, 0);
	assert_int_equal(s.movable_bytes, 2 * MIB);
	assert_int_equal(s.largest_free_bytes, 2 * MIB);
	assert_int_equal(gp_pool_trim(rig.pool, UINT64_MAX), 2 * MIB);
}

static void set_aside_is_active(void **state)
{
	struct gp_pool_stats s;
	uint64_t a;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 8 * MIB);
	model_set_capturing(rig.model, true);
	assert_int_equal(gp_pool_free(rig.pool, a), 0);
	pool_rig_alloc(&rig, 4 * MIB);
	s = pool_rig_stats(&rig);
	is(&s.allocated_bytes, 4 * MIB, 8 * MIB, 12 * MIB);
	is(&s.active_bytes, 12 * MIB, 12 * MIB, 12 * MIB);
	is(&s.active, 2, 2, 2);
	is(&s.active_large, 2, 2, 2);
	is(&s.active_small, 0, 0, 0);
	model_set_capturing(rig.model, false);
	gp_pool_trim(rig.pool, UINT64_MAX);
	s = pool_rig_stats(&rig);
	is(&s.active_bytes, 4 * MIB, 12 * MIB, 12 * MIB);
}

static void peaks_start_anew(void **state)
{
	struct gp_pool_stats s;
	uint64_t a, b;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 100 * MIB);
	b = pool_rig_alloc(&rig, 4096);
	gp_pool_free(rig.pool, a);
	gp_pool_trim(rig.pool, UINT64_MAX);
	s = pool_rig_stats(&rig);
	assert_int_equal(s.allocated_bytes.peak, 100 * MIB + 4096);
	gp_pool_reset_peaks(rig.pool);
	s = pool_rig_stats(&rig);
	is(&s.allocated_bytes, 4096, 4096, 100 * MIB + 4096);
	assert_int_equal(s.allocated_bytes_large.peak, 0);
	assert_int_equal(s.allocated_bytes_small.peak, 4096);
	assert_int_equal(s.active_bytes.peak, 4096);
	assert_int_equal(s.reserved_bytes.peak, s.reserved_bytes.current);
	assert_int_equal(s.segment.peak, s.segment.current);
	assert_int_equal(s.allocation.peak, 1);
	gp_pool_free(rig.pool, b);
	pool_rig_alloc(&rig, 3 * MIB);
	s = pool_rig_stats(&rig);
	assert_int_equal(s.allocated_bytes.peak, 3 * MIB);
}

static void sections_have_their_own(void **state)
{
	struct gp_section_peak peak;
	uint64_t a, b;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 100 * MIB);
	gp_pool_free(rig.pool, a);
	gp_pool_trim(rig.pool, UINT64_MAX);
	gp_pool_section(rig.pool, true, &peak);
	assert_int_equal(peak.allocated, 100 * MIB);
	assert_int_equal(peak.reserved, 100 * MIB);
	b = pool_rig_alloc(&rig, 10 * MIB);
	gp_pool_section(rig.pool, false, &peak);
	assert_int_equal(peak.allocated, 10 * MIB);
	gp_pool_free(rig.pool, b);
	gp_pool_section(rig.pool, true, &peak);
	assert_int_equal(peak.allocated, 10 * MIB);
	assert_int_equal(peak.reserved, 10 * MIB);
	gp_pool_section(rig.pool, true, &peak);
	assert_int_equal(peak.allocated, 0);
	assert_int_equal(peak.reserved, 10 * MIB); /* cached */
	/* The pool's own peaks know nothing of sections. */
	assert_int_equal(pool_rig_stats(&rig).allocated_bytes.peak, 100 * MIB);
}

static void advance(void *arg, enum model_call call)
{
	if (call == MODEL_CREATE || call == MODEL_UNMAP)
		model_advance(arg, 1000);
}

/* One handle made, a hundred allocations served: 99 were spared, and as many
 * frees as there were, once one was measured. */
static void time_saved_is_what_calls_took(void **state)
{
	struct gp_pool_stats s;

	(void)state;
	model_set_hook(rig.model, advance, rig.model);
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 100; i++)
		gp_pool_free(rig.pool, pool_rig_alloc(&rig, 2 * MIB));
	s = pool_rig_stats(&rig);
	assert_int_equal(s.calls[GP_TIMED_create].calls, 1);
	assert_true(s.calls[GP_TIMED_create].ns >= 1000);
	assert_int_equal(s.calls[GP_TIMED_unmap].calls, 0);
	assert_true(s.saved_ns >= 99 * 1000);
	assert_true(s.saved_ns < 150 * 1000);
	gp_pool_trim(rig.pool, UINT64_MAX);
	s = pool_rig_stats(&rig);
	assert_int_equal(s.calls[GP_TIMED_unmap].calls, 1);
	assert_true(s.saved_ns >= 2 * 99 * 1000);
	assert_int_equal(s.num_driver_calls,
			 model_total_calls(rig.model) -
				 model_calls(rig.model, MODEL_SYNC));
}

static void oversize_with_segments(void **state)
{
	struct gp_pool_stats s;
	uint64_t a;

	(void)state;
	rig.config.expandable_segments = false;
	rig.config.max_split_size = 40 * MIB;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 50 * MIB);
	pool_rig_alloc(&rig, 5 * MIB);
	s = pool_rig_stats(&rig);
	is(&s.oversize_allocations, 1, 1, 1);
	is(&s.oversize_segments, 1, 1, 1);
	assert_int_equal(s.max_split_size, 40 * MIB);
	gp_pool_free(rig.pool, a);
	gp_pool_trim(rig.pool, UINT64_MAX);
	s = pool_rig_stats(&rig);
	is(&s.oversize_allocations, 0, 1, 1);
	is(&s.oversize_segments, 0, 1, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, pool_rig_end)
		TEST(small_and_large_are_told_apart),
		TEST(handles_change_sides),
		TEST(free_memory_by_its_use),
		TEST(free_parts_of_slabs_are_bound),
		TEST(set_aside_is_active),
		TEST(peaks_start_anew),
		TEST(sections_have_their_own),
		TEST(time_saved_is_what_calls_took),
		TEST(oversize_with_segments),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
