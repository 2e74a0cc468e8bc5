/*
 * Plays a trace against a policy and says what it took.
 */
#ifndef GP_REPLAY_PLAYER_H
#define GP_REPLAY_PLAYER_H

#include "pool/replay/cost_driver.h"
#include "pool/replay/policy.h"
#include "pool/replay/trace.h"

/* An allocation that was refused, here or when the trace was recorded. */
struct gp_replay_oom {
	uint32_t line;
	bool recorded; /* an `o` line: it was refused then */
	bool served;   /* ... and is served here */
	uint64_t bytes;
	uint64_t live;     /* bytes, without this request */
	uint64_t reserved; /* bytes, after it was tried */
};

struct gp_replay_result {
	uint64_t ops;                 /* allocations tried and frees */
	uint64_t peak_live;           /* bytes asked for and held at once */
	struct gp_cost_totals totals; /* at the end of the trace */
	double ns_per_op; /* host time of an alloc or free, driver excluded;
			     * negative: not measured */
	double warm_ns_per_op; /* the same for a second time through on the
				* same pool: mostly hits */
	size_t num_ooms;
	struct gp_replay_oom *ooms; /* owned by the result */
	uint64_t num_refused;       /* of them */
};

/* Plays the trace once on a device with `memory` bytes (0: no limit), then,
 * with `timed`, some more times with a clock around the whole. 0; or -errno
 * with a sentence in why: the policy failed, other than by refusing memory,
 * or its books do not balance. */
int gp_replay_play(const struct gp_trace *trace, const struct gp_policy *policy,
		   const struct gp_conf *conf, uint64_t memory, bool timed,
		   struct gp_replay_result *result, char *why, size_t why_size);

void gp_replay_result_free(struct gp_replay_result *result);

#endif
