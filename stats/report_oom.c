/*
 * The report of a refused request: the answer first, then where the device's
 * memory is.
 */
#include <stdio.h>
#include <string.h>

#include "stats/report_impl.h"

#define LABEL 46
#define CELL  14

void gp_report_oom(struct gp_emit *emit, const struct gp_report *report,
		   const struct gp_oom_view *view)
{
	char answer[2048], setting[128];

	gp_oom_answer(report, view, answer, sizeof(answer));
	gp_oom_setting(report, view, setting, sizeof(setting));
	gp_emit_words(emit, answer);
	gp_emit_hide(emit, true);
	gp_emit_string(emit, "oom_answer", answer);
	gp_emit_string(emit, "oom_call", report->oom.call);
	gp_emit_number(emit, "oom_bytes", GP_UNIT_BYTES, report->oom.bytes);
	gp_emit_number(emit, "oom_device", GP_UNIT_PLAIN,
		       (uint64_t)report->oom.device);
	gp_emit_string(emit, "oom_cause", gp_oom_cause_name(view->cause));
	gp_emit_string(emit, "oom_setting", setting);
	gp_emit_number(emit, "oom_roomy_device", GP_UNIT_COUNT,
		       report->oom.roomy_device < 0
			       ? GP_UNKNOWN
			       : (uint64_t)report->oom.roomy_device);
	gp_emit_number(emit, "oom_roomy_free_bytes", GP_UNIT_BYTES,
		       report->oom.roomy_device < 0 ? GP_UNKNOWN
						    : report->oom.roomy_free);
	gp_emit_hide(emit, false);
	gp_emit_gap(emit);
}

/* A row of the table: bytes, and their share of the device. */
static void row(struct gp_emit *emit, const struct gp_oom_view *view,
		const char *label, const char *key, uint64_t bytes, bool shown)
{
	char percent[64];

	gp_emit_hide(emit, !shown);
	gp_emit_row(emit, label, LABEL, CELL);
	if (key)
		gp_emit_number(emit, key, GP_UNIT_BYTES, bytes);
	else
		gp_emit_again(emit, GP_UNIT_BYTES, bytes);
	if (key && view->total != GP_UNKNOWN) {
		/* "oom_free_bytes", "oom_free_percent" */
		snprintf(percent, sizeof(percent), "%.*s_percent",
			 (int)(strlen(key) - strlen("_bytes")), key);
		gp_emit_number(emit, percent, GP_UNIT_PERCENT,
			       bytes == GP_UNKNOWN
				       ? GP_UNKNOWN
				       : gp_percent(bytes, view->total));
	}
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
}

static void other_rows(struct gp_emit *emit, const struct gp_report *report)
{
	const struct gp_oom *oom = &report->oom;

	gp_emit_list(emit, "oom_others");
	for (size_t i = 0; i < oom->num_others; i++) {
		const struct gp_oom_other *other = &oom->others[i];

		gp_emit_object(emit, NULL);
		gp_emit_item(emit, "   ");
		gp_emit_words(emit, "pid");
		gp_emit_number(emit, "pid", GP_UNIT_PLAIN, other->pid);
		gp_emit_hide(emit, !other->name[0]);
		gp_emit_string(emit, "name", other->name);
		gp_emit_hide(emit, false);
		gp_emit_words(emit, ":");
		gp_emit_number(emit, "bytes", GP_UNIT_BYTES, other->bytes);
		gp_emit_hide(emit, !other->cached);
		gp_emit_words(emit, ",");
		gp_emit_number(emit, "cached_bytes", GP_UNIT_BYTES,
			       other->cached);
		gp_emit_words(emit, "of it cached");
		gp_emit_hide(emit, false);
		gp_emit_line(emit);
		gp_emit_close(emit);
	}
	gp_emit_close(emit);
	gp_emit_hide(emit, !oom->more_others);
	gp_emit_item(emit, "   ");
	gp_emit_words(emit, "and");
	gp_emit_number(emit, "oom_more_others", GP_UNIT_COUNT,
		       oom->more_others);
	gp_emit_words(emit, "more");
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
}

static void pool_rows(struct gp_emit *emit, const struct gp_oom_view *view)
{
	const uint64_t rounding = view->allocated > view->requested
					  ? view->allocated - view->requested
					  : 0;

	row(emit, view, "reserved by the pool of this process",
	    "oom_reserved_bytes", view->reserved, true);
	row(emit, view, "  live", "oom_allocated_bytes", view->allocated, true);
	row(emit, view, "  of that, lost to rounding", "oom_rounding_bytes",
	    rounding, true);
	row(emit, view, "  cached", "oom_cached_bytes", view->cached, true);
	row(emit, view, "  of that, in whole handles", "oom_movable_bytes",
	    view->movable, view->cached);
	row(emit, view, "  of that, the largest piece",
	    "oom_largest_free_bytes", view->largest, view->cached);
	gp_emit_hide(emit, !view->cached);
	gp_emit_row(emit, "  pieces", LABEL, CELL);
	gp_emit_number(emit, "oom_free_ranges", GP_UNIT_COUNT, view->pieces);
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
}

static void outside_rows(struct gp_emit *emit, const struct gp_oom_view *view)
{
	row(emit, view, "outside the pool, in this process",
	    "oom_passthrough_bytes", view->outside, view->outside);
	for (int i = 0; view->limit && i < GP_PART_NUM; i++) {
		char label[80] = "  ";

		if (i == GP_PART_pool || i == GP_PART_context ||
		    !view->limit->part[i])
			continue;
		snprintf(label, sizeof(label), "  %s",
			 gp_limit_part_help((enum gp_limit_part)i));
		row(emit, view, label, NULL, view->limit->part[i], true);
	}
	row(emit, view, "contexts of this process", "oom_context_bytes",
	    view->context, view->context);
}

void gp_report_oom_table(struct gp_emit *emit, const struct gp_report *report,
			 const struct gp_oom_view *view)
{
	const struct gp_oom *oom = &report->oom;
	const bool limited = view->cap != GP_NO_LIMIT;

	gp_emit_heading(emit, "Where the memory of the device is");
	row(emit, view, "the device", "oom_total_bytes", view->total, true);
	row(emit, view, "free", "oom_free_bytes", view->free, true);
	pool_rows(emit, view);
	outside_rows(emit, view);
	row(emit, view,
	    view->others_mixed ? "other processes, and contexts of this one"
			       : "other processes",
	    "oom_other_bytes", view->others, view->others || oom->num_others);
	other_rows(emit, report);
	row(emit, view, "the limit of this process", "oom_limit_bytes",
	    limited ? view->cap : GP_UNKNOWN, limited);
	row(emit, view, "what counts for it", "oom_held_bytes",
	    view->limit ? view->limit->held : GP_UNKNOWN, limited);
	gp_emit_line(emit);
}

/* Figures of the moment do not tell how it came to it; the events do. */
void gp_report_oom_record(struct gp_emit *emit, const struct gp_report *report)
{
	char words[800], name[GP_REPORT_FILE];

	if (!report->record)
		return;
	gp_report_file_name(report, "json", name);
	snprintf(words, sizeof(words),
		 "The last allocations and frees before it are in %.350s; "
		 "`gpupool report %d` shows them. `gpupool snapshot %s` makes "
		 "a PyTorch memory snapshot of them and of what lay where.",
		 report->record, report->pid, name);
	gp_emit_gap(emit);
	gp_emit_words(emit, words);
	gp_emit_line(emit);
}
