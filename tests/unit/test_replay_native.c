/*
 * PyTorch's native rules on cases worked out by hand.
 */
#include "tests/support/replay_rig.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/replay/torch.h"

static void test_small_requests_share_2_mib(void **state)
{
	struct rig r = rig_open(&gp_policy_native, "", 0);
	struct gp_placement a = rig_alloc(&r, 1, 0);
	struct gp_placement b = rig_alloc(&r, MIB, 0), c;

	(void)state;
	assert_int_equal(rig_reserved(&r), 2);
	assert_int_equal(b.va, a.va + 512);
	/* 1 MiB - 512 B are left: not enough for a third. */
	c = rig_alloc(&r, MIB, 0);
	assert_int_equal(rig_reserved(&r), 4);
	rig_free(&r, b);
	/* The first MiB that is free again, in order of address. */
	b = rig_alloc(&r, MIB, 0);
	assert_int_equal(b.va, c.va + MIB);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_free(&r, c);
	assert_int_equal(rig_reserved(&r), 4);
	rig_close(&r);
}

static void test_sizes_of_segments(void **state)
{
	struct rig r = rig_open(&gp_policy_native, "", 0);
	struct gp_placement p[4];

	(void)state;
	p[0] = rig_alloc(&r, MIB + 1, 0);
	assert_int_equal(rig_reserved(&r), 20);
	p[1] = rig_alloc(&r, 10 * MIB - 512, 0); /* into the same */
	assert_int_equal(rig_reserved(&r), 20);
	assert_int_equal(p[1].va, p[0].va + MIB + 512);
	p[2] = rig_alloc(&r, 10 * MIB, 0); /* its own */
	assert_int_equal(rig_reserved(&r), 30);
	p[3] = rig_alloc(&r, 11 * MIB, 0); /* to 2 MiB */
	assert_int_equal(rig_reserved(&r), 42);
	for (int i = 0; i < 4; i++)
		rig_free(&r, p[i]);
	rig_close(&r);
}

static void test_a_rest_of_1_mib_is_not_split_off(void **state)
{
	struct rig r = rig_open(&gp_policy_native, "", 0);
	struct gp_placement a = rig_alloc(&r, 30 * MIB, 0), b;

	(void)state;
	rig_free(&r, a);
	a = rig_alloc(&r, 29 * MIB, 0);
	b = rig_alloc(&r, MIB + 1, 0);
	assert_int_equal(rig_reserved(&r), 50);
	rig_free(&r, b);
	rig_free(&r, a);
	/* Best fit: the 20 MiB of b, then the 30 MiB of a, split. */
	b = rig_alloc(&r, 18 * MIB, 0);
	a = rig_alloc(&r, 27 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 50);
	rig_free(&r, b);
	b = rig_alloc(&r, 2 * MIB, 0);
	assert_int_equal(b.va, a.va + 27 * MIB);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_close(&r);
}

static void test_neighbours_merge(void **state)
{
	struct rig r = rig_open(&gp_policy_native, "", 0);
	struct gp_placement p[3], whole;

	(void)state;
	whole = rig_alloc(&r, 60 * MIB, 0);
	rig_free(&r, whole);
	for (int i = 0; i < 3; i++)
		p[i] = rig_alloc(&r, 20 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 60);
	rig_free(&r, p[0]);
	rig_free(&r, p[2]);
	rig_free(&r, p[1]); /* with both sides */
	whole = rig_alloc(&r, 60 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 60);
	assert_int_equal(whole.va, p[0].va);
	rig_free(&r, whole);
	rig_close(&r);
}

static void test_a_stream_keeps_its_memory(void **state)
{
	struct rig r = rig_open(&gp_policy_native, "", 0);
	struct gp_placement a = rig_alloc(&r, 32 * MIB, 1), b;

	(void)state;
	rig_free(&r, a);
	b = rig_alloc(&r, 32 * MIB, 2);
	assert_int_equal(rig_reserved(&r), 64);
	a = rig_alloc(&r, 32 * MIB, 1);
	assert_int_equal(rig_reserved(&r), 64);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_close(&r);
}

static void test_gives_back_whole_segments_before_oom(void **state)
{
	struct rig r = rig_open(&gp_policy_native, "", 100 * MIB);
	struct gp_placement a = rig_alloc(&r, 40 * MIB, 0);
	struct gp_placement b = rig_alloc(&r, 40 * MIB, 0), c, part;

	(void)state;
	rig_free(&r, a);
	rig_free(&r, b);
	c = rig_alloc(&r, 90 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 90);
	assert_int_equal(rig_totals(&r).calls[GP_CALL_segment_free], 2);
	rig_free(&r, c);

	/* A part in use holds its whole segment: 90 + 20 do not fit. */
	part = rig_alloc(&r, 2 * MIB, 0);
	assert_int_equal(part.va, c.va);
	assert_int_equal(rig_try(&r, 89 * MIB, 0, &a), -ENOMEM);
	assert_int_equal(rig_reserved(&r), 90);
	rig_free(&r, part);
	rig_close(&r);
}

static void test_max_split_size_keeps_large_blocks_whole(void **state)
{
	struct rig r = rig_open(&gp_policy_native, "max_split_size_mb:32", 0);
	struct gp_placement a = rig_alloc(&r, 64 * MIB, 0), b, c;

	(void)state;
	rig_free(&r, a);
	b = rig_alloc(&r, 16 * MIB, 0); /* less than 32: not from it */
	assert_int_equal(rig_reserved(&r), 80);
	c = rig_alloc(&r, 44 * MIB, 0); /* 64 >= 44 + 20: too large for it */
	assert_int_equal(rig_reserved(&r), 124);
	a = rig_alloc(&r, 45 * MIB, 0); /* 64 < 45 + 20: taken, unsplit */
	assert_int_equal(rig_reserved(&r), 124);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_free(&r, c);
	rig_close(&r);
}

static void test_oversize_blocks_go_first(void **state)
{
	struct rig r =
		rig_open(&gp_policy_native, "max_split_size_mb:32", 200 * MIB);
	struct gp_placement a = rig_alloc(&r, 40 * MIB, 0);
	struct gp_placement b = rig_alloc(&r, 60 * MIB, 0);
	struct gp_placement small = rig_alloc(&r, 20 * MIB, 0);

	(void)state;
	rig_free(&r, a);
	rig_free(&r, b);
	rig_free(&r, small);
	/* 120 reserved, 90 more do not fit: the largest, then the next, until
	 * 90 are back. The 20 stay. */
	a = rig_alloc(&r, 90 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 110);
	assert_int_equal(rig_totals(&r).calls[GP_CALL_segment_free], 2);
	rig_free(&r, a);
	rig_close(&r);
}

static void test_garbage_collection_takes_the_older_half(void **state)
{
	struct rig r = rig_open(&gp_policy_native,
				"garbage_collection_threshold:0.4", 200 * MIB);
	struct gp_placement a = rig_alloc(&r, 40 * MIB, 0), b, c;

	(void)state;
	rig_free(&r, a);
	b = rig_alloc(&r, 60 * MIB, 0);
	rig_free(&r, b);
	/* 100 of 80 allowed; ages 2 and 1, mean 1.5: only the 40 go. */
	c = rig_alloc(&r, 70 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 130);
	rig_free(&r, c);
	rig_close(&r);

	/* The same with less allowed: one round does not do, both go. */
	r = rig_open(&gp_policy_native, "garbage_collection_threshold:0.25",
		     200 * MIB);
	rig_free(&r, rig_alloc(&r, 40 * MIB, 0));
	rig_free(&r, rig_alloc(&r, 60 * MIB, 0));
	c = rig_alloc(&r, 70 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 70);
	rig_free(&r, c);
	rig_close(&r);
}

static uint64_t rounded(const char *conf_text, uint64_t bytes)
{
	struct gp_driver driver = {0};
	struct gp_conf conf;
	uint64_t size;
	void *t;

	assert_int_equal(gp_conf_parse(conf_text, &conf, NULL, NULL), 0);
	assert_int_equal(torch_create(&driver, &conf, false, &t), 0);
	size = torch_round(t, bytes);
	free(t);
	return size;
}

static void test_rounding(void **state)
{
	static const char four[] = "roundup_power2_divisions:4";
	static const char list[] = "roundup_power2_divisions:[2:1,4:2,>:8]";

	(void)state;
	assert_int_equal(rounded("", 1), 512);
	assert_int_equal(rounded("", 512), 512);
	assert_int_equal(rounded("", 513), 1024);

	/* To 2 KiB by 512; then by quarters of the power of two below. */
	assert_int_equal(rounded(four, 1500), 1536);
	assert_int_equal(rounded(four, 2048), 2048);
	assert_int_equal(rounded(four, 2049), 2560);
	assert_int_equal(rounded(four, 1200 * KIB), 1280 * KIB);
	assert_int_equal(rounded(four, 1280 * KIB), 1280 * KIB);
	assert_int_equal(rounded(four, 1281 * KIB), 1536 * KIB);
	assert_int_equal(rounded(four, 64 * MIB), 64 * MIB);
	assert_int_equal(rounded(four, 65 * MIB), 80 * MIB);

	/* One division is none; below 4 MiB none, [4, 8) two, above eight. */
	assert_int_equal(rounded(list, 3 * MIB + 1), 3 * MIB + 512);
	assert_int_equal(rounded(list, 5 * MIB), 6 * MIB);
	assert_int_equal(rounded(list, 33 * MIB), 36 * MIB);
}

static void test_large_segment_size(void **state)
{
	struct rig r =
		rig_open(&gp_policy_native, "large_segment_size_mb:40", 0);
	struct gp_placement a = rig_alloc(&r, 2 * MIB, 0);

	(void)state;
	assert_int_equal(rig_reserved(&r), 40);
	rig_free(&r, a);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_requests_share_2_mib),
		cmocka_unit_test(test_sizes_of_segments),
		cmocka_unit_test(test_a_rest_of_1_mib_is_not_split_off),
		cmocka_unit_test(test_neighbours_merge),
		cmocka_unit_test(test_a_stream_keeps_its_memory),
		cmocka_unit_test(test_gives_back_whole_segments_before_oom),
		cmocka_unit_test(test_max_split_size_keeps_large_blocks_whole),
		cmocka_unit_test(test_oversize_blocks_go_first),
		cmocka_unit_test(test_garbage_collection_takes_the_older_half),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_large_segment_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
