/*
 * A policy of gpupool-replay over a modelled device, for tests: allocate,
 * free, and ask what is reserved, in MiB.
 */
#ifndef GP_TESTS_REPLAY_RIG_H
#define GP_TESTS_REPLAY_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pool/replay/cost_driver.h"
#include "pool/replay/policy.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)

struct rig {
	const struct gp_policy *policy;
	struct gp_cost_driver *device;
	void *state;
};

static inline struct rig rig_open(const struct gp_policy *policy,
				  const char *conf_text, uint64_t memory)
{
	struct rig rig = {.policy = policy};
	struct gp_driver driver;
	struct gp_conf conf;

	assert_int_equal(gp_conf_parse(conf_text, &conf, NULL, NULL), 0);
	rig.device = gp_cost_driver_new(memory);
	assert_non_null(rig.device);
	driver = gp_cost_driver_seam(rig.device);
	assert_int_equal(policy->create(&driver, &conf, &rig.state), 0);
	return rig;
}

static inline struct gp_cost_totals rig_totals(struct rig *rig)
{
	struct gp_cost_totals totals;

	gp_cost_driver_totals(rig->device, &totals);
	return totals;
}

static inline void rig_check(struct rig *rig)
{
	char why[160] = "";

	if (rig->policy->check &&
	    rig->policy->check(rig->state, why, sizeof(why)))
		fail_msg("%s", why);
	if (gp_cost_driver_fault(rig->device))
		fail_msg("driver: %s", gp_cost_driver_fault(rig->device));
}

/* Everything must be free by now; nothing may stay with the device. */
static inline void rig_close(struct rig *rig)
{
	struct gp_cost_totals totals;

	rig_check(rig);
	rig->policy->destroy(rig->state);
	gp_cost_driver_totals(rig->device, &totals);
	assert_null(gp_cost_driver_fault(rig->device));
	assert_int_equal(totals.physical, 0);
	assert_int_equal(totals.handles, 0);
	gp_cost_driver_free(rig->device);
}

static inline int rig_try(struct rig *rig, uint64_t bytes, uint32_t stream,
			  struct gp_placement *placement)
{
	int err = rig->policy->alloc(rig->state, bytes, stream, placement);

	rig_check(rig);
	return err;
}

static inline struct gp_placement rig_alloc(struct rig *rig, uint64_t bytes,
					    uint32_t stream)
{
	struct gp_placement placement = {0, NULL};

	assert_int_equal(rig_try(rig, bytes, stream, &placement), 0);
	assert_int_not_equal(placement.va, 0);
	return placement;
}

static inline void rig_free(struct rig *rig, struct gp_placement placement)
{
	assert_int_equal(rig->policy->free(rig->state, &placement, true), 0);
	rig_check(rig);
}

/* What the device holds, MiB. */
static inline uint64_t rig_reserved(struct rig *rig)
{
	return rig_totals(rig).physical / MIB;
}

#endif
