/*
 * What the program marked: how often each section was entered, how long it
 * took, and how high memory was meanwhile.
 */
#include <stdio.h>

#include "stats/report_impl.h"

/* One column of names, four of figures: 78 of a page's 80. */
#define LABEL 22
#define CELL  14

static void title(struct gp_emit *emit)
{
	gp_emit_heading(emit, "Sections");
	gp_emit_row(emit, "", LABEL, CELL);
	gp_emit_cell(emit, "times");
	gp_emit_cell(emit, "in all");
	gp_emit_cell(emit, "peak alloc.");
	gp_emit_cell(emit, "peak reserved");
	gp_emit_line(emit);
}

/* The name before the figures, or above them when it is long. */
static void label(struct gp_emit *emit, const struct gp_section_row *row,
		  bool tell_device)
{
	char text[GP_SECTION_NAME + 48];
	int n = snprintf(text, sizeof(text), "%s", row->name);

	if (tell_device)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", device %d",
			      row->device);
	if (row->open)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      " (still in it)");
	gp_emit_row(emit, text, LABEL, CELL);
	if (n >= LABEL)
		gp_emit_row(emit, "", LABEL, CELL);
}

static void row(struct gp_emit *emit, const struct gp_section_row *row,
		bool tell_device)
{
	gp_emit_object(emit, NULL);
	gp_emit_hide(emit, true);
	gp_emit_string(emit, "name", row->name);
	gp_emit_number(emit, "device", GP_UNIT_PLAIN, (uint64_t)row->device);
	gp_emit_bool(emit, "open", row->open);
	gp_emit_hide(emit, false);
	label(emit, row, tell_device);
	gp_emit_number(emit, "times", GP_UNIT_COUNT, row->times);
	gp_emit_number(emit, "ns", GP_UNIT_NS, row->ns);
	gp_emit_number(emit, "allocated_bytes.peak", GP_UNIT_BYTES,
		       row->allocated);
	gp_emit_number(emit, "reserved_bytes.peak", GP_UNIT_BYTES,
		       row->reserved);
	gp_emit_line(emit);
	gp_emit_close(emit);
}

void gp_report_sections(struct gp_emit *emit, const struct gp_report *report)
{
	bool devices = false;

	for (size_t i = 0; i < report->num_sections; i++)
		devices |= report->sections[i].device !=
			   report->sections[0].device;
	if (report->num_sections)
		title(emit);
	gp_emit_list(emit, "sections");
	for (size_t i = 0; i < report->num_sections; i++)
		row(emit, &report->sections[i], devices);
	gp_emit_close(emit);
}
