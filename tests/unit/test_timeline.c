/*
 * The curve over a run: bounded, true to what changed, and sections.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "stats/sections.h"
#include "stats/timeline.h"

#define MIB ((uint64_t)1 << 20)
#define MS  ((uint64_t)1000000)

static struct gp_timeline timeline;

static int set_up(void **state)
{
	(void)state;
	memset(&timeline, 0, sizeof(timeline));
	return 0;
}

/* What the curve says of a moment, on the line between two points. */
static double at(uint64_t ns)
{
	const struct gp_timeline_point *p = timeline.points;
	size_t i = 1;

	while (i + 1 < timeline.n && p[i].ns < ns)
		i++;
	double span = (double)(p[i].ns - p[i - 1].ns);
	double share = span > 0 ? ((double)ns - (double)p[i - 1].ns) / span : 0;

	return (double)p[i - 1].allocated +
	       ((double)p[i].allocated - (double)p[i - 1].allocated) * share;
}

static void rises_with_the_clock(void)
{
	for (size_t i = 1; i < timeline.n; i++)
		assert_true(timeline.points[i].ns >= timeline.points[i - 1].ns);
}

static void what_is_flat_takes_two_points(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		gp_timeline_add(&timeline, i * MS, 5 * MIB, 8 * MIB);
	assert_int_equal(timeline.n, 2);
	assert_int_equal(timeline.points[0].ns, 0);
	assert_int_equal(timeline.points[1].ns, 99999 * MS);
	gp_timeline_add(&timeline, 100000 * MS, 6 * MIB, 8 * MIB);
	assert_int_equal(timeline.n, 3);
}

/* A long ramp with one step in it, and a peak of a moment: a hundred times
 * more points than there is room for. */
static uint64_t shape(uint64_t i)
{
	if (i == 30000)
		return 900 * MIB;
	return i * 1000 + (i >= 40000 ? 300 * MIB : 0) + i % 7 * 4096;
}

/* How far the curve is off at a moment: from the least to the highest there was
 * in so many ms around it. */
static double off_by(uint64_t i, uint64_t around)
{
	double least = (double)shape(i), most = least, on = at(i * MS);

	for (uint64_t j = i < around ? 0 : i - around; j <= i + around; j++) {
		double there = (double)shape(j);

		least = there < least ? there : least;
		most = there > most ? there : most;
	}
	return on < least ? least - on : on > most ? on - most : 0;
}

static void what_changes_is_kept(void **state)
{
	const uint64_t n = 51200;
	uint64_t highest = 0;
	double worst = 0;

	(void)state;
	for (uint64_t i = 0; i < n; i++)
		gp_timeline_add(&timeline, i * MS, shape(i), 1000 * MIB);
	assert_true(timeline.n <= GP_TIMELINE_POINTS);
	assert_true(timeline.n > GP_TIMELINE_POINTS / 2);
	rises_with_the_clock();
	for (size_t i = 0; i < timeline.n; i++)
		if (timeline.points[i].allocated > highest)
			highest = timeline.points[i].allocated;
	assert_int_equal(highest, 900 * MIB);
	for (uint64_t i = 0; i < n; i++) {
		double off = off_by(i, n / 1024);

		worst = off > worst ? off : worst;
	}
	/* Of 900 MiB; the little that goes to and fro is 24 KiB. */
	assert_true(worst < 1.0 * (double)MIB);
	assert_int_equal(timeline.points[0].ns, 0);
	assert_int_equal(timeline.points[timeline.n - 1].ns, (n - 1) * MS);
}

/* A burst late in the run does not cost the picture of its beginning. */
static void bursts_do_not_take_all_the_room(void **state)
{
	size_t early = 0;

	(void)state;
	for (uint64_t i = 0; i < 200; i++)
		gp_timeline_add(&timeline, i * 1000 * MS,
				(i % 2 ? 500 : 100) * MIB, 600 * MIB);
	for (uint64_t i = 0; i < 20000; i++)
		gp_timeline_add(&timeline, 200000 * MS + i * 10 * MS,
				(i % 2 ? 500 : 100) * MIB, 600 * MIB);
	assert_int_equal(timeline.n, GP_TIMELINE_POINTS);
	for (size_t i = 0; i < timeline.n; i++)
		early += timeline.points[i].ns < 200000 * MS;
	assert_true(early >= 190);
}

/* Nor does one that is over at once take any room. What it came from, its peak
 * and where it ends are there; and nothing before is bent. */
static void a_moment_takes_three_points(void **state)
{
	const struct gp_timeline_point *last;

	(void)state;
	gp_timeline_add(&timeline, 0, 100 * MIB, 600 * MIB);
	gp_timeline_add(&timeline, 1000 * MS, 200 * MIB, 600 * MIB);
	gp_timeline_add(&timeline, 100000 * MS, 200 * MIB, 600 * MIB);
	for (uint64_t i = 1; i <= 1000; i++)
		gp_timeline_add(&timeline, 100000 * MS + i * 1000,
				(i == 500 ? 900
				 : i % 2  ? 500
					  : 300) *
					MIB,
				600 * MIB);
	assert_int_equal(timeline.n, 5);
	last = &timeline.points[4];
	assert_int_equal(last[-2].ns, 100000 * MS);
	assert_int_equal(last[-2].allocated, 200 * MIB);
	assert_int_equal(last[-1].ns, 100000 * MS + 500 * 1000);
	assert_int_equal(last[-1].allocated, 900 * MIB);
	assert_int_equal(last->ns, 100001 * MS);
	assert_int_equal(last->allocated, 300 * MIB);
}

/* Which point was dropped for the newest one; 0: none was, or the last ones
 * became one. */
static size_t dropped(const struct gp_timeline *was)
{
	const size_t n = GP_TIMELINE_POINTS;
	size_t i = 1;

	if (was->n < n || timeline.n < n)
		return 0;
	while (i < n - 1 && !memcmp(&timeline.points[i], &was->points[i],
				    sizeof(was->points[i])))
		i++;
	return !memcmp(&timeline.points[i], &was->points[i + 1],
		       (n - 1 - i) * sizeof(was->points[i]))
		       ? i
		       : 0;
}

/* No other point was missed less. Of equal ones the earlier went. */
static void assert_least(const struct gp_timeline *was, size_t which)
{
	double width =
		(double)(was->points[was->n - 1].ns - was->points[0].ns) /
		GP_TIMELINE_POINTS;
	double least = was->off[which] * (was->span[which] + width);

	for (size_t i = 1; i + 1 < was->n; i++) {
		double area = was->off[i] * (was->span[i] + width);

		if (i < which && least == 0)
			assert_true(area > 0);
		assert_true(area >= least * (1 - 1e-9));
	}
}

static uint64_t random_number(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static uint64_t level(unsigned kind, uint64_t i, uint64_t before)
{
	switch (kind) {
	case 0:
		return random_number() % 4096 * 65536;
	case 1:
		return i * 4096; /* nothing is missed */
	case 2:
		return i / 50 % 2 ? before : i % 2 * MIB;
	default:
		return i % 1000 ? before + random_number() % 3 * 4096 : 0;
	}
}

static void check_which_goes(unsigned kind, bool crowded)
{
	static struct gp_timeline was;
	uint64_t ns = 100000, bytes = 0;
	unsigned seen = 0;

	memset(&timeline, 0, sizeof(timeline));
	for (uint64_t i = 0; i < 8000; i++) {
		ns += crowded ? 500 + random_number() % 1000 : ns / 300 + i % 5;
		bytes = level(kind, i, bytes);
		was = timeline;
		gp_timeline_add(&timeline, ns, bytes,
				1000 * MIB + i / 64 * 4096);
		size_t which = dropped(&was);

		if (which && (!crowded || which < GP_TIMELINE_POINTS - 2)) {
			assert_least(&was, which);
			seen++;
		}
	}
	assert_true(seen > (crowded ? 500 : 4000));
}

/* Most are dropped without a look at all: it is the same one all the same. */
static void what_is_missed_least_goes(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 4; kind++) {
		check_which_goes(kind, false);
		check_which_goes(kind, true);
	}
}

static void times_that_are_equal_do_no_harm(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 2000; i++)
		gp_timeline_add(&timeline, 7, i % 5, i % 3);
	assert_true(timeline.n <= GP_TIMELINE_POINTS);
	rises_with_the_clock();
}

static void sections(void **state)
{
	static struct gp_section_row rows[GP_SECTION_ROWS];
	char name[100];
	size_t n;

	(void)state;
	gp_sections_note(0, 99, 99); /* in none */
	assert_int_equal(gp_sections_get(rows, 0), 0);
	assert_int_equal(gp_sections_enter("load", 100), 0);
	gp_sections_note(0, 10, 20);
	gp_sections_note(1, 5, 6);
	assert_int_equal(gp_sections_enter("train", 150), 0);
	gp_sections_note(0, 70, 80);
	gp_sections_note(0, 60, 90);
	assert_int_equal(gp_sections_enter("load", 1000), 0);
	gp_sections_note(0, 11, 19);
	n = gp_sections_get(rows, 1007);
	assert_int_equal(n, 3);
	assert_string_equal(rows[0].name, "load");
	assert_int_equal(rows[0].device, 0);
	assert_int_equal(rows[0].times, 2);
	assert_int_equal(rows[0].ns, 57);
	assert_int_equal(rows[0].allocated, 11);
	assert_int_equal(rows[0].reserved, 20);
	assert_true(rows[0].open);
	assert_int_equal(rows[1].device, 1);
	assert_int_equal(rows[1].allocated, 5);
	assert_string_equal(rows[2].name, "train");
	assert_int_equal(rows[2].allocated, 70);
	assert_int_equal(rows[2].reserved, 90);
	assert_int_equal(rows[2].ns, 850);
	assert_false(rows[2].open);
	assert_int_equal(gp_sections_enter("", 1010), 0);
	gp_sections_note(0, 1000, 1000);
	assert_int_equal(gp_sections_get(rows, 2000), 3);
	assert_int_equal(rows[0].allocated, 11);
	assert_int_equal(rows[0].ns, 60);

	/* Cut, with a whole character at the end; then no more room. */
	memset(name, 'x', sizeof(name));
	strcpy(name + 46, "\xc3\xa4 and more");
	assert_int_equal(gp_sections_enter(name, 3000), 0);
	gp_sections_note(0, 1, 1);
	n = gp_sections_get(rows, 3000);
	assert_int_equal(strlen(rows[n - 1].name), 46);
	for (int i = 3; i < GP_SECTIONS; i++) {
		snprintf(name, sizeof(name), "section %d", i);
		assert_int_equal(gp_sections_enter(name, 3000), 0);
	}
	assert_int_equal(gp_sections_enter("one too many", 3000), -ENOSPC);
	gp_sections_note(0, 5000, 5000);
	n = gp_sections_get(rows, 3000);
	for (size_t i = 0; i < n; i++)
		assert_true(rows[i].allocated < 5000 && !rows[i].open);
	assert_int_equal(gp_sections_enter("train", 4000), 0);
	for (int device = 1; device < 1000; device++)
		gp_sections_note(device, 1, 1);
	assert_int_equal(gp_sections_get(rows, 4000), GP_SECTION_ROWS);
	gp_sections_enter(NULL, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
		TEST(what_is_flat_takes_two_points),
		TEST(what_changes_is_kept),
		TEST(bursts_do_not_take_all_the_room),
		TEST(a_moment_takes_three_points),
		TEST(what_is_missed_least_goes),
		TEST(times_that_are_equal_do_no_harm),
		TEST(sections),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
