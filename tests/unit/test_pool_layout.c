/*
 * The layout of a pool: every live block and all memory in it, whatever the
 * room; no less while other threads allocate.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pool/layout.h"
#include "stats/sites.h"
#include "tests/support/pool_rig.h"

#define ROOM 8192

static struct gp_layout_range segments[ROOM], blocks[ROOM];

static int order(const void *a, const void *b)
{
	uint64_t left = ((const struct gp_layout_range *)a)->address;
	uint64_t right = ((const struct gp_layout_range *)b)->address;

	return left < right ? -1 : left > right;
}

static struct gp_layout take_with(struct pool_rig *rig, size_t room, bool sites)
{
	struct gp_layout layout = {.has_sites = sites,
				   .segments = segments,
				   .blocks = blocks,
				   .max_segments = ROOM,
				   .max_blocks = room};

	gp_pool_layout(rig->pool, &layout);
	/* Segments from the driver come as they came. */
	if (!layout.expandable) {
		qsort(segments, layout.num_segments, sizeof(*segments), order);
		qsort(blocks, layout.num_blocks, sizeof(*blocks), order);
	}
	return layout;
}

static struct gp_layout take(struct pool_rig *rig, size_t room)
{
	return take_with(rig, room, false);
}

static struct gp_layout take_sites(struct pool_rig *rig, size_t room)
{
	return take_with(rig, room, true);
}

struct sums {
	uint64_t bytes, requested, blocks, most; /* most: in one entry */
};

/* In order, apart, and each block inside a segment. */
static struct sums sum(const struct gp_layout *layout)
{
	struct sums sums = {0};
	uint64_t end = 0;
	size_t s = 0;

	for (size_t i = 0; i < layout->num_blocks; i++) {
		const struct gp_layout_range *b = &layout->blocks[i];

		assert_true(b->address >= end);
		end = b->address + b->bytes;
		while (s < layout->num_segments &&
		       segments[s].address + segments[s].bytes <= b->address)
			s++;
		assert_true(s < layout->num_segments);
		assert_true(b->address >= segments[s].address);
		assert_true(end <= segments[s].address + segments[s].bytes);
		assert_true(b->requested <= b->bytes);
		sums.bytes += b->bytes;
		sums.requested += b->requested;
		sums.blocks += b->blocks;
		if (b->blocks > sums.most)
			sums.most = b->blocks;
	}
	return sums;
}

static void assert_whole(struct pool_rig *rig, const struct gp_layout *layout)
{
	struct gp_pool_stats stats = pool_rig_stats(rig);
	struct sums sums = sum(layout);
	uint64_t memory = 0;

	for (size_t i = 0; i < layout->num_segments; i++)
		memory += segments[i].bytes;
	assert_int_equal(layout->left_out, 0);
	assert_int_equal(memory, stats.reserved_bytes.current);
	assert_int_equal(sums.bytes, stats.allocated_bytes.current);
	assert_int_equal(sums.requested, stats.requested_bytes.current);
	assert_int_equal(sums.blocks, stats.allocation.current);
}

/* Some thousand of all sizes, every third of them freed again. */
static void fill(struct pool_rig *rig)
{
	static const uint64_t sizes[] = {1,        700,     40 * KIB, 5 * KIB,
					 3 * MIB,  900,     200,      1 * MIB,
					 90 * KIB, 13 * KIB};
	uint64_t va[3000];

	for (int i = 0; i < 3000; i++) {
		va[i] = pool_rig_alloc(rig, sizes[i % 10]);
		assert_int_not_equal(va[i], 0);
	}
	for (int i = 0; i < 3000; i += 3)
		assert_int_equal(gp_pool_free(rig->pool, va[i]), 0);
}

static void check_layout(bool no_vmm)
{
	struct pool_rig rig = pool_rig_new(4 * GIB, no_vmm);
	struct gp_layout layout;
	struct sums sums;

	assert_int_equal(pool_rig_open(&rig), 0);
	layout = take(&rig, ROOM);
	assert_int_equal(layout.num_blocks + layout.num_segments, 0);
	assert_int_equal(layout.expandable, !no_vmm);
	fill(&rig);
	layout = take(&rig, ROOM);
	assert_whole(&rig, &layout);
	assert_int_equal(sum(&layout).most, 1);
	/* Small ones joined: nothing is lost but where one ends. */
	layout = take(&rig, 1900);
	assert_whole(&rig, &layout);
	sums = sum(&layout);
	assert_true(sums.most > 1);
	/* All neighbours, and then some are left out, and counted. */
	layout = take(&rig, 10);
	sums = sum(&layout);
	assert_int_equal(layout.num_blocks, 10);
	assert_int_equal(sums.blocks + layout.left_out,
			 pool_rig_stats(&rig).allocation.current);
	gp_pool_trim(rig.pool, UINT64_MAX);
	layout = take(&rig, ROOM);
	assert_whole(&rig, &layout);
	pool_rig_close(&rig);
}

static void test_virtual(void **state)
{
	(void)state;
	check_layout(false);
}

static void test_segments(void **state)
{
	(void)state;
	check_layout(true);
}

struct churn {
	struct pool_rig *rig;
	int stop; /* atomic */
};

/* Enters the block, as if it came from there. */
static void enter(struct pool_rig *rig, uint64_t va, uint64_t from)
{
	struct gp_stack stack = {.native = 1, .frames = {from}};

	assert_true(gp_sites_add(va, 1, &stack, (struct gp_weight){1, 1}, 1));
	gp_pool_watch(rig->pool, va);
}

static void *churn(void *arg)
{
	struct churn *churn = arg;
	uint64_t va[64] = {0};

	for (unsigned i = 0; !__atomic_load_n(&churn->stop, __ATOMIC_RELAXED);
	     i = (i * 7 + 1) % 64) {
		if (va[i])
			gp_pool_free(churn->rig->pool, va[i]);
		va[i] = pool_rig_alloc(churn->rig, 512 + (uint64_t)i * 60000);
		enter(churn->rig, va[i], 100 + i % 2);
	}
	for (int i = 0; i < 64; i++)
		if (va[i])
			gp_pool_free(churn->rig->pool, va[i]);
	return NULL;
}

/* What stays is always seen, and whose it is. */
static void test_meanwhile(void **state)
{
	struct pool_rig rig = pool_rig_new(4 * GIB, false);
	struct churn arg = {.rig = &rig};
	pthread_t thread;
	uint64_t kept[200];

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 200; i++) {
		kept[i] = pool_rig_alloc(&rig, 1000 + (uint64_t)i * 20000);
		enter(&rig, kept[i], 7);
	}
	assert_int_equal(pthread_create(&thread, NULL, churn, &arg), 0);
	for (int round = 0; round < 200; round++) {
		struct gp_layout layout = take_sites(&rig, ROOM);
		uint64_t site = gp_sites_number(kept[0]);
		int seen = 0;

		for (size_t i = 0; i < layout.num_blocks; i++)
			for (int k = 0; k < 200; k++)
				seen += blocks[i].address == kept[k] &&
					blocks[i].site == site;
		assert_int_equal(seen, 200);
	}
	__atomic_store_n(&arg.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	pool_rig_close(&rig);
	gp_sites_reset(0);
}

/* Of neighbours that are told as one: theirs if they have the same. */
static void check_sites(uint64_t guard)
{
	struct pool_rig rig = pool_rig_new(GIB, false);
	struct gp_layout layout;
	uint64_t va[5];

	rig.config.guard = guard;
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 5; i++)
		va[i] = pool_rig_alloc(&rig, 700);
	enter(&rig, va[0], 7);
	enter(&rig, va[1], 7);
	enter(&rig, va[3], 9);
	layout = take(&rig, ROOM);
	assert_int_equal(layout.num_blocks, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(blocks[i].site, 0); /* not asked for */
	layout = take_sites(&rig, ROOM);
	assert_int_equal(layout.num_blocks, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(blocks[i].site, gp_sites_number(va[i]));
	assert_int_equal(blocks[1].site, blocks[0].site);
	assert_int_equal(blocks[2].site, 0);
	assert_int_not_equal(blocks[3].site, blocks[0].site);
	layout = take_sites(&rig, 4);
	assert_int_equal(layout.num_blocks, 1);
	assert_int_equal(blocks[0].blocks, 5);
	assert_int_equal(blocks[0].site, 0);
	gp_pool_free(rig.pool, va[3]);
	gp_pool_free(rig.pool, va[4]);
	gp_pool_free(rig.pool, va[2]);
	layout = take_sites(&rig, 1);
	assert_int_equal(layout.num_blocks, 1);
	assert_int_equal(blocks[0].blocks, 2);
	assert_int_equal(blocks[0].site, gp_sites_number(va[0]));
	assert_int_not_equal(blocks[0].site, 0);
	pool_rig_close(&rig);
	gp_sites_reset(0);
}

static void test_sites(void **state)
{
	(void)state;
	check_sites(0);
	check_sites(64);
}

static int start(void **state)
{
	(void)state;
	return gp_sites_start(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_virtual),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_meanwhile),
		cmocka_unit_test(test_sites),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
