/*
 * The limits, and what counts against them.
 */
#include "stats/report_impl.h"

#define LABEL 46
#define CELL  14

static const struct {
	const char *key, *help;
} parts[GP_PART_NUM] = {
#define X(name, help_) {"part." #name, help_},
	GP_LIMIT_PARTS(X)
#undef X
};

const char *gp_limit_part_help(enum gp_limit_part part)
{
	return parts[part].help;
}

static void title(struct gp_emit *emit, const struct gp_report_device *device)
{
	const struct gp_limit_stats *limit = &device->limit;
	const uint64_t cap =
		limit->cap == GP_NO_LIMIT ? GP_UNKNOWN : limit->cap;

	gp_emit_words(emit, "Device");
	gp_emit_number(emit, "device", GP_UNIT_PLAIN, (uint64_t)device->device);
	gp_emit_words(emit, ":");
	gp_emit_hide(emit, cap == GP_UNKNOWN);
	gp_emit_words(emit, "at most");
	gp_emit_number(emit, "cap", GP_UNIT_BYTES, cap);
	gp_emit_words(emit, "for this process;");
	gp_emit_hide(emit, false);
	gp_emit_number(emit, "held", GP_UNIT_BYTES, limit->held);
	gp_emit_words(emit, "held,");
	gp_emit_number(emit, "peak", GP_UNIT_BYTES, limit->peak);
	gp_emit_words(emit, "at the peak");
	gp_emit_hide(emit, !limit->refusals);
	gp_emit_words(emit, ",");
	gp_emit_number(emit, "refusals", GP_UNIT_COUNT, limit->refusals);
	gp_emit_words(emit, limit->refusals == 1
				    ? "request that it left no room for"
				    : "requests that it left no room for");
	gp_emit_hide(emit, false);
	gp_emit_words(emit, ".");
	gp_emit_line(emit);
}

static void table(struct gp_emit *emit, const struct gp_limit_stats *limit)
{
	for (int i = 0; i < GP_PART_NUM; i++) {
		gp_emit_hide(emit, !limit->part[i]);
		gp_emit_row(emit, parts[i].help, LABEL, CELL);
		gp_emit_number(emit, parts[i].key, GP_UNIT_BYTES,
			       limit->part[i]);
		gp_emit_line(emit);
	}
	gp_emit_hide(emit, false);
	gp_emit_line(emit);
}

static void host(struct gp_emit *emit, const struct gp_report *report)
{
	const struct gp_limit_stats *limit = &report->host;
	const uint64_t cap =
		limit->cap == GP_NO_LIMIT ? GP_UNKNOWN : limit->cap;

	gp_emit_object(emit, "host");
	gp_emit_hide(emit, cap == GP_UNKNOWN && !limit->peak);
	gp_emit_words(emit, "Pinned host memory:");
	gp_emit_hide(emit, cap == GP_UNKNOWN);
	gp_emit_words(emit, "at most");
	gp_emit_number(emit, "cap", GP_UNIT_BYTES, cap);
	gp_emit_words(emit, ";");
	gp_emit_hide(emit, cap == GP_UNKNOWN && !limit->peak);
	gp_emit_number(emit, "held", GP_UNIT_BYTES, limit->held);
	gp_emit_words(emit, "held,");
	gp_emit_number(emit, "peak", GP_UNIT_BYTES, limit->peak);
	gp_emit_words(emit, "at the peak.");
	gp_emit_hide(emit, true);
	gp_emit_number(emit, "refusals", GP_UNIT_COUNT, limit->refusals);
	gp_emit_hide(emit, cap == GP_UNKNOWN && !limit->peak);
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
	gp_emit_close(emit);
}

void gp_report_limits(struct gp_emit *emit, const struct gp_report *report)
{
	if (report->num_devices)
		gp_emit_heading(emit, "What the process takes of each device");
	gp_emit_list(emit, "devices");
	for (size_t i = 0; i < report->num_devices; i++) {
		gp_emit_object(emit, NULL);
		title(emit, &report->devices[i]);
		table(emit, &report->devices[i].limit);
		gp_emit_close(emit);
	}
	gp_emit_close(emit);
	host(emit, report);
}
