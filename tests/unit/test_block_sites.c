/*
 * The stacks of live blocks as a report has them: each once, each frame once,
 * and no more of them than there is room for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "stats/block_sites.h"

static struct gp_block_sites sites;

static struct gp_stack stack_of(uint64_t inner, uint64_t outer)
{
	struct gp_stack stack = {.python = 1, .native = 2};

	stack.frames[0] = inner;
	stack.frames[1] = outer;
	stack.frames[2] = 0x1000;
	return stack;
}

/* A block that these frames allocated, as the layout has it. */
static struct gp_layout_range block_of(uint64_t address, uint64_t inner,
				       uint64_t outer)
{
	struct gp_stack stack = stack_of(inner, outer);

	assert_true(
		gp_sites_add(address, 1, &stack, (struct gp_weight){1, 1}, 1));
	return (struct gp_layout_range){address, 512, 500, 1,
					gp_sites_number(address)};
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
	gp_block_sites_clear(&sites);
	return 0;
}

static void has(uint64_t site, const uint64_t *frames, size_t n)
{
	size_t from = site ? sites.ends[site - 1] : 0;

	assert_true(site < sites.num_sites);
	assert_int_equal(sites.ends[site] - from, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(sites.frames[sites.stacks[from + i]],
				 frames[i]);
}

static void test_numbers_of_sites(void **state)
{
	struct gp_stack stack = stack_of(5, 6), found;

	(void)state;
	gp_sites_add(0x200, 1, &stack, (struct gp_weight){1, 1}, 1);
	gp_sites_add(0x400, 1, &stack, (struct gp_weight){1, 1}, 1);
	assert_int_not_equal(gp_sites_number(0x200), 0);
	assert_int_equal(gp_sites_number(0x200), gp_sites_number(0x400));
	assert_int_equal(gp_sites_number(0x600), 0);
	assert_int_equal(gp_sites_number(0), 0);
	gp_sites_numbered(gp_sites_number(0x200), &found);
	assert_memory_equal(&found, &stack, sizeof(stack));
	gp_sites_numbered(0, &found);
	assert_int_equal(found.python + found.native, 0);
	gp_sites_remove(0x200);
	assert_int_equal(gp_sites_number(0x200), 0);
}

static void test_each_once(void **state)
{
	struct gp_layout_range first[] = {
		block_of(0x200, 5, 6),
		{0x400, 512, 512, 1, 0},
		block_of(0x600, 7, 6),
		block_of(0x800, 5, 6),
	};
	struct gp_layout_range second[] = {block_of(0x10000, 7, 6)};

	(void)state;
	gp_block_sites_add(&sites, first, 4);
	gp_block_sites_add(&sites, second, 1);
	assert_int_equal(sites.num_sites, 3);
	assert_int_equal(sites.num_frames, 4);
	assert_int_equal(sites.left_out, 0);
	assert_int_equal(first[0].site, 1);
	assert_int_equal(first[1].site, 0);
	assert_int_equal(first[2].site, 2);
	assert_int_equal(first[3].site, 1);
	assert_int_equal(second[0].site, 2);
	has(0, NULL, 0);
	has(1, (const uint64_t[]){5, 6, 0x1000}, 3);
	has(2, (const uint64_t[]){7, 6, 0x1000}, 3);

	/* The next report's. */
	gp_block_sites_clear(&sites);
	second[0].site = gp_sites_number(0x600);
	gp_block_sites_add(&sites, second, 1);
	assert_int_equal(second[0].site, 1);
	assert_int_equal(sites.num_sites, 2);
	assert_int_equal(sites.num_frames, 3);
	has(1, (const uint64_t[]){7, 6, 0x1000}, 3);
}

/* More frames than there is room for: stacks are told without them. */
static void test_many_frames(void **state)
{
	static struct gp_layout_range blocks[GP_SITES - 1];
	const size_t n = GP_SITES - 1;
	struct gp_stack stack = {.native = 4};

	(void)state;
	for (size_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < 3; k++)
			stack.frames[k] = 0x10000 + i * 3 + k;
		stack.frames[3] = 0x1000;
		gp_sites_add((i + 1) * 512, 1, &stack, (struct gp_weight){1, 1},
			     1);
		blocks[i] = (struct gp_layout_range){
			(i + 1) * 512, 512, 1, 1,
			gp_sites_number((i + 1) * 512)};
	}
	gp_block_sites_add(&sites, blocks, n);
	assert_int_equal(sites.num_sites, GP_SITES);
	assert_int_equal(sites.num_frames, GP_BLOCK_FRAMES);
	assert_int_equal(sites.left_out, n * 3 + 1 - GP_BLOCK_FRAMES);
	has(blocks[0].site,
	    (const uint64_t[]){0x10000, 0x10001, 0x10002, 0x1000}, 4);
	has(blocks[n - 1].site, (const uint64_t[]){0x1000}, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_numbers_of_sites, fresh),
		cmocka_unit_test_setup(test_each_once, fresh),
		cmocka_unit_test_setup(test_many_frames, fresh),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
