/*
 * The report as a whole: what comes in which order.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/report_impl.h"

/* Raised when a key changes its meaning or goes away; new keys do not count. */
#define SCHEMA 1

static void add(struct gp_stat *sum, const struct gp_stat *stat)
{
	sum->current += stat->current;
	sum->peak += stat->peak;
	sum->allocated += stat->allocated;
	sum->freed += stat->freed;
}

void gp_report_sum(const struct gp_report *report,
		   struct gp_report_totals *totals)
{
	memset(totals, 0, sizeof(*totals));
	for (size_t i = 0; i < report->num_pools; i++) {
		const struct gp_pool_stats *stats = &report->pools[i].stats;

		add(&totals->allocated, &stats->allocated_bytes);
		add(&totals->reserved, &stats->reserved_bytes);
		add(&totals->allocation, &stats->allocation);
		totals->most_allocated += stats->most_allocated_bytes;
		totals->most_reserved += stats->most_reserved_bytes;
		totals->cached += stats->cached_bytes;
		totals->num_ooms += stats->num_ooms;
		totals->driver_ns += stats->driver_ns;
		totals->saved_ns += stats->saved_ns;
	}
	for (int kind = 0; kind < GP_KIND_COUNT; kind++) {
		const uint64_t bytes = report->kinds[kind].bytes.current;

		if (gp_kind_is_host((enum gp_kind)kind))
			totals->passthrough_host += bytes;
		else
			totals->passthrough_device += bytes;
	}
}

static void head(struct gp_emit *emit, const struct gp_report *report)
{
	static const struct {
		const char *json, *text;
	} reasons[] = {
		[GP_REPORT_EXIT] = {"exit", "at exit"},
		[GP_REPORT_SIGNAL] = {"signal", "on a signal"},
		[GP_REPORT_OOM] = {"oom", ", out of memory"},
		[GP_REPORT_WARN] = {"warn", ", memory is running short"},
	};
	char name[sizeof(report->exe)];

	gp_emit_hide(emit, true);
	gp_emit_number(emit, "schema", GP_UNIT_PLAIN, SCHEMA);
	gp_emit_string(emit, "reason", reasons[report->reason].json);
	gp_emit_number(emit, "sequence", GP_UNIT_PLAIN, report->sequence);
	gp_emit_string(emit, "exe", report->exe);
	gp_emit_string(emit, "record", report->record ? report->record : "");
	/* Processes on different hosts may have the same number. */
	if (report->node[0])
		gp_emit_string(emit, "node", report->node);
	if (report->rank[0])
		gp_emit_number(emit, "rank", GP_UNIT_PLAIN,
			       strtoull(report->rank, NULL, 10));
	gp_emit_number(emit, "start_unix_ns", GP_UNIT_TIME,
		       report->start_unix_ns);
	gp_emit_hide(emit, false);
	gp_emit_words(emit, "gpupool report");
	gp_emit_words(emit, reasons[report->reason].text);
	gp_emit_words(emit, ":");
	gp_emit_string(emit, "name",
		       gp_report_exe(report->exe, name, sizeof(name)));
	gp_emit_words(emit, "(pid");
	gp_emit_number(emit, "pid", GP_UNIT_PLAIN, (uint64_t)report->pid);
	gp_emit_words(emit, "),");
	gp_emit_number(emit, "now_unix_ns", GP_UNIT_TIME, report->now_unix_ns);
	gp_emit_gap(emit);
}

static void pools(struct gp_emit *emit, const struct gp_report *report)
{
	gp_emit_list(emit, "pools");
	for (size_t i = 0; i < report->num_pools; i++) {
		gp_emit_heading(emit, "Pool");
		gp_report_pool(emit, &report->pools[i], report->start_unix_ns);
	}
	gp_emit_close(emit);
}

struct kind_row {
	const char *help;
	const char *keys[8]; /* bytes, then count: as struct gp_stat */
};

static const struct kind_row kind_rows[] = {
#define X(name, help_)                             \
	{help_,                                    \
	 {"passthrough." #name ".bytes.current",   \
	  "passthrough." #name ".bytes.peak",      \
	  "passthrough." #name ".bytes.allocated", \
	  "passthrough." #name ".bytes.freed",     \
	  "passthrough." #name ".count.current",   \
	  "passthrough." #name ".count.peak",      \
	  "passthrough." #name ".count.allocated", \
	  "passthrough." #name ".count.freed"}},
	GP_KINDS(X)
#undef X
};

/* The page shows bytes now and at the peak, and how many there ever were. */
static void kind(struct gp_emit *emit, const struct kind_row *row,
		 const struct gp_kind_stats *stats)
{
	const bool unused = !stats->count.allocated;
	const struct {
		enum gp_unit unit;
		uint64_t value;
		bool shown;
	} cells[8] = {
		{GP_UNIT_BYTES, stats->bytes.current, true},
		{GP_UNIT_BYTES, stats->bytes.peak, true},
		{GP_UNIT_BYTES, stats->bytes.allocated, false},
		{GP_UNIT_BYTES, stats->bytes.freed, false},
		{GP_UNIT_COUNT, stats->count.current, false},
		{GP_UNIT_COUNT, stats->count.peak, false},
		{GP_UNIT_COUNT, stats->count.allocated, true},
		{GP_UNIT_COUNT, stats->count.freed, false},
	};

	gp_emit_hide(emit, unused);
	gp_emit_row(emit, row->help, 42, 12);
	for (int i = 0; i < 8; i++) {
		gp_emit_hide(emit, unused || !cells[i].shown);
		gp_emit_number(emit, row->keys[i], cells[i].unit,
			       cells[i].value);
	}
	gp_emit_hide(emit, unused);
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
}

void gp_report_kinds(struct gp_emit *emit,
		     const struct gp_kind_stats kinds[GP_KIND_COUNT])
{
	bool any = false;

	for (int i = 0; i < GP_KIND_COUNT; i++)
		any |= kinds[i].count.allocated > 0;
	gp_emit_heading(emit, "Outside the pool");
	gp_emit_hide(emit, any);
	gp_emit_words(emit, "Nothing.");
	gp_emit_hide(emit, !any);
	gp_emit_row(emit, "", 42, 12);
	gp_emit_cell(emit, "now");
	gp_emit_cell(emit, "peak");
	gp_emit_cell(emit, "allocations");
	gp_emit_line(emit);
	for (int i = 0; i < GP_KIND_COUNT; i++)
		kind(emit, &kind_rows[i], &kinds[i]);
	gp_emit_line(emit);
}

static void settings(struct gp_emit *emit, const struct gp_report *report)
{
	if (report->num_settings)
		gp_emit_heading(emit, "Settings (* not the default)");
	gp_emit_list(emit, "settings");
	for (size_t i = 0; i < report->num_settings; i++) {
		const struct gp_report_setting *setting = &report->settings[i];

		gp_emit_object(emit, NULL);
		gp_emit_item(emit, setting->is_default ? " " : "*");
		gp_emit_string(emit, "key", setting->key);
		gp_emit_tab(emit, 32);
		if (!setting->value[0])
			gp_emit_words(emit, "\"\"");
		gp_emit_hide(emit, !setting->value[0]);
		gp_emit_string(emit, "value", setting->value);
		gp_emit_hide(emit, true);
		gp_emit_bool(emit, "is_default", setting->is_default);
		gp_emit_hide(emit, false);
		gp_emit_line(emit);
		gp_emit_close(emit);
	}
	gp_emit_close(emit);
}

static void notes(struct gp_emit *emit, const struct gp_report *report)
{
	if (report->num_notes)
		gp_emit_heading(emit, "Notes");
	gp_emit_list(emit, "notes");
	for (size_t i = 0; i < report->num_notes; i++) {
		gp_emit_item(emit, "-");
		/* In JSON one string, in the text words that wrap. */
		gp_emit_words(emit, report->notes[i]);
		gp_emit_hide(emit, true);
		gp_emit_string(emit, NULL, report->notes[i]);
		gp_emit_hide(emit, false);
		gp_emit_line(emit);
	}
	gp_emit_close(emit);
}

/* The first paragraph of a report that warns. */
static void warning(struct gp_emit *emit, const struct gp_report *report)
{
	gp_emit_words(emit, "On device");
	gp_emit_number(emit, "warn_device", GP_UNIT_PLAIN,
		       (uint64_t)report->warn_device);
	gp_emit_words(emit, "the process has");
	gp_emit_number(emit, "warn_used_bytes", GP_UNIT_BYTES,
		       report->warn_used);
	gp_emit_words(emit, "in use, what it caches not among it:");
	gp_emit_number(emit, "warn_percent", GP_UNIT_PERCENT,
		       gp_percent(report->warn_used, report->warn_of));
	gp_emit_words(emit, "of the");
	gp_emit_number(emit, "warn_of_bytes", GP_UNIT_BYTES, report->warn_of);
	gp_emit_words(emit, "that it may take there.");
	gp_emit_gap(emit);
}

int gp_report_print(const struct gp_report *report, bool json, int fd)
{
	const int saved_errno = errno;
	struct gp_report_totals totals;
	struct gp_oom_view view;
	struct gp_emit emit;
	int error;

	gp_report_sum(report, &totals);
	gp_emit_init(&emit, fd, json);
	gp_emit_object(&emit, NULL);
	head(&emit, report);
	if (report->reason == GP_REPORT_OOM) {
		gp_oom_judge(report, &view);
		gp_report_oom(&emit, report, &view);
	} else if (report->reason == GP_REPORT_WARN) {
		warning(&emit, report);
	}
	gp_report_summary(&emit, report, &totals);
	if (report->reason == GP_REPORT_OOM) {
		gp_report_oom_table(&emit, report, &view);
		gp_report_oom_record(&emit, report);
		gp_report_oom_stack(&emit, report);
	}
	gp_report_overruns(&emit, report);
	gp_report_sites(&emit, report);
	gp_report_block_sites(&emit, report);
	pools(&emit, report);
	gp_report_sections(&emit, report);
	gp_report_kinds(&emit, report->kinds);
	gp_report_limits(&emit, report);
	settings(&emit, report);
	notes(&emit, report);
	gp_emit_close(&emit);
	error = gp_emit_finish(&emit);
	errno = saved_errno;
	return error;
}
