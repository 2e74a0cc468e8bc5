/*
 * Every driver call of a scenario fails once, for every call and both kinds of
 * failure. Whatever fails: live data stays, the books are in order, and when
 * the driver works again everything can be given back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/pool_rig.h"

#define BLOCKS 12

struct block {
	uint64_t va, bytes;
};

/* Allocate and mark; a failure leaves va 0. */
static void take(struct pool_rig *rig, struct block *b, uint64_t bytes)
{
	b->bytes = bytes;
	b->va = pool_rig_alloc(rig, bytes);
	if (b->va)
		model_write(rig->model, b->va, bytes, b->va);
}

/* Check the mark and free. A failing wait is told, and the block is gone. */
static void give(struct pool_rig *rig, struct block *b)
{
	int rc;

	if (!b->va)
		return;
	assert_true(model_read(rig->model, b->va, b->bytes, b->va));
	rc = gp_pool_free(rig->pool, b->va);
	assert_true(rc == 0 || rc == -EIO || rc == -ENOMEM);
	assert_int_equal(gp_pool_free(rig->pool, b->va), -ENOENT);
	b->va = 0;
}

/* Growth, remapping, trimming, a capture, decay: every kind of call. */
static void scenario(struct pool_rig *rig, struct block *b)
{
	take(rig, &b[0], 3000);
	for (int i = 1; i < 7; i++)
		take(rig, &b[i], 10 * MIB);
	give(rig, &b[2]);
	give(rig, &b[4]);
	/* Fits only when the two holes are moved together. */
	take(rig, &b[7], 22 * MIB);
	assert_null(pool_rig_check(rig));
	give(rig, &b[1]);
	gp_pool_trim(rig->pool, 4 * MIB);
	take(rig, &b[8], 900 * KIB);
	model_set_capturing(rig->model, true);
	give(rig, &b[3]);
	take(rig, &b[9], 12 * MIB);
	model_set_capturing(rig->model, false);
	give(rig, &b[5]);
	give(rig, &b[8]);
	gp_pool_tick(rig->pool);
	model_advance(rig->model, 20000000000);
	gp_pool_tick(rig->pool);
	assert_null(pool_rig_check(rig));
	/* More than there is: refused, whatever else fails. */
	assert_int_equal(pool_rig_alloc(rig, 100 * MIB), 0);
	take(rig, &b[10], 30 * MIB);
	gp_pool_trim(rig->pool, UINT64_MAX);
	take(rig, &b[11], 5000);
}

/* Returns false when the scenario has no n-th call any more. */
static bool run(uint64_t n, int error, bool segments,
		enum gp_cache_policy policy)
{
	struct pool_rig rig = pool_rig_new(96 * MIB, segments);
	struct block b[BLOCKS] = {{0}};
	uint64_t calls;
	const char *why;

	model_destroy(rig.model);
	rig.model = model_create(&(struct model_config){
		.total_bytes = 96 * MIB,
		.no_vmm = segments,
		.tags = true,
	});
	rig.driver = model_driver(rig.model);
	rig.config.cache_policy = policy;
	rig.config.expandable_segments = !segments;
	assert_int_equal(pool_rig_open(&rig), 0);
	calls = model_total_calls(rig.model);
	model_fail(rig.model, MODEL_NUM_CALLS, n, error);
	scenario(&rig, b);
	calls = model_total_calls(rig.model) - calls;
	model_fail(rig.model, MODEL_NUM_CALLS, 0, 0);
	why = pool_rig_check(&rig);
	if (why)
		fail_msg("call %d: %s", (int)n, why);
	for (int i = 0; i < BLOCKS; i++)
		give(&rig, &b[i]);
	gp_pool_trim(rig.pool, UINT64_MAX);
	gp_pool_trim(rig.pool, UINT64_MAX);
	if (model_used(rig.model))
		fail_msg("call %d: %d MiB are left", (int)n,
			 (int)(model_used(rig.model) / MIB));
	assert_int_equal(pool_rig_stats(&rig).allocation.current, 0);
	assert_int_equal(pool_rig_stats(&rig).reserved_bytes.current, 0);
	why = pool_rig_close(&rig);
	if (why)
		fail_msg("call %d: %s", (int)n, why);
	return n <= calls;
}

static void every_call(int error, bool segments, enum gp_cache_policy policy)
{
	uint64_t n = 1;

	while (run(n, error, segments, policy))
		n++;
	assert_true(n > 20);
}

static void every_call_fails_once(void **state)
{
	(void)state;
	every_call(-EIO, false, GP_CACHE_DECAY);
	every_call(-EIO, false, GP_CACHE_NONE);
}

static void every_call_finds_no_memory_once(void **state)
{
	(void)state;
	every_call(-ENOMEM, false, GP_CACHE_KEEP);
}

static void every_call_fails_once_with_segments(void **state)
{
	(void)state;
	every_call(-EIO, true, GP_CACHE_DECAY);
	every_call(-ENOMEM, true, GP_CACHE_KEEP);
}

static void a_pool_that_cannot_be_made_leaves_nothing(void **state)
{
	struct pool_rig rig = pool_rig_new(GIB, false);

	(void)state;
	model_fail(rig.model, MODEL_RESERVE, 1, -ENOMEM);
	assert_int_equal(pool_rig_open(&rig), -ENOMEM);
	rig.pool = NULL;
	assert_int_equal(pool_rig_open(&rig), 0);
	assert_null(pool_rig_close(&rig));
}

/* What the driver would not take back is used again before anything new. */
static void an_unmapped_handle_is_used_again(void **state)
{
	struct pool_rig rig = pool_rig_new(GIB, false);
	uint64_t creates;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, 2 * MIB));
	creates = model_calls(rig.model, MODEL_CREATE);
	model_fail(rig.model, MODEL_RELEASE, 1, -EIO);
	assert_int_equal(gp_pool_trim(rig.pool, UINT64_MAX), 0);
	assert_int_equal(model_used(rig.model), 2 * MIB);
	assert_int_equal(model_mappings(rig.model), 0);
	assert_null(pool_rig_check(&rig));
	assert_int_not_equal(pool_rig_alloc(&rig, 2 * MIB), 0);
	assert_int_equal(model_calls(rig.model, MODEL_CREATE), creates);
	assert_null(pool_rig_close(&rig));
}

/* The model itself: a test that could not fail would prove nothing. */
static void the_model_sees_broken_rules(void **state)
{
	(void)state;
	for (int rule = 0; rule < 8; rule++) {
		struct pool_rig rig = pool_rig_new(GIB, false);
		const struct gp_driver_ops *ops = rig.driver.ops;
		void *dev = rig.driver.dev;
		uint64_t va, a, b;

		assert_int_equal(ops->reserve(dev, 64 * MIB, &va), 0);
		assert_int_equal(ops->create(dev, 4 * MIB, &a), 0);
		assert_int_equal(ops->create(dev, 2 * MIB, &b), 0);
		assert_int_equal(ops->map(dev, va, 4 * MIB, a), 0);
		assert_null(model_error(rig.model));
		switch (rule) {
		case 0: /* over a mapping */
			ops->map(dev, va + 2 * MIB, 2 * MIB, b);
			break;
		case 1: /* a handle twice */
			ops->map(dev, va + 8 * MIB, 4 * MIB, a);
			break;
		case 2: /* a part of a handle */
			ops->map(dev, va + 8 * MIB, 2 * MIB, a);
			break;
		case 3: /* half a mapping */
			ops->unmap(dev, va, 2 * MIB);
			break;
		case 4: /* still mapped */
			ops->release(dev, a, 4 * MIB);
			break;
		case 5: /* twice */
			ops->release(dev, b, 2 * MIB);
			ops->release(dev, b, 2 * MIB);
			break;
		case 6: /* no access */
			model_write(rig.model, va, 512, 1);
			break;
		default: /* not at handle borders */
			ops->set_access(dev, va + 2 * MIB, 2 * MIB);
			break;
		}
		assert_non_null(model_error(rig.model));
		model_destroy(rig.model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_fails_once),
		cmocka_unit_test(every_call_finds_no_memory_once),
		cmocka_unit_test(every_call_fails_once_with_segments),
		cmocka_unit_test(a_pool_that_cannot_be_made_leaves_nothing),
		cmocka_unit_test(an_unmapped_handle_is_used_again),
		cmocka_unit_test(the_model_sees_broken_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
