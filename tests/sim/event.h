#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include "tests/sim/engine.h"

/* Guarded by sim.lock. */
struct sim_event {
	struct sim_ctx *ctx;
	unsigned flags;
	bool program;           /* known to be the program's */
	struct sim_op *mark;    /* the last record; NULL: none yet */
	uint64_t capture;       /* id of the capture it was recorded in, or 0 */
	struct sim_node **deps; /* then: the nodes it stands for; owned */
	size_t dep_count;
	struct sim_list link; /* in ctx->events */
};

/* The event behind a handle, else NULL. locked. */
struct sim_event *sim_event_of(CUevent handle);
/* `op` is its last record. locked. */
void sim_event_is(struct sim_event *event, struct sim_op *op);
/* locked */
void sim_events_destroy(struct sim_ctx *ctx);

#endif
