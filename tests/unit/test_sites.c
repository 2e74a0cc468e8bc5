/*
 * Call sites: what is entered is told, what is taken out is not, and nothing
 * grows without bounds.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "stats/growth.h"
#include "stats/sites.h"

#define MIB    (1ull << 20)
#define SECOND 1000000000ull

static struct gp_site_row rows[64];
static struct gp_sites_totals totals;

static struct gp_stack stack_of(uint64_t at)
{
	struct gp_stack stack = {.native = 2};

	stack.frames[0] = at;
	stack.frames[1] = 0x1000;
	return stack;
}

static bool add(uint64_t key, uint64_t at, double bytes, uint64_t now)
{
	struct gp_stack stack = stack_of(at);

	return gp_sites_add(key, 1, &stack, (struct gp_weight){bytes, 1}, now);
}

static int start(void **state)
{
	(void)state;
	return gp_sites_start(0);
}

static int fresh(void **state)
{
	(void)state;
	gp_sites_reset(0);
	return 0;
}

static void test_live(void **state)
{
	(void)state;
	assert_true(add(0x10, 1, 3 * MIB, 1));
	assert_true(add(0x20, 1, 4 * MIB, 2));
	assert_true(add(0x30, 2, 5 * MIB, 3));
	gp_sites_remove(0x20);
	gp_sites_remove(0x20);
	gp_sites_remove(0x99);
	assert_int_equal(gp_sites_top(GP_SITES_BY_LIVE, rows, 64, 4), 2);
	assert_int_equal(rows[0].bytes, 5 * MIB);
	assert_int_equal(rows[0].stack.frames[0], 2);
	assert_int_equal(rows[0].stack.native, 2);
	assert_int_equal(rows[1].bytes, 3 * MIB);
	assert_int_equal(rows[1].blocks, 1);
	assert_int_equal(rows[1].all_bytes, 7 * MIB);
	assert_int_equal(rows[1].all_blocks, 2);
	assert_int_equal(rows[1].peak_bytes, 7 * MIB);
	assert_int_equal(gp_sites_top(GP_SITES_BY_LIVE, rows, 1, 4), 1);
	gp_sites_get(&totals);
	assert_int_equal(totals.bytes, 8 * MIB);
	assert_int_equal(totals.peak_bytes, 12 * MIB);
	assert_int_equal(totals.entered, 3);
	assert_int_equal(totals.entered_now, 2);
	assert_int_equal(totals.sites, 2);
}

/* Its free was not seen: the address is another block's now. */
static void test_replaced(void **state)
{
	(void)state;
	add(0x10, 1, 3 * MIB, 1);
	add(0x10, 2, 5 * MIB, 2);
	assert_int_equal(gp_sites_top(GP_SITES_BY_LIVE, rows, 64, 4), 1);
	assert_int_equal(rows[0].stack.frames[0], 2);
}

static void test_owner(void **state)
{
	struct gp_stack stack = stack_of(9);

	(void)state;
	for (uint64_t i = 1; i <= 1000; i++) {
		add(i << 9, 1, MIB, i);
		gp_sites_add(i << 9 | 1ull << 40, 2, &stack,
			     (struct gp_weight){MIB, 1}, i);
	}
	gp_sites_drop(1);
	gp_sites_get(&totals);
	assert_int_equal(totals.bytes, 1000 * MIB);
	gp_sites_drop(2);
	gp_sites_get(&totals);
	assert_int_equal(totals.bytes, 0);
	assert_int_equal(totals.entered_now, 0);
}

/* Random adding and removing against a plain list. */
static void test_random(void **state)
{
	static double held[5000];
	double sum = 0;
	unsigned n = 0;

	(void)state;
	srand(1);
	for (unsigned i = 0; i < 200000; i++) {
		unsigned k = (unsigned)rand() % 5000;

		if (held[k] > 0 && rand() % 2) {
			gp_sites_remove((k + 1) * 512ull);
			held[k] = 0;
		} else {
			held[k] = rand() % 100000 + 1;
			assert_true(add((k + 1) * 512ull, k % 50, held[k], i));
		}
	}
	for (unsigned k = 0; k < 5000; k++) {
		sum += held[k];
		n += held[k] > 0;
	}
	gp_sites_get(&totals);
	assert_int_equal(totals.entered_now, n);
	assert_true(totals.bytes == (uint64_t)(sum + 0.5));
	assert_int_equal(totals.sites, 50);
}

/* More stacks than there is room for: the rest is one. */
static void test_many_stacks(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= GP_SITES + 100; i++)
		assert_true(add(i << 9, i, i == GP_SITES + 7 ? 1000 * MIB : MIB,
				i));
	gp_sites_get(&totals);
	assert_int_equal(totals.sites, GP_SITES - 1);
	assert_int_equal(totals.dropped_stacks, 101);
	assert_int_equal(totals.bytes, (GP_SITES + 99 + 1000) * MIB);
	assert_int_equal(gp_sites_top(GP_SITES_BY_LIVE, rows, 1, 0), 1);
	assert_int_equal(rows[0].bytes, (100 + 1000) * MIB);
	assert_int_equal(rows[0].stack.native + rows[0].stack.python, 0);
}

static void test_many_blocks(void **state)
{
	uint64_t i, in = 0;

	(void)state;
	for (i = 1; i <= 1u << 20; i++)
		in += add(i << 9, 1, 1, i);
	gp_sites_get(&totals);
	assert_int_equal(totals.entered_now, in);
	assert_int_equal(totals.dropped_blocks, (1u << 20) - in);
	assert_in_range(in, 700000, (1u << 20) - 1);
	for (i = 1; i <= 1u << 20; i++)
		gp_sites_remove(i << 9);
	gp_sites_get(&totals);
	assert_int_equal(totals.entered_now, 0);
	assert_int_equal(totals.bytes, 0);
}

static void *churn(void *arg)
{
	uint64_t base = (uint64_t)(uintptr_t)arg << 32;

	for (unsigned i = 0; i < 20000; i++) {
		add(base + (i % 64 + 1) * 512, i % 7, MIB, i);
		if (i % 3)
			gp_sites_remove(base + ((i + 11) % 64 + 1) * 512);
		if (i % 1000 == 0) {
			struct gp_site_row row;

			gp_sites_top(GP_SITES_BY_PEAK, &row, 1, i);
		}
	}
	for (unsigned i = 1; i <= 64; i++)
		gp_sites_remove(base + i * 512);
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	gp_sites_get(&totals);
	assert_int_equal(totals.entered_now, 0);
	assert_int_equal(totals.bytes, 0);
	assert_int_equal(totals.entered, 80000);
}

/* ---- growth --------------------------------------------------------------------- */

/* A leak, a cache that fills, a steady load, a load with waves, and one that
 * was large at first: in 100 s and in 1 s. */
static void grow(uint64_t length)
{
	uint64_t step = length / 1000;

	gp_sites_reset(0);
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t now = i * step;

		if (i % 10 == 0)
			add(i + 1, 1, MIB, now); /* leaks */
		add(10000 + i, 1, 2 * MIB, now);
		if (i < 300 && i % 10 == 0)
			add(20000 + i, 2, MIB, now); /* fills */
		add(30000 + i, 3, 50 * MIB, now);    /* steady */
		gp_sites_remove(30000 + i);
		gp_sites_remove(10000 + i);
		if (i % 200 < 100) /* waves */
			add(40000 + i % 200, 4, MIB, now);
		else
			gp_sites_remove(40000 + i % 200 - 100);
		if (i < 100)
			add(50000 + i, 5, MIB, now);
		else if (i % 2 == 0)
			gp_sites_remove(50000 + i / 2 - 50);
	}
	assert_int_equal(gp_sites_top(GP_SITES_BY_GROWTH, rows, 64, length), 1);
	assert_int_equal(rows[0].stack.frames[0], 1);
	assert_int_equal(rows[0].bytes, 100 * MIB);
	/* The slope, to what a bin is long. */
	assert_in_range(rows[0].growth,
			(uint64_t)(0.9 * 100 * MIB / (double)length * 3600e9),
			(uint64_t)(1.1 * 100 * MIB / (double)length * 3600e9));
	assert_in_range(rows[0].since_ns, length * 9 / 10, length * 11 / 10);
}

static void test_growth(void **state)
{
	(void)state;
	grow(100 * SECOND);
	grow(SECOND);
	grow(100000 * SECOND);
}

/* What stops growing is not told for long. */
static void test_growth_ends(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		add(i + 1, 1, MIB, i * SECOND);
	assert_int_equal(
		gp_sites_top(GP_SITES_BY_GROWTH, rows, 64, 100 * SECOND), 1);
	assert_int_equal(
		gp_sites_top(GP_SITES_BY_GROWTH, rows, 64, 1000 * SECOND), 0);
}

/* Clocks of threads are read in one order and used in another. */
static void test_clock_goes_back(void **state)
{
	(void)state;
	add(1, 1, MIB, 50 * SECOND);
	add(2, 1, MIB, 10 * SECOND);
	add(3, 1, MIB, 51 * SECOND);
	assert_int_equal(gp_sites_top(GP_SITES_BY_LIVE, rows, 64, 0), 1);
	assert_int_equal(rows[0].bytes, 3 * MIB);
}

/* ---- places ---------------------------------------------------------------------- */

static void test_places(void **state)
{
	struct gp_frame_text text;
	uint32_t a = gp_place("/a/b.py", "f"), b = gp_place("/a/b.py", "g");
	uint32_t c = gp_place("/a/c.py", "f");

	(void)state;
	assert_true(a && b && c && a != b && a != c && b != c);
	assert_int_equal(gp_place("/a/b.py", "f"), a);
	gp_frame_look_up(gp_frame_at(b, 4000000000u), &text);
	assert_string_equal(text.file, "/a/b.py");
	assert_string_equal(text.function, "g");
	assert_int_equal(text.line, 4000000000u);
	assert_int_equal(text.address, 0);
}

/* A place too many: told as none, and the earlier ones stay. */
static void test_too_many_places(void **state)
{
	struct gp_frame_text text;
	uint32_t first = gp_place("first.py", "f");
	char name[300];
	unsigned lost = 0;

	(void)state;
	memset(name, 'x', sizeof(name));
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(name + 280, sizeof(name) - 280, "%u", i);
		lost += !gp_place(name, "f");
	}
	assert_true(lost > 10000);
	assert_int_equal(gp_places_lost(), lost);
	assert_int_equal(gp_place("first.py", "f"), first);
	gp_frame_look_up(gp_frame_at(0, 7), &text);
	assert_string_equal(text.file, "");
	assert_int_equal(text.line, 7);
}

__attribute__((noinline)) static uint64_t return_address(void)
{
	return (uintptr_t)__builtin_return_address(0);
}

static void test_native(void **state)
{
	struct gp_frame_text text;

	(void)state;
	gp_frame_look_up(return_address(), &text);
	assert_non_null(strstr(text.file, "test_sites"));
	assert_string_equal(text.function, "test_native");
	assert_true(text.offset > 0);
	assert_int_equal(text.line, 0);
	gp_frame_look_up(0x10, &text);
	assert_string_equal(text.file, "");
	assert_int_equal(text.address, 0x10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_live, fresh),
		cmocka_unit_test_setup(test_replaced, fresh),
		cmocka_unit_test_setup(test_owner, fresh),
		cmocka_unit_test_setup(test_random, fresh),
		cmocka_unit_test_setup(test_many_stacks, fresh),
		cmocka_unit_test_setup(test_many_blocks, fresh),
		cmocka_unit_test_setup(test_threads, fresh),
		cmocka_unit_test_setup(test_growth, fresh),
		cmocka_unit_test_setup(test_growth_ends, fresh),
		cmocka_unit_test_setup(test_clock_goes_back, fresh),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_too_many_places),
		cmocka_unit_test(test_native),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
