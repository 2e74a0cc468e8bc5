/*
 * Counters by kind, figures as a person reads them, and well-formed text.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "stats/emit.h"
#include "stats/format.h"
#include "stats/kinds.h"
#include "stats/report.h"
#include "stats/utf8.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* ---- kinds ----------------------------------------------------------------- */

static void check_stat(const struct gp_stat *stat, uint64_t current,
		       uint64_t peak, uint64_t allocated, uint64_t freed)
{
	assert_int_equal(stat->current, current);
	assert_int_equal(stat->peak, peak);
	assert_int_equal(stat->allocated, allocated);
	assert_int_equal(stat->freed, freed);
}

static void test_kinds(void **state)
{
	struct gp_kind_stats stats;

	(void)state;
	gp_kind_get(GP_KIND_managed, &stats);
	check_stat(&stats.bytes, 0, 0, 0, 0);
	gp_kind_add(GP_KIND_managed, 100);
	gp_kind_add(GP_KIND_managed, 50);
	gp_kind_sub(GP_KIND_managed, 100);
	gp_kind_add(GP_KIND_managed, 20);
	gp_kind_get(GP_KIND_managed, &stats);
	check_stat(&stats.bytes, 70, 150, 170, 100);
	check_stat(&stats.count, 2, 2, 3, 1);
	/* Others are untouched. */
	gp_kind_get(GP_KIND_array, &stats);
	check_stat(&stats.bytes, 0, 0, 0, 0);
	check_stat(&stats.count, 0, 0, 0, 0);
}

static void test_kinds_never_below_zero(void **state)
{
	struct gp_kind_stats stats;

	(void)state;
	gp_kind_sub(GP_KIND_pinned, 10);
	gp_kind_get(GP_KIND_pinned, &stats);
	check_stat(&stats.bytes, 0, 0, 0, 0);
	check_stat(&stats.count, 0, 0, 0, 0);
	gp_kind_add(GP_KIND_pinned, 5);
	gp_kind_sub(GP_KIND_pinned, 10);
	gp_kind_get(GP_KIND_pinned, &stats);
	check_stat(&stats.bytes, 0, 5, 5, 5);
	check_stat(&stats.count, 0, 1, 1, 1);
}

static void test_kind_names(void **state)
{
	(void)state;
	assert_string_equal(gp_kind_name(GP_KIND_plain), "plain");
	assert_string_equal(gp_kind_name(GP_KIND_registered), "registered");
	for (int i = 0; i < GP_KIND_COUNT; i++)
		assert_true(gp_kind_name((enum gp_kind)i)[0] != '?');
	assert_string_equal(gp_kind_name(GP_KIND_COUNT), "?");
}

#define THREADS 4
#define ROUNDS  20000

/* Live at most 3 * its argument at a time. */
static void *churn(void *arg)
{
	const uint64_t bytes = (uint64_t)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		gp_kind_add(GP_KIND_external, bytes);
		gp_kind_add(GP_KIND_external, bytes * 2);
		gp_kind_sub(GP_KIND_external, bytes);
		gp_kind_sub(GP_KIND_external, bytes * 2);
	}
	return NULL;
}

static void *watch(void *arg)
{
	_Atomic bool *stop = arg;
	struct gp_kind_stats stats;
	uint64_t peak = 0;

	while (!*stop) {
		gp_kind_get(GP_KIND_external, &stats);
		/* A peak is never below what is, nor below an earlier one. */
		if (stats.bytes.peak < stats.bytes.current ||
		    stats.bytes.current > 3 * (1 + 2 + 3 + 4) ||
		    stats.bytes.peak + 3 * (1 + 2 + 3 + 4) < peak)
			return NULL;
		peak = stats.bytes.peak;
	}
	return arg;
}

static void test_kinds_threads(void **state)
{
	pthread_t threads[THREADS], watcher;
	_Atomic bool stop = false;
	struct gp_kind_stats stats;
	void *watched;

	(void)state;
	assert_int_equal(pthread_create(&watcher, NULL, watch, &stop), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn,
						(void *)(i + 1)),
				 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	stop = true;
	pthread_join(watcher, &watched);
	assert_non_null(watched);
	gp_kind_get(GP_KIND_external, &stats);
	assert_int_equal(stats.bytes.current, 0);
	assert_int_equal(stats.count.current, 0);
	assert_int_equal(stats.bytes.allocated, 3ull * 10 * ROUNDS);
	assert_int_equal(stats.bytes.freed, 3ull * 10 * ROUNDS);
	assert_int_equal(stats.count.allocated, 2ull * THREADS * ROUNDS);
	/* At least what one thread held, at most what all could. */
	assert_in_range(stats.bytes.peak, 3 * 4, 3 * 10);
	assert_in_range(stats.count.peak, 2, 2 * THREADS);
}

/* ---- figures ------------------------------------------------------------------ */

static const char *bytes(uint64_t n)
{
	static char buf[GP_FORMAT_MAX];

	return gp_format_bytes(n, buf, sizeof(buf));
}

static void test_bytes(void **state)
{
	char small[5];

	(void)state;
	assert_string_equal(bytes(0), "0 B");
	assert_string_equal(bytes(512), "512 B");
	assert_string_equal(bytes(1023), "1023 B");
	assert_string_equal(bytes(KIB), "1.00 KiB");
	assert_string_equal(bytes(1536), "1.50 KiB");
	assert_string_equal(bytes(20 * MIB), "20.00 MiB");
	assert_string_equal(bytes(MIB - 1), "1.00 MiB"); /* not 1024.00 KiB */
	assert_string_equal(bytes(MIB - 6), "1023.99 KiB");
	assert_string_equal(bytes(3 * GIB / 2), "1.50 GiB");
	assert_string_equal(bytes(141 * GIB), "141.00 GiB");
	assert_string_equal(bytes(1ull << 40), "1.00 TiB");
	assert_string_equal(bytes(1ull << 50), "1.00 PiB");
	assert_string_equal(bytes(UINT64_MAX - 1), "16.00 EiB");
	assert_string_equal(bytes(GP_UNKNOWN), "unknown");
	assert_ptr_equal(gp_format_bytes(GIB, small, sizeof(small)), small);
	assert_string_equal(small, "1.00");
}

static const char *count(uint64_t n)
{
	static char buf[GP_FORMAT_MAX];

	return gp_format_count(n, buf, sizeof(buf));
}

static void test_counts(void **state)
{
	char small[4];

	(void)state;
	assert_string_equal(count(0), "0");
	assert_string_equal(count(999), "999");
	assert_string_equal(count(1000), "1,000");
	assert_string_equal(count(1001001), "1,001,001");
	assert_string_equal(count(9999999999), "9,999,999,999");
	assert_string_equal(count(10000000000), "10,000 M");
	assert_string_equal(count(12345678901234), "12,345,679 M");
	assert_string_equal(count(UINT64_MAX), "18,446,744 T");
	gp_format_count(1234567, small, sizeof(small));
	assert_string_equal(small, "1,2");
}

static const char *ns(uint64_t n)
{
	static char buf[GP_FORMAT_MAX];

	return gp_format_ns(n, buf, sizeof(buf));
}

static void test_durations(void **state)
{
	(void)state;
	assert_string_equal(ns(0), "0 ns");
	assert_string_equal(ns(999), "999 ns");
	assert_string_equal(ns(1000), "1.00 us");
	assert_string_equal(ns(12345), "12.35 us"); /* halves go up */
	assert_string_equal(ns(999994), "999.99 us");
	assert_string_equal(ns(999995), "1.00 ms");
	assert_string_equal(ns(12345678901), "12.35 s");
	assert_string_equal(ns(59994999999), "59.99 s");
	assert_string_equal(ns(60000000000), "1 min 00 s");
	assert_string_equal(ns(3599999999999), "59 min 59 s");
	assert_string_equal(ns(3600000000000), "1 h 00 min");
	assert_string_equal(ns(UINT64_MAX), "5124095 h 34 min");
}

/* Against the C library's calendar, day by day over four centuries. */
static void test_dates(void **state)
{
	char ours[GP_FORMAT_MAX], theirs[GP_FORMAT_MAX];

	(void)state;
	gp_format_time(0, ours, sizeof(ours));
	assert_string_equal(ours, "1970-01-01 00:00:00 UTC");
	for (uint64_t day = 0; day < 146097 + 366; day++) {
		const time_t s = (time_t)(day * 86400 + day * 7919 % 86400);
		struct tm tm;

		gp_format_time((uint64_t)s * 1000000000, ours, sizeof(ours));
		assert_non_null(gmtime_r(&s, &tm));
		strftime(theirs, sizeof(theirs), "%Y-%m-%d %H:%M:%S UTC", &tm);
		assert_string_equal(ours, theirs);
	}
}

static void test_percent(void **state)
{
	(void)state;
	assert_int_equal(gp_percent(1, 2), 500);
	assert_int_equal(gp_percent(2, 3), 667);
	assert_int_equal(gp_percent(0, 3), 0);
	assert_int_equal(gp_percent(3, 3), 1000);
	assert_true(gp_percent(3, 0) == GP_UNKNOWN);
	assert_int_equal(gp_percent(UINT64_MAX, UINT64_MAX), 1000);
}

/* ---- UTF-8 ---------------------------------------------------------------------- */

/* The encoding of every code point, and no other sequence of up to 3 bytes. */
static void test_utf8(void **state)
{
	size_t well_formed = 0;
	char s[4];

	(void)state;
	for (unsigned a = 0; a < 256; a++) {
		s[0] = (char)a;
		well_formed += gp_utf8_length(s, 1) == 1;
		for (unsigned b = 0; b < 256; b++) {
			s[1] = (char)b;
			well_formed += gp_utf8_length(s, 2) == 2;
			for (unsigned c = 0; c < 256; c++) {
				s[2] = (char)c;
				well_formed += gp_utf8_length(s, 3) == 3;
			}
		}
	}
	/* Up to U+FFFF, without the surrogates. */
	assert_int_equal(well_formed, 0x10000 - 0x800);
	well_formed = 0;
	for (unsigned a = 0xf0; a < 256; a++) {
		for (unsigned bcd = 0; bcd < 1u << 18; bcd++) {
			s[0] = (char)a;
			s[1] = (char)(0x80 | bcd >> 12);
			s[2] = (char)(0x80 | (bcd >> 6 & 0x3f));
			s[3] = (char)(0x80 | (bcd & 0x3f));
			well_formed += gp_utf8_length(s, 4) == 4;
		}
	}
	assert_int_equal(well_formed, 0x110000 - 0x10000);
	assert_int_equal(gp_utf8_length("\xf0\x9f\x98\x80", 3), 0);
	assert_int_equal(gp_utf8_length("\xf0\x9f\x98\x41", 4), 0);
	assert_int_equal(gp_utf8_length("\xf0\x9f\x41\x80", 4), 0);
	assert_int_equal(gp_utf8_length("\xf0\x41\x98\x80", 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_kinds_never_below_zero),
		cmocka_unit_test(test_kind_names),
		cmocka_unit_test(test_kinds_threads),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_utf8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
