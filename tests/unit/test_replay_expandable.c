/*
 * PyTorch's expandable segments, and the chunk and buddy yardsticks, on cases
 * worked out by hand.
 */
#include "tests/support/replay_rig.h"

#include <errno.h>

static void test_pages_come_as_needed(void **state)
{
	struct rig r = rig_open(&gp_policy_expandable, "", 0);
	struct gp_placement a = rig_alloc(&r, MIB + 1, 0), b, c;

	(void)state;
	assert_int_equal(rig_reserved(&r), 20);
	/* 18.9995 MiB are free at the end: one more page makes 25. */
	b = rig_alloc(&r, 25 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 40);
	assert_int_equal(b.va, a.va + MIB + 512);
	c = rig_alloc(&r, MIB, 0); /* the small pool's pages are 2 MiB */
	assert_int_equal(rig_reserved(&r), 42);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_free(&r, c);
	rig_close(&r);
}

static void test_a_free_block_grows_in_place(void **state)
{
	struct rig r = rig_open(&gp_policy_expandable, "", 0);
	struct gp_placement a = rig_alloc(&r, 100 * MIB, 0), b;

	(void)state;
	rig_free(&r, a);
	b = rig_alloc(&r, 130 * MIB, 0);
	assert_int_equal(b.va, a.va);
	assert_int_equal(rig_reserved(&r), 140);
	assert_int_equal(rig_totals(&r).calls[GP_CALL_create], 7);
	assert_int_equal(rig_totals(&r).calls[GP_CALL_set_access], 2);
	rig_free(&r, b);
	rig_close(&r);
}

/* The end of a segment counts as large as it can become: a hole that fits is
 * taken first, although the end's free bytes would fit better. */
static void test_holes_before_the_end(void **state)
{
	struct rig r = rig_open(&gp_policy_expandable, "", 0);
	struct gp_placement hole = rig_alloc(&r, 30 * MIB, 0);
	struct gp_placement wall = rig_alloc(&r, 5 * MIB, 0), a;

	(void)state;
	rig_free(&r, hole); /* 30 free, 5 held, 5 free and room behind */
	a = rig_alloc(&r, 4 * MIB, 0);
	assert_int_equal(a.va, hole.va);
	rig_free(&r, a);
	rig_free(&r, wall);
	rig_close(&r);
}

static void test_each_stream_has_a_segment(void **state)
{
	struct rig r = rig_open(&gp_policy_expandable, "", 0);
	struct gp_placement a = rig_alloc(&r, 15 * MIB, 1);
	struct gp_placement b = rig_alloc(&r, 15 * MIB, 2);

	(void)state;
	assert_int_equal(rig_reserved(&r), 40);
	assert_int_equal(rig_totals(&r).calls[GP_CALL_reserve], 2);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_close(&r);
}

static void test_free_pages_go_back_before_oom(void **state)
{
	struct rig r = rig_open(&gp_policy_expandable, "", 200 * MIB);
	struct gp_placement a = rig_alloc(&r, 40 * MIB, 0);
	struct gp_placement b = rig_alloc(&r, 120 * MIB, 0), c;

	(void)state;
	rig_free(&r, a);
	/* Behind b three pages are needed, two are left: a's two go back. */
	c = rig_alloc(&r, 60 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 180);
	assert_int_equal(c.va, b.va + 120 * MIB);
	assert_int_equal(rig_totals(&r).calls[GP_CALL_unmap], 2);
	assert_int_equal(rig_totals(&r).calls[GP_CALL_sync], 1);

	/* One page is left: refused, and what is held stays as it was. */
	assert_int_equal(rig_try(&r, 40 * MIB, 0, &a), -ENOMEM);
	assert_int_equal(rig_reserved(&r), 180);
	rig_free(&r, c);

	/* Its end grows by the last page. */
	a = rig_alloc(&r, 61 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 200);
	assert_int_equal(a.va, c.va);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_close(&r);
}

static void test_a_page_in_use_stays(void **state)
{
	struct rig r = rig_open(&gp_policy_expandable, "", 100 * MIB);
	struct gp_placement a = rig_alloc(&r, 30 * MIB, 0);
	struct gp_placement b = rig_alloc(&r, 10 * MIB, 0), c;

	(void)state;
	rig_free(&r, a);
	/* 70 MiB behind b are four pages; of a only the first is wholly
	 * free: 20 + 80. */
	c = rig_alloc(&r, 70 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 100);
	assert_int_equal(rig_totals(&r).calls[GP_CALL_unmap], 1);
	/* The other 10 of a are still free memory. */
	a = rig_alloc(&r, 10 * MIB, 0);
	assert_int_equal(a.va, b.va - 10 * MIB);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_free(&r, c);
	rig_close(&r);
}

static void test_chunks(void **state)
{
	struct rig r = rig_open(&gp_policy_chunk, "", 70 * MIB);
	struct gp_placement p[4], a;

	(void)state;
	for (int i = 0; i < 4; i++)
		p[i] = rig_alloc(&r, 5 * MIB, (uint32_t)i);
	assert_int_equal(rig_reserved(&r), 20);
	a = rig_alloc(&r, 1, 0);
	assert_int_equal(rig_reserved(&r), 40);
	rig_free(&r, a);
	for (int i = 0; i < 4; i++)
		rig_free(&r, p[i]);
	/* Chunks do not join: three in a row come from the driver, and both
	 * others go back for that. */
	a = rig_alloc(&r, 50 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 60);
	assert_int_equal(rig_try(&r, 60 * MIB, 0, &p[0]), -ENOMEM);
	rig_free(&r, a);
	rig_close(&r);
}

static void test_buddies(void **state)
{
	struct rig r = rig_open(&gp_policy_buddy, "", 100 * MIB);
	struct gp_placement a = rig_alloc(&r, 3 * MIB, 0), b, c;

	(void)state;
	assert_int_equal(rig_reserved(&r), 32);
	b = rig_alloc(&r, 4 * MIB, 0);
	assert_int_equal(b.va, a.va + 4 * MIB);
	c = rig_alloc(&r, 16 * MIB, 0);
	assert_int_equal(c.va, a.va + 16 * MIB);
	assert_int_equal(rig_reserved(&r), 32);
	rig_free(&r, a);
	rig_free(&r, c);
	rig_free(&r, b); /* all halves join again */
	a = rig_alloc(&r, 32 * MIB, 0);
	assert_int_equal(rig_reserved(&r), 32);
	b = rig_alloc(&r, 33 * MIB, 0); /* a power of two of its own */
	assert_int_equal(rig_reserved(&r), 96);
	assert_int_equal(rig_try(&r, 1, 0, &c), -ENOMEM);
	rig_free(&r, a);
	rig_free(&r, b);
	rig_close(&r);
}

/* Whatever the policy: blocks are disjoint, and at the end all is given
 * back. */
static void random_steps(const struct gp_policy *policy, const char *conf)
{
	enum { BLOCKS = 200 };
	struct gp_placement at[BLOCKS];
	uint64_t bytes[BLOCKS] = {0}, rng = 88172645463325252ull;
	struct rig r = rig_open(policy, conf, 160 * MIB);
	int step, i, j, refused = 0;

	for (step = 0; step < 4000; step++) {
		rng ^= rng << 13;
		rng ^= rng >> 7;
		rng ^= rng << 17;
		i = (int)(rng % BLOCKS);
		if (bytes[i]) {
			rig_free(&r, at[i]);
			bytes[i] = 0;
			continue;
		}
		bytes[i] = 1 + (rng >> 20) % (1ull << (8 + (rng >> 10) % 18));
		if (rig_try(&r, bytes[i], (uint32_t)(rng >> 60) % 3, &at[i])) {
			bytes[i] = 0;
			refused++;
			continue;
		}
		for (j = 0; j < BLOCKS; j++) {
			if (j == i || !bytes[j])
				continue;
			assert_true(at[i].va + bytes[i] <= at[j].va ||
				    at[j].va + bytes[j] <= at[i].va);
		}
	}
	/* The limit was reached, and not all the time. */
	assert_in_range(refused, 1, 1000);
	for (i = 0; i < BLOCKS; i++) {
		if (bytes[i])
			rig_free(&r, at[i]);
	}
	rig_close(&r);
}

static void test_random_steps(void **state)
{
	(void)state;
	random_steps(&gp_policy_native, "");
	random_steps(&gp_policy_native,
		     "max_split_size_mb:24,garbage_collection_threshold:0.6,"
		     "roundup_power2_divisions:8");
	random_steps(&gp_policy_expandable, "");
	random_steps(&gp_policy_chunk, "");
	random_steps(&gp_policy_buddy, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_come_as_needed),
		cmocka_unit_test(test_a_free_block_grows_in_place),
		cmocka_unit_test(test_holes_before_the_end),
		cmocka_unit_test(test_each_stream_has_a_segment),
		cmocka_unit_test(test_free_pages_go_back_before_oom),
		cmocka_unit_test(test_a_page_in_use_stays),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_buddies),
		cmocka_unit_test(test_random_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
