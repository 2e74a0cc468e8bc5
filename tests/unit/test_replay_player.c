/*
 * The modelled driver (costs, refusals) and the loop over a trace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "pool/replay/player.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static void test_costs_between_the_measured_points(void **state)
{
	(void)state;
	assert_int_equal(gp_call_cost(GP_CALL_create, 2 * MIB), 11000);
	assert_int_equal(gp_call_cost(GP_CALL_create, 20 * MIB), 11000);
	assert_int_equal(gp_call_cost(GP_CALL_create, 138 * MIB), 13500);
	assert_int_equal(gp_call_cost(GP_CALL_create, 256 * MIB), 16000);
	assert_int_equal(gp_call_cost(GP_CALL_create, GIB), 18000);
	assert_int_equal(gp_call_cost(GP_CALL_create, GIB + 768 * MIB), 20000);
	assert_int_equal(gp_call_cost(GP_CALL_map, 2 * MIB), 1600);
	assert_int_equal(gp_call_cost(GP_CALL_map, 8 * GIB), 1600);
	assert_int_equal(gp_call_cost(GP_CALL_release, MIB), 15000);
	/* cudaMalloc and cudaFree together: 310 us at 256 MiB. */
	assert_int_equal(gp_call_cost(GP_CALL_segment_alloc, 256 * MIB) +
				 gp_call_cost(GP_CALL_segment_free, 256 * MIB),
			 310000);
}

struct device {
	struct gp_cost_driver *model;
	struct gp_driver seam;
};

static struct device device_new(uint64_t memory)
{
	struct device d = {.model = gp_cost_driver_new(memory)};

	assert_non_null(d.model);
	d.seam = gp_cost_driver_seam(d.model);
	return d;
}

static void test_calls_are_counted_and_charged(void **state)
{
	struct device d = device_new(0);
	const struct gp_driver_ops *ops = d.seam.ops;
	struct gp_cost_totals t;
	uint64_t va, one, two;

	(void)state;
	assert_int_equal(ops->reserve(d.model, 64 * MIB, &va), 0);
	assert_int_equal(va % (2 * MIB), 0);
	assert_int_equal(ops->create(d.model, 2 * MIB, &one), 0);
	assert_int_equal(ops->create(d.model, 20 * MIB, &two), 0);
	assert_int_equal(ops->map(d.model, va, 2 * MIB, one), 0);
	assert_int_equal(ops->map(d.model, va + 2 * MIB, 20 * MIB, two), 0);
	/* One call over two handles costs two. */
	assert_int_equal(ops->set_access(d.model, va, 22 * MIB), 0);
	gp_cost_driver_totals(d.model, &t);
	assert_int_equal(t.calls[GP_CALL_create], 2);
	assert_int_equal(t.calls[GP_CALL_set_access], 1);
	assert_int_equal(t.driver_ns, 2 * 11000 + 2 * 1600 + 2 * 27000);
	assert_int_equal(t.physical, 22 * MIB);
	assert_int_equal(t.remaps, 0);

	assert_int_equal(ops->unmap(d.model, va, 22 * MIB), 0);
	assert_int_equal(ops->map(d.model, va + 40 * MIB, 2 * MIB, one), 0);
	assert_int_equal(ops->unmap(d.model, va + 40 * MIB, 2 * MIB), 0);
	assert_int_equal(ops->release(d.model, one, 2 * MIB), 0);
	assert_int_equal(ops->release(d.model, two, 20 * MIB), 0);
	assert_int_equal(ops->unreserve(d.model, va, 64 * MIB), 0);
	gp_cost_driver_totals(d.model, &t);
	assert_int_equal(t.remaps, 1);
	assert_int_equal(t.physical, 0);
	assert_int_equal(t.peak_physical, 22 * MIB);
	assert_null(gp_cost_driver_fault(d.model));
	gp_cost_driver_free(d.model);
}

static void test_the_limit_holds(void **state)
{
	struct device d = device_new(30 * MIB);
	const struct gp_driver_ops *ops = d.seam.ops;
	uint64_t handle, va;

	(void)state;
	assert_int_equal(d.seam.total_bytes, 30 * MIB);
	assert_int_equal(ops->create(d.model, 20 * MIB, &handle), 0);
	/* A cudaMalloc takes whole 2 MiB. */
	assert_int_equal(ops->segment_alloc(d.model, 9 * MIB, &va), 0);
	assert_int_equal(ops->segment_alloc(d.model, 1, &va), -ENOMEM);
	assert_int_equal(ops->create(d.model, 2 * MIB, &handle), -ENOMEM);
	assert_int_equal(ops->segment_free(d.model, va, 9 * MIB), 0);
	assert_int_equal(ops->create(d.model, 10 * MIB, &handle), 0);
	assert_null(gp_cost_driver_fault(d.model));
	gp_cost_driver_free(d.model);
}

/* Each of these would be an error of a real driver, or memory lost. */
static void test_impossible_calls_are_told(void **state)
{
	static const char *const faults[] = {
		"map at 0x10000000000",
		"map of handle 1",
		"set access at 0x10000000000",
		"unmap at 0x10000000000",
		"release of handle 1",
		"unreserve of 0x10000000000: mapped",
		"free of segment 0x200000",
		"create of 0x1 bytes",
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct device d = device_new(0);
		const struct gp_driver_ops *ops = d.seam.ops;
		uint64_t va, h, other;
		int err = 0;

		assert_int_equal(ops->reserve(d.model, 8 * MIB, &va), 0);
		assert_int_equal(ops->create(d.model, 4 * MIB, &h), 0);
		assert_int_equal(ops->map(d.model, va, 4 * MIB, h), 0);
		assert_int_equal(ops->create(d.model, 2 * MIB, &other), 0);
		assert_null(gp_cost_driver_fault(d.model));
		switch (i) {
		case 0: /* over a mapping */
			err = ops->map(d.model, va, 2 * MIB, other);
			break;
		case 1: /* mapped already */
			err = ops->map(d.model, va + 4 * MIB, 4 * MIB, h);
			break;
		case 2: /* half a handle */
			err = ops->set_access(d.model, va, 2 * MIB);
			break;
		case 3:
			err = ops->unmap(d.model, va, 2 * MIB);
			break;
		case 4: /* still mapped */
			err = ops->release(d.model, h, 4 * MIB);
			break;
		case 5:
			err = ops->unreserve(d.model, va, 8 * MIB);
			break;
		case 6:
			err = ops->segment_free(d.model, 2 * MIB, 2 * MIB);
			break;
		case 7:
			err = ops->create(d.model, 1, &other);
			break;
		}
		assert_int_equal(err, -EIO);
		assert_string_equal(gp_cost_driver_fault(d.model), faults[i]);
		gp_cost_driver_free(d.model);
	}
}

static void test_work_in_flight(void **state)
{
	struct device d = device_new(0);
	struct gp_cost_totals t;

	(void)state;
	assert_true(gp_cost_driver_idle(d.model));
	gp_cost_driver_submit(d.model, 0);
	gp_cost_driver_submit(d.model, 3);
	gp_cost_driver_submit(d.model, 3);
	gp_cost_driver_finish(d.model, 3);
	assert_false(gp_cost_driver_idle(d.model));
	gp_cost_driver_finish(d.model, 1);
	gp_cost_driver_finish(d.model, 0);
	assert_true(gp_cost_driver_idle(d.model));
	gp_cost_driver_submit(d.model, 2);
	assert_int_equal(d.seam.ops->sync(d.model), 0);
	assert_true(gp_cost_driver_idle(d.model));
	assert_int_equal(d.seam.ops->sync(d.model), 0);
	gp_cost_driver_totals(d.model, &t);
	assert_int_equal(t.waits, 1);
	assert_int_equal(t.calls[GP_CALL_sync], 2);
	gp_cost_driver_free(d.model);
}

static struct gp_replay_result
played(const char *text, const struct gp_policy *policy, uint64_t memory)
{
	struct gp_replay_result result = {0};
	struct gp_trace trace;
	struct gp_conf conf;
	char why[256];

	gp_conf_defaults(&conf);
	if (gp_trace_parse(text, strlen(text), &trace, why, sizeof(why)) ||
	    gp_replay_play(&trace, policy, &conf, memory, true, &result, why,
			   sizeof(why)))
		fail_msg("%s", why);
	gp_trace_free(&trace);
	return result;
}

static void test_what_was_live_before_counts(void **state)
{
	struct gp_replay_result r = played("p,1,1000,,\np,2,3000,,\n"
					   "a,3,500,,1\nf,1,,,2\na,4,900,,3\n"
					   "f,3,,,4\n",
					   &gp_policy_native, 0);

	(void)state;
	assert_int_equal(r.ops, 6);
	assert_int_equal(r.peak_live, 4500);
	assert_int_equal(r.totals.peak_physical, 2 * MIB);
	assert_int_equal(r.num_ooms, 0);
	assert_true(r.ns_per_op >= 0);
	gp_replay_result_free(&r);
}

static const char tight[] = "a,1,31457280,,1\n" /* 30 MiB */
			    "o,2,20971520,,2\n" /* 20 MiB */
			    "a,3,31457280,,3\n"
			    "f,3,,,4\nf,1,,,5\n";

static void test_a_recorded_oom_is_tried(void **state)
{
	struct gp_replay_result r = played(tight, &gp_policy_native, 60 * MIB);

	(void)state;
	/* Served, and given back at once: the second 30 MiB fit too. */
	assert_int_equal(r.num_ooms, 1);
	assert_int_equal(r.ooms[0].line, 2);
	assert_true(r.ooms[0].recorded);
	assert_true(r.ooms[0].served);
	assert_int_equal(r.ooms[0].bytes, 20 * MIB);
	assert_int_equal(r.ooms[0].live, 30 * MIB);
	assert_int_equal(r.ooms[0].reserved, 50 * MIB);
	assert_int_equal(r.num_refused, 0);
	assert_int_equal(r.ops, 6);
	assert_int_equal(r.peak_live, 60 * MIB);
	gp_replay_result_free(&r);
}

static void test_a_refused_block_is_left_out(void **state)
{
	struct gp_replay_result r = played(tight, &gp_policy_native, 40 * MIB);

	(void)state;
	assert_int_equal(r.num_ooms, 2);
	assert_true(r.ooms[0].recorded);
	assert_false(r.ooms[0].served);
	assert_false(r.ooms[1].recorded);
	assert_false(r.ooms[1].served);
	assert_int_equal(r.ooms[1].line, 3);
	assert_int_equal(r.ooms[1].bytes, 30 * MIB);
	assert_int_equal(r.num_refused, 2);
	/* Its free is no operation. */
	assert_int_equal(r.ops, 4);
	assert_int_equal(r.peak_live, 30 * MIB);
	assert_int_equal(r.totals.peak_physical, 30 * MIB);
	gp_replay_result_free(&r);
}

/* The pool waits for work in flight before a block is used again, and not
 * where the trace says that it is done. */
static void test_the_pool_waits_for_work(void **state)
{
	struct gp_replay_result r = played("a,1,4194304,,1\nl,,,0,2\nf,1,,,3\n"
					   "a,2,4194304,,4\nf,2,,,5\n",
					   &gp_policy_pool, 0);

	(void)state;
	assert_int_equal(r.totals.waits, 1);
	assert_int_equal(r.totals.peak_physical, 4 * MIB);
	gp_replay_result_free(&r);

	r = played("a,1,4194304,,1\nl,,,7,2\ns,,,7,2\nf,1,,,3\n"
		   "a,2,4194304,,4\nf,2,,,5\n",
		   &gp_policy_pool, 0);
	assert_int_equal(r.totals.waits, 0);
	assert_int_equal(r.totals.peak_physical, 4 * MIB);
	gp_replay_result_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_costs_between_the_measured_points),
		cmocka_unit_test(test_calls_are_counted_and_charged),
		cmocka_unit_test(test_the_limit_holds),
		cmocka_unit_test(test_impossible_calls_are_told),
		cmocka_unit_test(test_work_in_flight),
		cmocka_unit_test(test_what_was_live_before_counts),
		cmocka_unit_test(test_a_recorded_oom_is_tried),
		cmocka_unit_test(test_a_refused_block_is_left_out),
		cmocka_unit_test(test_the_pool_waits_for_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
