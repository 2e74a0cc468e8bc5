/*
 * Inside the report: its sections, each told to an emitter.
 */
#ifndef GP_STATS_REPORT_IMPL_H
#define GP_STATS_REPORT_IMPL_H

#include "stats/emit.h"
#include "stats/report.h"

/* Sums over pools and kinds. A sum of peaks is not a peak of the sum unless
 * there is one pool; the text says so. */
struct gp_report_totals {
	struct gp_stat allocated, reserved, allocation;
	uint64_t most_allocated, most_reserved; /* of the whole run */
	uint64_t cached, num_ooms, driver_ns, saved_ns;
	uint64_t passthrough_device, passthrough_host; /* bytes now */
};

void gp_report_sum(const struct gp_report *report,
		   struct gp_report_totals *totals);

#define GP_REPORT_FILE (GP_REPORT_BASE + 48)

/* report_file.c: the report's file, without a directory */
void gp_report_file_name(const struct gp_report *report, const char *suffix,
			 char name[GP_REPORT_FILE]);
/* report_summary.c: the first paragraph */
void gp_report_summary(struct gp_emit *emit, const struct gp_report *report,
		       const struct gp_report_totals *totals);
/* report_oom.c: the first paragraph of an OOM report, and the table */
void gp_report_oom(struct gp_emit *emit, const struct gp_report *report,
		   const struct gp_oom_view *view);
void gp_report_oom_table(struct gp_emit *emit, const struct gp_report *report,
			 const struct gp_oom_view *view);
void gp_report_oom_record(struct gp_emit *emit, const struct gp_report *report);
/* report_stacks.c: the stack of the request that was refused */
void gp_report_oom_stack(struct gp_emit *emit, const struct gp_report *report);
/* report_stacks.c: what guard_bytes has found, if anything */
void gp_report_overruns(struct gp_emit *emit, const struct gp_report *report);
/* report_stacks.c: what allocates, how much */
void gp_report_sites(struct gp_emit *emit, const struct gp_report *report);
/* report_stacks.c: what allocated the blocks of the pools' layouts */
void gp_report_block_sites(struct gp_emit *emit,
			   const struct gp_report *report);
/* report_gauges.c: the first table of a pool, and PyTorch's keys */
void gp_report_gauges(struct gp_emit *emit, const struct gp_pool_stats *stats);
/* report_pool.c: one pool's tables, and its curve as from that time on */
void gp_report_pool(struct gp_emit *emit, const struct gp_report_pool *pool,
		    uint64_t start_unix_ns);
/* report_pool.c: the tables of these figures */
void gp_report_figures(struct gp_emit *emit, const struct gp_pool_stats *stats);
/* report.c: what does not come from the pool, kind by kind */
void gp_report_kinds(struct gp_emit *emit,
		     const struct gp_kind_stats kinds[GP_KIND_COUNT]);
/* report_sections.c */
void gp_report_sections(struct gp_emit *emit, const struct gp_report *report);
/* report_limit.c: what counts against the limits */
void gp_report_limits(struct gp_emit *emit, const struct gp_report *report);

#endif
