/*
 * A result for people, and as JSON.
 */
#ifndef GP_REPLAY_PRINT_H
#define GP_REPLAY_PRINT_H

#include <stdio.h>

#include "pool/replay/player.h"

struct gp_replay_run {
	const char *trace_name; /* not owned */
	const struct gp_trace *trace;
	const struct gp_policy *policy;
	const char *conf; /* as given; not owned */
	uint64_t memory;  /* bytes, 0: no limit */
	const struct gp_replay_result *result;
};

/* Lines of at most 80 columns. */
void gp_replay_print_text(const struct gp_replay_run *run, FILE *out);
/* One object; sizes in bytes. */
void gp_replay_print_json(const struct gp_replay_run *run, FILE *out);

#endif
