/*
 * The loop over a trace. An allocation that is refused is left out, with its
 * free; an `o` that is served is freed at once, since the program that was
 * refused it did without.
 */
#include "pool/replay/player.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/clock.h"

struct player {
	const struct gp_trace *trace;
	const struct gp_policy *policy;
	void *state; /* the policy's */
	struct gp_cost_driver *device;
	struct gp_placement *placements; /* by block */
	uint64_t *live_bytes;            /* by block; 0: not held */
	int64_t tick_us, next_tick_us;   /* of trace time */
};

static int open_player(struct player *p, const struct gp_conf *conf,
		       uint64_t memory)
{
	struct gp_driver driver;
	size_t blocks = p->trace->num_blocks;

	p->placements = calloc(blocks + 1, sizeof(*p->placements));
	p->live_bytes = calloc(blocks + 1, sizeof(*p->live_bytes));
	p->device = gp_cost_driver_new(memory);
	if (!p->placements || !p->live_bytes || !p->device)
		return -ENOMEM;
	driver = gp_cost_driver_seam(p->device);
	p->tick_us = (int64_t)conf->decay_ms * 250;
	return p->policy->create(&driver, conf, &p->state);
}

/* What the trace left allocated. */
static void free_rest(struct player *p)
{
	uint32_t i;

	for (i = 0; i < p->trace->num_blocks; i++) {
		if (p->live_bytes[i])
			p->policy->free(p->state, &p->placements[i], true);
		p->live_bytes[i] = 0;
	}
}

static void close_player(struct player *p)
{
	if (p->state) {
		free_rest(p);
		p->policy->destroy(p->state);
	}
	gp_cost_driver_free(p->device);
	free(p->placements);
	free(p->live_bytes);
}

static int note_oom(struct player *p, struct gp_replay_result *r,
		    const struct gp_trace_op *op, bool served, uint64_t live)
{
	struct gp_replay_oom *oom;
	struct gp_cost_totals totals;

	oom = realloc(r->ooms, (r->num_ooms + 1) * sizeof(*oom));
	if (!oom)
		return -ENOMEM;
	r->ooms = oom;
	oom += r->num_ooms++;
	gp_cost_driver_totals(p->device, &totals);
	oom->line = op->line;
	oom->recorded = op->kind == GP_TRACE_OOM;
	oom->served = served;
	oom->bytes = op->bytes;
	oom->live = live;
	oom->reserved = totals.physical;
	r->num_refused += !served;
	return 0;
}

static void advance(struct player *p, int64_t t_us)
{
	if (t_us <= 0)
		return;
	gp_cost_driver_set_time(p->device, t_us);
	if (p->policy->tick && p->tick_us && t_us >= p->next_tick_us) {
		p->next_tick_us = t_us + p->tick_us;
		p->policy->tick(p->state);
	}
}

static void work(struct player *p, const struct gp_trace_op *op)
{
	if (op->kind == GP_TRACE_LAUNCH)
		gp_cost_driver_submit(p->device, op->stream);
	else if (op->kind == GP_TRACE_STREAM_SYNC)
		gp_cost_driver_finish(p->device, op->stream);
	else
		gp_cost_driver_finish_all(p->device);
}

/* One ALLOC or OOM; *live is what is held, and stays so for OOM. */
static int play_alloc(struct player *p, const struct gp_trace_op *op,
		      struct gp_replay_result *r, uint64_t *live)
{
	struct gp_placement placement = {0, NULL};
	int err = p->policy->alloc(p->state, op->bytes, op->stream, &placement);

	r->ops++;
	if (err && err != -ENOMEM)
		return err;
	if (!err && *live + op->bytes > r->peak_live)
		r->peak_live = *live + op->bytes;
	if (op->kind == GP_TRACE_OOM) {
		int noted = note_oom(p, r, op, !err, *live);

		if (err || noted)
			return noted;
		r->ops++;
		return p->policy->free(p->state, &placement, true);
	}
	if (err)
		return note_oom(p, r, op, false, *live);
	p->placements[op->block] = placement;
	p->live_bytes[op->block] = op->bytes;
	*live += op->bytes;
	return 0;
}

static int play_free(struct player *p, const struct gp_trace_op *op,
		     struct gp_replay_result *r, uint64_t *live)
{
	uint64_t bytes = p->live_bytes[op->block];

	if (!bytes)
		return 0; /* was refused */
	r->ops++;
	*live -= bytes;
	p->live_bytes[op->block] = 0;
	return p->policy->free(p->state, &p->placements[op->block],
			       gp_cost_driver_idle(p->device));
}

static int play_all(struct player *p, struct gp_replay_result *r, char *why,
		    size_t why_size)
{
	const struct gp_trace *trace = p->trace;
	uint64_t live = 0;
	size_t i;
	int err = 0;

	for (i = 0; !err && i < trace->num_ops; i++) {
		const struct gp_trace_op *op = &trace->ops[i];

		advance(p, op->t_us);
		switch (op->kind) {
		case GP_TRACE_ALLOC:
		case GP_TRACE_OOM:
			err = play_alloc(p, op, r, &live);
			break;
		case GP_TRACE_FREE:
			err = play_free(p, op, r, &live);
			break;
		default:
			work(p, op);
		}
	}
	if (err) {
		snprintf(why, why_size, "line %u: policy %s failed: %s",
			 trace->ops[i - 1].line, p->policy->name,
			 strerror(-err));
		return err;
	}
	if (p->policy->check) {
		char fault[160] = "";

		err = p->policy->check(p->state, fault, sizeof(fault));
		if (err)
			snprintf(why, why_size, "policy %s: %s",
				 p->policy->name, fault);
	}
	return err;
}

/* The bare calls: what is timed. */
static int time_all(struct player *p, double *ns_per_op)
{
	const struct gp_trace *trace = p->trace;
	struct gp_cost_totals before, after;
	uint64_t start, spent, ops = 0;
	size_t i;

	gp_cost_driver_totals(p->device, &before);
	start = gp_clock_ns(CLOCK_MONOTONIC);
	for (i = 0; i < trace->num_ops; i++) {
		const struct gp_trace_op *op = &trace->ops[i];
		struct gp_placement *placement = &p->placements[op->block];
		int err = 0;

		if (op->kind == GP_TRACE_ALLOC) {
			err = p->policy->alloc(p->state, op->bytes, op->stream,
					       placement);
			if (!err)
				p->live_bytes[op->block] = op->bytes;
			else if (err == -ENOMEM)
				err = 0;
			ops++;
		} else if (op->kind == GP_TRACE_FREE) {
			if (!p->live_bytes[op->block])
				continue;
			p->live_bytes[op->block] = 0;
			err = p->policy->free(p->state, placement, true);
			ops++;
		}
		if (err)
			return err;
	}
	spent = gp_clock_ns(CLOCK_MONOTONIC) - start;
	gp_cost_driver_totals(p->device, &after);
	spent -= after.host_ns - before.host_ns;
	*ns_per_op = (double)spent / (double)(ops ? ops : 1);
	return 0;
}

#define TIMED_PASSES 7
#define TIMED_NS     200000000ull /* no further pass after this */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(values[0]), by_value);
	return values[count / 2];
}

/* Medians of some passes, each over a fresh pool and again over the same. */
static int measure(const struct player *like, const struct gp_conf *conf,
		   uint64_t memory, struct gp_replay_result *result)
{
	uint64_t start = gp_clock_ns(CLOCK_MONOTONIC);
	double cold[TIMED_PASSES], warm[TIMED_PASSES];
	size_t n = 0;
	int err = 0;

	while (!err && n < TIMED_PASSES &&
	       (!n || gp_clock_ns(CLOCK_MONOTONIC) - start < TIMED_NS)) {
		struct player p = {.trace = like->trace,
				   .policy = like->policy};

		err = open_player(&p, conf, memory);
		if (!err)
			err = time_all(&p, &cold[n]);
		if (!err) {
			free_rest(&p);
			err = time_all(&p, &warm[n]);
		}
		n++;
		close_player(&p);
	}
	if (err)
		return err;
	result->ns_per_op = median(cold, n);
	result->warm_ns_per_op = median(warm, n);
	return 0;
}

int gp_replay_play(const struct gp_trace *trace, const struct gp_policy *policy,
		   const struct gp_conf *conf, uint64_t memory, bool timed,
		   struct gp_replay_result *result, char *why, size_t why_size)
{
	struct player p = {.trace = trace, .policy = policy};
	int err;

	memset(result, 0, sizeof(*result));
	result->ns_per_op = result->warm_ns_per_op = -1;
	why[0] = '\0';
	err = open_player(&p, conf, memory);
	if (!err)
		err = play_all(&p, result, why, why_size);
	if (p.device) {
		gp_cost_driver_totals(p.device, &result->totals);
		if (gp_cost_driver_fault(p.device)) {
			snprintf(why, why_size, "impossible driver call: %s",
				 gp_cost_driver_fault(p.device));
			err = -EIO;
		}
	}
	close_player(&p);
	if (!err && timed)
		err = measure(&p, conf, memory, result);
	if (err && !why[0])
		snprintf(why, why_size, "policy %s: %s", policy->name,
			 strerror(-err));
	return err;
}

void gp_replay_result_free(struct gp_replay_result *result)
{
	free(result->ooms);
	memset(result, 0, sizeof(*result));
}
