/*
 * Why a request was refused: each answer, word for word, and what it is drawn
 * from.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "stats/report.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct gp_report report;
static struct gp_report_pool *const pool = &report.pools[0];
static struct gp_limit_stats *const limit = &report.devices[0].limit;
static struct gp_report_setting settings[4];

static void set(const char *key, const char *value)
{
	struct gp_report_setting *s = &settings[report.num_settings++];

	s->key = key;
	s->is_default = false;
	strcpy(s->value, value);
}

/* A card of 16 GiB, 1 GiB of it free; a pool with 8 GiB, 7 of them live. */
static int begin(void **state)
{
	(void)state;
	memset(&report, 0, sizeof(report));
	report.reason = GP_REPORT_OOM;
	report.settings = settings;
	report.oom = (struct gp_oom){.bytes = 3 * GIB,
				     .call = "cuMemAlloc_v2",
				     .total = GP_UNKNOWN,
				     .free = GP_UNKNOWN,
				     .own = GP_UNKNOWN,
				     .roomy_device = -1};
	report.num_pools = report.num_devices = 1;
	pool->total_bytes = 16 * GIB;
	pool->free_bytes = 1 * GIB;
	pool->stats.reserved_bytes.current = 8 * GIB;
	pool->stats.allocated_bytes.current = 7 * GIB;
	pool->stats.requested_bytes.current = 7 * GIB - 5 * MIB;
	pool->stats.allocation.current = 70;
	pool->stats.cached_bytes = 1 * GIB;
	pool->stats.largest_free_bytes = 300 * MIB;
	pool->stats.free_ranges = 31;
	limit->cap = GP_NO_LIMIT;
	limit->part[GP_PART_pool] = 8 * GIB;
	limit->part[GP_PART_context] = 512 * MIB;
	limit->held = 8 * GIB + 512 * MIB;
	return 0;
}

static struct gp_oom_view view;

static const char *answer(void)
{
	static char text[2048];

	gp_oom_judge(&report, &view);
	gp_oom_answer(&report, &view, text, sizeof(text));
	return text;
}

static void is(enum gp_oom_cause cause, const char *text)
{
	const char *got = answer();

	assert_string_equal(got, text);
	assert_int_equal(view.cause, cause);
}

static void ends(const char *text)
{
	const char *got = answer();
	size_t n = strlen(got), m = strlen(text);

	if (n < m || strcmp(got + n - m, text))
		fail_msg("no '%s' at the end of: %s", text, got);
}

static void has(const char *text)
{
	if (!strstr(answer(), text))
		fail_msg("no '%s' in: %s", text, answer());
}

static void lacks(const char *text)
{
	if (strstr(answer(), text))
		fail_msg("'%s' in: %s", text, answer());
}

/* ---- the answers ----------------------------------------------------------- */

static void test_larger_than_the_card(void **state)
{
	(void)state;
	report.oom.bytes = 26 * GIB;
	is(GP_OOM_OVER_DEVICE,
	   "cuMemAlloc_v2 asked for 26.00 GiB on device 0, a card of 16.00 "
	   "GiB: "
	   "no setting helps, the request alone exceeds the card.");
	/* Whoever refused. */
	report.oom.by_limit = true;
	limit->cap = 4 * GIB;
	answer();
	assert_int_equal(view.cause, GP_OOM_OVER_DEVICE);
	/* All of the card is not more than it. */
	report.oom.bytes = 16 * GIB;
	answer();
	assert_int_equal(view.cause, GP_OOM_OVER_LIMIT);
}

static void test_larger_than_the_limit(void **state)
{
	(void)state;
	report.oom.by_limit = true;
	report.oom.bytes = 10 * GIB;
	limit->cap = 9 * GIB;
	set("memory_limit", "9GiB");
	is(GP_OOM_OVER_LIMIT,
	   "cuMemAlloc_v2 asked for 10.00 GiB on device 0, where this process "
	   "may take 9.00 GiB: the request alone exceeds its limit "
	   "(memory_limit).");
	/* The card would have had it. */
	pool->free_bytes = 10 * GIB;
	ends("memory_limit:17920MiB would have helped.");
}

static void test_limit(void **state)
{
	(void)state;
	report.oom.by_limit = true;
	limit->cap = 9 * GIB;
	pool->free_bytes = 6 * GIB;
	set("per_process_memory_fraction", "0.56");
	is(GP_OOM_LIMIT,
	   "cuMemAlloc_v2 asked for 3.00 GiB on device 0: the limit of this "
	   "process (per_process_memory_fraction) left no room for it. It may "
	   "take 9.00 GiB and holds 8.50 GiB: 7.00 GiB live in the pool, "
	   "1.00 GiB cached in 31 pieces, the largest 300.00 MiB, 512.00 MiB "
	   "for contexts. The card itself was not asked; it has 6.00 GiB free. "
	   "per_process_memory_fraction:0.66 would have helped.");
	/* A higher one would not have. */
	pool->free_bytes = 2 * GIB;
	ends("it has 2.00 GiB free, which would not do either.");
	/* Set from inside: there is no setting to name. */
	report.num_settings = 0;
	pool->free_bytes = 6 * GIB;
	has("(set while it ran)");
	ends("it has 6.00 GiB free.");
	/* What it holds outside is told. */
	limit->part[GP_PART_managed] = 200 * MIB;
	limit->held += 200 * MIB;
	has(", outside it 200.00 MiB managed memory (cudaMallocManaged), "
	    "512.00 MiB for contexts.");
}

static void test_bad_limit(void **state)
{
	(void)state;
	report.oom.by_limit = true;
	limit->cap = 0;
	is(GP_OOM_BAD_LIMIT,
	   "cuMemAlloc_v2 asked for 3.00 GiB on device 0: this process gets no "
	   "device memory, because its limit cannot be read, or is nothing.");
}

/* 4 GiB are free in pieces. */
static void in_pieces(void)
{
	pool->stats.allocated_bytes.current = 4 * GIB;
	pool->stats.requested_bytes.current = 4 * GIB;
	pool->stats.cached_bytes = 4 * GIB;
	pool->stats.free_ranges = 312;
}

static void test_fragmented(void **state)
{
	(void)state;
	in_pieces();
	is(GP_OOM_FRAGMENTED,
	   "cuMemAlloc_v2 asked for 3.00 GiB on device 0: there is that much, "
	   "but in pieces. 1.00 GiB free on the card, and 4.00 GiB cached in "
	   "312 "
	   "pieces, the largest 300.00 MiB: fragmentation. Remapping was on, "
	   "but "
	   "the pieces lie beside live memory in the same physical handles, "
	   "and "
	   "cannot be joined.");
	pool->no_remap = "expandable_segments is False";
	pool->could_remap = true;
	ends("fragmentation. Remapping was off because expandable_segments is "
	     "False. expandable_segments:True would have helped.");
	/* No setting gives the device what it lacks. */
	pool->no_remap = "the device offers no virtual memory";
	pool->could_remap = false;
	ends("Remapping was off because the device offers no virtual memory.");
}

static void test_fragmented_under_the_limit(void **state)
{
	(void)state;
	in_pieces();
	report.oom.by_limit = true;
	limit->cap = 9 * GIB;
	pool->no_remap = "expandable_segments is False";
	pool->could_remap = true;
	has("512.00 MiB under the limit, and 4.00 GiB cached in 312 pieces");
	assert_int_equal(view.cause, GP_OOM_FRAGMENTED);
	/* Nearly all of it is live: a few pieces are not the reason. */
	limit->cap = 8 * GIB + 600 * MIB;
	pool->stats.allocated_bytes.current = 8 * GIB - 8 * MIB;
	pool->stats.cached_bytes = 8 * MIB;
	report.oom.bytes = 64 * MIB;
	answer();
	assert_int_equal(view.cause, GP_OOM_LIMIT);
}

static void test_other_processes(void **state)
{
	(void)state;
	pool->free_bytes = 512 * MIB;
	pool->stats.reserved_bytes.current = 3 * GIB;
	pool->stats.allocated_bytes.current = 2 * GIB;
	limit->part[GP_PART_pool] = 3 * GIB;
	limit->held = 3 * GIB + 512 * MIB;
	is(GP_OOM_OTHERS,
	   "cuMemAlloc_v2 asked for 3.00 GiB on device 0: other processes hold "
	   "12.00 GiB of the card's 16.00 GiB. Which they are cannot be seen "
	   "from here. This process has 2.00 GiB live in the pool, 1.00 GiB "
	   "cached, 0 B outside it; 512.00 MiB are free.");
	/* What NVML says of this process is more than what is known here. */
	report.oom.own = 4 * GIB;
	report.oom.num_others = 2;
	report.oom.others[0] = (struct gp_oom_other){.pid = 77,
						     .name = "python3",
						     .bytes = 10 * GIB,
						     .cached = 4 * GIB};
	report.oom.others[1] =
		(struct gp_oom_other){.pid = 78, .bytes = GP_UNKNOWN};
	has("other processes hold 11.50 GiB of the card's 16.00 GiB: pid 77 "
	    "(python3) 10.00 GiB; pid 78. This process");
	ends("512.00 MiB are free. Of what they hold, 4.00 GiB are only "
	     "cached.");
	set("neighbour_wait", "0");
	ends("only cached. neighbour_wait:200 would have helped.");
	/* Not if it is on already. */
	report.num_settings = 0;
	set("neighbour_wait", "200");
	ends("only cached.");
	/* Nor if what they cache is too little. */
	report.num_settings = 0;
	set("neighbour_wait", "0");
	report.oom.others[0].cached = 1 * GIB;
	ends("1.00 GiB are only cached.");
}

/* Where nobody measured the contexts they are among the rest. */
static void test_contexts_not_known(void **state)
{
	(void)state;
	limit->part[GP_PART_context] = 0;
	limit->held = 3 * GIB;
	pool->stats.reserved_bytes.current = 3 * GIB;
	pool->stats.allocated_bytes.current = 2 * GIB;
	limit->part[GP_PART_pool] = 3 * GIB;
	has("other processes (and contexts of this one) hold 12.00 GiB");
}

static void test_outside(void **state)
{
	(void)state;
	pool->stats.reserved_bytes.current = 2 * GIB;
	pool->stats.allocated_bytes.current = 1 * GIB;
	limit->part[GP_PART_pool] = 2 * GIB;
	limit->part[GP_PART_plain] = 5 * GIB;
	limit->part[GP_PART_async] = 7 * GIB;
	limit->held = 14 * GIB + 512 * MIB;
	is(GP_OOM_OUTSIDE,
	   "cuMemAlloc_v2 asked for 3.00 GiB on device 0: this process holds "
	   "12.00 GiB of the card's 16.00 GiB outside the pool, where it "
	   "cannot "
	   "be cached or moved: 5.00 GiB cuMemAlloc passed through to the "
	   "driver, 7.00 GiB pools of cudaMallocAsync, what they reserve. The "
	   "pool has 1.00 GiB live and 1.00 GiB cached; 1.00 GiB are free.");
}

static void all_live(void)
{
	pool->free_bytes = 256 * MIB;
	pool->stats.reserved_bytes.current = 15 * GIB;
	pool->stats.allocated_bytes.current = 14 * GIB;
	limit->part[GP_PART_pool] = 15 * GIB;
	limit->held = 15 * GIB + 512 * MIB;
}

static void test_live(void **state)
{
	(void)state;
	all_live();
	is(GP_OOM_LIVE,
	   "cuMemAlloc_v2 asked for 3.00 GiB on device 0: the program itself "
	   "holds 14.00 GiB live, in 70 allocations. That is no matter of the "
	   "allocator: of the card's 16.00 GiB, 256.00 MiB are free and 1.00 "
	   "GiB "
	   "cached. stacks:sample tells which lines hold it.");
	report.program_caches = true;
	ends("Live is here also what PyTorch keeps in its own cache.");
}

static void test_live_and_where(void **state)
{
	(void)state;
	all_live();
	report.has_sites = true;
	report.num_sites = 1;
	report.sites[0].bytes = 13 * GIB;
	report.sites[0].blocks = 1;
	report.sites[0].stack.python = 1;
	report.sites[0].stack.frames[0] =
		gp_frame_at(gp_place("train.py", "step"), 12);
	ends("cached. Most of it, 13.00 GiB in 1 allocation, comes from "
	     "train.py:12 in step.");
}

/* Rounding that could be switched off, and would have been enough. */
static void test_rounding(void **state)
{
	(void)state;
	all_live();
	report.oom.bytes = 2 * GIB;
	pool->stats.requested_bytes.current = 13 * GIB;
	set("roundup_power2_divisions", "1");
	ends("roundup_power2_divisions:off would have helped.");
	pool->stats.requested_bytes.current = 14 * GIB - 100 * MIB;
	lacks("would have helped");
	report.num_settings = 0;
	lacks("would have helped");
}

static void test_driver_refused(void **state)
{
	(void)state;
	pool->free_bytes = 4 * GIB;
	is(GP_OOM_DRIVER,
	   "cuMemAlloc_v2 asked for 3.00 GiB on device 0: 4.00 GiB free and "
	   "1.00 GiB cached would be enough, and the driver refused all the "
	   "same.");
}

static void test_nobody_said(void **state)
{
	(void)state;
	pool->free_bytes = GP_UNKNOWN;
	is(GP_OOM_UNKNOWN,
	   "cuMemAlloc_v2 asked for 3.00 GiB on device 0: how much memory the "
	   "device has free could not be asked.");
	report.oom.free = 1 * GIB;
	answer();
	assert_int_equal(view.cause, GP_OOM_LIVE);
	/* On a device where the process has nothing. */
	report.oom.device = 5;
	report.oom.free = GP_UNKNOWN;
	answer();
	assert_int_equal(view.cause, GP_OOM_UNKNOWN);
	assert_int_equal(view.pools, 0);
}

/* ---- who is it? -------------------------------------------------------------- */

/* Whoever holds most, if without it there would have been enough. */
static void test_the_largest_is_named(void **state)
{
	(void)state;
	/* 7 live, 5.5 GiB of others, none outside. */
	answer();
	assert_int_equal(view.cause, GP_OOM_LIVE);
	limit->part[GP_PART_managed] = 1 * GIB;
	limit->held += 1 * GIB;
	answer();
	assert_int_equal(view.cause, GP_OOM_LIVE);
	/* Live memory is most, and yet would not do. */
	report.oom.bytes = 15 * GIB;
	pool->stats.reserved_bytes.current = 7 * GIB;
	pool->stats.allocated_bytes.current = 6 * GIB;
	limit->part[GP_PART_pool] = 7 * GIB;
	limit->held = 7 * GIB + 512 * MIB;
	answer();
	assert_int_equal(view.cause, GP_OOM_OTHERS);
}

static void test_full_is_not_fragmented(void **state)
{
	(void)state;
	all_live();
	report.oom.bytes = 300 * MIB;
	pool->stats.cached_bytes = 100 * MIB;
	pool->stats.largest_free_bytes = 2 * MIB;
	pool->stats.allocated_bytes.current = 15 * GIB - 100 * MIB;
	answer();
	assert_int_equal(view.cause, GP_OOM_LIVE);
}

static void test_another_device(void **state)
{
	(void)state;
	all_live();
	report.oom.roomy_device = 1;
	report.oom.roomy_free = 12 * GIB;
	ends("hold it. Device 1 has 12.00 GiB free.");
}

static void test_two_contexts(void **state)
{
	(void)state;
	report.pools[1] = report.pools[0];
	report.num_pools = 2;
	report.pools[1].stats.largest_free_bytes = 700 * MIB;
	report.pools[1].free_bytes = GP_UNKNOWN;
	answer();
	assert_int_equal(view.reserved, 16 * GIB);
	assert_int_equal(view.largest, 700 * MIB);
	assert_int_equal(view.free, 1 * GIB);
	assert_int_equal(view.pools, 2);
	/* The other device's is left out. */
	report.pools[1].device = 1;
	answer();
	assert_int_equal(view.reserved, 8 * GIB);
}

static void test_cut_at_the_end(void **state)
{
	char text[40];

	(void)state;
	gp_oom_judge(&report, &view);
	gp_oom_answer(&report, &view, text, sizeof(text));
	assert_string_equal(text, "cuMemAlloc_v2 asked for 3.00 GiB on dev");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, begin)
	const struct CMUnitTest tests[] = {
		T(test_larger_than_the_card),
		T(test_larger_than_the_limit),
		T(test_limit),
		T(test_bad_limit),
		T(test_fragmented),
		T(test_fragmented_under_the_limit),
		T(test_other_processes),
		T(test_contexts_not_known),
		T(test_outside),
		T(test_live),
		T(test_live_and_where),
		T(test_rounding),
		T(test_driver_refused),
		T(test_nobody_said),
		T(test_the_largest_is_named),
		T(test_full_is_not_fragmented),
		T(test_another_device),
		T(test_two_contexts),
		T(test_cut_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
