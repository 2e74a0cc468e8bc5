/*
 * pool_check() itself: each structure is damaged in turn and must be noticed;
 * and the tree of ranges against a plain list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/ranges.h"
#include "pool/state.h"
#include "tests/support/pool_rig.h"

static struct pool_rig rig;
static uint64_t small, large;

/* Something of everything: live and free, small and large, cached. */
static void fill(void)
{
	uint64_t a[4];

	rig = pool_rig_new(GIB, false);
	rig.config.cache_policy = GP_CACHE_KEEP;
	assert_int_equal(pool_rig_open(&rig), 0);
	small = pool_rig_alloc(&rig, 3000);
	for (int i = 0; i < 4; i++)
		a[i] = pool_rig_alloc(&rig, 9 * MIB);
	large = a[1];
	gp_pool_free(rig.pool, a[0]);
	gp_pool_free(rig.pool, a[2]);
	gp_pool_tick(rig.pool);
	gp_pool_free(rig.pool, a[3]);
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, 5000));
	assert_null(pool_rig_check(&rig));
}

static struct gp_block *block_at(uint64_t va)
{
	uint64_t granule = (va - rig.pool->base) >> GP_GRANULE_SHIFT;
	struct gp_slab *slab;
	struct gp_block *b = gp_arena_at(&rig.pool->arena, granule, &slab);

	return slab ? gp_slab_at(slab, granule) : b;
}

/* `field` is changed to `value` and must be noticed; then it is put back. */
#define DAMAGE(field, value)                                           \
	do {                                                           \
		__typeof__(field) saved = (field);                     \
		char why[200];                                         \
		(field) = (__typeof__(field))(value);                  \
		assert_int_not_equal(                                  \
			gp_pool_check(rig.pool, why, sizeof(why)), 0); \
		assert_true(why[0] != '\0');                           \
		(field) = saved;                                       \
		assert_null(pool_rig_check(&rig));                     \
	} while (0)

static void damage_is_noticed(void **state)
{
	struct gp_region *region;
	struct gp_block *b, *s, *c;
	struct gp_cache *cache;
	struct gp_handle *h;

	(void)state;
	fill();
	region = &rig.pool->regions[GP_REGION_LARGE];
	b = block_at(large);
	s = block_at(small);
	h = gp_backing_at(rig.pool, gp_block_granule(b));
	cache = rig.pool->caches[1];
	c = cache->bins[10]; /* the 5000 bytes */
	assert_non_null(c);

	DAMAGE(b->granules, b->granules + GP_UNIT_GRANULES);
	DAMAGE(b->granules, b->granules - 1);
	DAMAGE(b->tag, gp_tag(gp_block_granule(b), GP_FREE));
	DAMAGE(b->tag, gp_tag(gp_block_granule(b) + 1, GP_LIVE));
	DAMAGE(c->tag, gp_tag(gp_block_granule(c), GP_LIVE));
	DAMAGE(c->right, b);
	DAMAGE(b->requested, b->requested - 1);
	DAMAGE(b->owner, 77);
	DAMAGE(b->next->prev, NULL);
	DAMAGE(region->ranges.count, region->ranges.count + 1);
	DAMAGE(region->ranges.summary, 0);
	DAMAGE(region->vacant, NULL);
	DAMAGE(s->granules, s->granules + 1);
	DAMAGE(s->tag, gp_tag(gp_block_granule(s), GP_FREE));
	DAMAGE(s->next->prev, NULL);
	DAMAGE(rig.pool->slabs.free_blocks, 99);
	DAMAGE(rig.pool->slabs.summary[0], 0);
	DAMAGE(rig.pool->slabs.count, 7);
	DAMAGE(h->used, h->used - 1);
	DAMAGE(h->granules, h->granules + 1);
	DAMAGE(rig.pool->backing.granules, 1);
	DAMAGE(rig.pool->backing.idle_granules, 1);
	DAMAGE(rig.pool->account.reserved.current, 1);
	DAMAGE(rig.pool->account.sum[GP_M_COUNT].current, 12345);
	DAMAGE(cache->small, cache->small + 1);
	DAMAGE(cache->large, cache->large + 1);
	DAMAGE(cache->large_used, 0);
	DAMAGE(cache->tally.flow[GP_M_ALLOCATED].level, 12345);
	assert_null(pool_rig_close(&rig));
}

/* With the option `check` the pool does so after every step. */
static void the_option_checks_every_step(void **state)
{
	uint64_t va;

	(void)state;
	rig = pool_rig_new(GIB, false);
	rig.config.check = true;
	assert_int_equal(pool_rig_open(&rig), 0);
	va = pool_rig_alloc(&rig, 3000);
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	assert_false(rig.pool->check_failed);
	va = pool_rig_alloc(&rig, 3000);
	rig.pool->backing.count++;
	assert_int_equal(gp_pool_free(rig.pool, va), 0);
	assert_true(rig.pool->check_failed);
	rig.pool->check_failed = false;
	va = pool_rig_alloc(&rig, 3000);
	assert_true(rig.pool->check_failed);
	rig.pool->check_failed = false;
	assert_int_equal(gp_pool_free_idle(rig.pool, va), 0);
	assert_true(rig.pool->check_failed);
	rig.pool->backing.count--;
	assert_null(pool_rig_close(&rig));
}

/* ---- the tree ------------------------------------------------------------------ */

#define NODES 500

static struct gp_block nodes[NODES];
static bool in_tree[NODES];

static bool precedes(const struct gp_block *a, const struct gp_block *b)
{
	return a->granules != b->granules ? a->granules < b->granules
					  : a->tag < b->tag;
}

static struct gp_block *plain_best(uint32_t granules)
{
	struct gp_block *best = NULL;

	for (int i = 0; i < NODES; i++)
		if (in_tree[i] && nodes[i].granules >= granules &&
		    (!best || precedes(&nodes[i], best)))
			best = &nodes[i];
	return best;
}

/* In many of the bins, and on both sides of the last one's border. */
static uint32_t some_size(unsigned *seed)
{
	uint32_t n = (uint32_t)(rand_r(seed) % 62);

	return n < 48 ? 1 + n * 72
		      : (GP_RANGES_BINS - 55 + n) * GP_UNIT_GRANULES;
}

static void the_bins_agree_with_a_plain_list(void **state)
{
	struct gp_ranges ranges = {0};
	unsigned seed = 1;
	uint64_t count = 0, sum = 0;

	(void)state;
	for (int i = 0; i < NODES; i++) {
		nodes[i].tag = gp_tag((uint64_t)i * 1000, GP_FREE);
		nodes[i].granules = some_size(&seed);
	}
	for (int i = 0; i < 20000; i++) {
		int k = rand_r(&seed) % NODES;
		uint32_t want = some_size(&seed);
		struct gp_block *best;

		if (in_tree[k]) {
			gp_ranges_remove(&ranges, &nodes[k]);
			count--;
			sum -= nodes[k].granules;
		} else {
			gp_ranges_insert(&ranges, &nodes[k]);
			count++;
			sum += nodes[k].granules;
		}
		in_tree[k] = !in_tree[k];
		assert_int_equal(ranges.count, count);
		assert_int_equal(ranges.granules, sum);
		best = gp_ranges_best(&ranges, want);
		assert_ptr_equal(best, plain_best(want));
		if (best) {
			struct gp_block *next = gp_ranges_next(&ranges, best);

			assert_true(!next || precedes(best, next));
		}
	}
}

/* The depth follows the logarithm: a search must not walk all ranges. */
static unsigned depth_of(const struct gp_block *b)
{
	unsigned left, right;

	if (!b)
		return 0;
	left = depth_of(b->left);
	right = depth_of(b->right);
	return 1 + (left > right ? left : right);
}

static void the_tree_stays_shallow(void **state)
{
	const unsigned bin = GP_RANGES_BINS - 1;
	const uint32_t n = 100000;
	struct gp_ranges ranges = {0};
	struct gp_block *many = calloc(n, sizeof(*many));

	(void)state;
	assert_non_null(many);
	/* In order of size: what unbalances a plain tree. */
	for (uint32_t i = 0; i < n; i++) {
		many[i].tag = gp_tag(i, GP_FREE);
		many[i].granules = bin * GP_UNIT_GRANULES + i;
		gp_ranges_insert(&ranges, &many[i]);
	}
	assert_true(depth_of(ranges.bins[bin]) < 80);
	for (uint32_t i = 0; i < n; i++)
		gp_ranges_remove(&ranges, &many[i]);
	assert_null(ranges.bins[bin]);
	free(many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damage_is_noticed),
		cmocka_unit_test(the_option_checks_every_step),
		cmocka_unit_test(the_bins_agree_with_a_plain_list),
		cmocka_unit_test(the_tree_stays_shallow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
