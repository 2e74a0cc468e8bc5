/*
 * pool_check() itself: each structure is damaged in turn and must be noticed;
 * and the bins of free ranges against a plain list.
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
	struct gp_block *b, *s, *c, *f;
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
	f = gp_ranges_best(&region->ranges, 1);
	assert_non_null(f);
	DAMAGE(f->right, b);
	DAMAGE(region->ranges.summary, 0);
	DAMAGE(region->vacant, NULL);
	DAMAGE(s->granules, s->granules + 1);
	DAMAGE(s->tag, gp_tag(gp_block_granule(s), GP_FREE));
	DAMAGE(s->next->prev, NULL);
	DAMAGE(rig.pool->slabs.parts[0].free_blocks, 99);
	DAMAGE(rig.pool->slabs.parts[0].summary[0], 0);
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

/* ---- the bins ------------------------------------------------------------------ */

#define NODES 500

static struct gp_block nodes[NODES];
static bool inside[NODES];

static uint32_t plain_best(uint32_t granules)
{
	uint32_t best = 0;

	for (int i = 0; i < NODES; i++)
		if (inside[i] && nodes[i].granules >= granules &&
		    (!best || nodes[i].granules < best))
			best = nodes[i].granules;
	return best;
}

/* Whole units, in many of the bins, and on both sides of the last one's
 * border. */
static uint32_t some_size(unsigned *seed)
{
	uint32_t n = (uint32_t)(rand_r(seed) % 62);

	return (n < 48 ? 1 + n / 3 * 37 : GP_RANGES_BINS - 55 + n) *
	       GP_UNIT_GRANULES;
}

static uint64_t walk(const struct gp_ranges *ranges, uint64_t *sum)
{
	const struct gp_block *b = gp_ranges_best(ranges, 0);
	uint64_t n = 0;

	*sum = 0;
	for (uint32_t last = 0; b; b = gp_ranges_next(ranges, b), n++) {
		assert_true(b->granules >= last);
		last = b->granules;
		*sum += last;
	}
	return n;
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
		/* Small requests that take what is left are no whole units. */
		uint32_t want = some_size(&seed) - (uint32_t)(i % 3);
		struct gp_block *best;
		uint64_t found;

		if (inside[k]) {
			gp_ranges_remove(&ranges, &nodes[k]);
			count--;
			sum -= nodes[k].granules;
		} else {
			gp_ranges_insert(&ranges, &nodes[k]);
			count++;
			sum += nodes[k].granules;
		}
		inside[k] = !inside[k];
		assert_int_equal(walk(&ranges, &found), count);
		assert_int_equal(found, sum);
		best = gp_ranges_best(&ranges, want);
		assert_int_equal(best ? best->granules : 0, plain_best(want));
	}
}

static void of_two_equals_the_lower_is_first(void **state)
{
	static const uint32_t sizes[] = {3 * GP_UNIT_GRANULES,
					 2 * GP_RANGES_BINS * GP_UNIT_GRANULES};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct gp_ranges ranges = {0};
		struct gp_block two[2] = {0};
		struct gp_block *first = &two[i % 2];

		two[0].granules = two[1].granules = sizes[i / 2];
		two[0].tag = gp_tag(128000, GP_FREE);
		two[1].tag = gp_tag(256000, GP_FREE);
		gp_ranges_insert(&ranges, first);
		gp_ranges_insert(&ranges, &two[1 - i % 2]);
		assert_ptr_equal(gp_ranges_best(&ranges, 1), &two[0]);
		assert_ptr_equal(gp_ranges_next(&ranges, &two[0]), &two[1]);
		gp_ranges_remove(&ranges, &two[0]);
		assert_ptr_equal(gp_ranges_best(&ranges, 1), &two[1]);
		gp_ranges_remove(&ranges, &two[1]);
		assert_null(gp_ranges_best(&ranges, 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damage_is_noticed),
		cmocka_unit_test(the_option_checks_every_step),
		cmocka_unit_test(the_bins_agree_with_a_plain_list),
		cmocka_unit_test(of_two_equals_the_lower_is_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
