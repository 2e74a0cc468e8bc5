/*
 * Call stacks in the report: of the request that was refused, and the sites
 * that hold memory, held the most of it, or only ever take more.
 */
#include <stdio.h>
#include <string.h>

#include "stats/clock.h"
#include "stats/report_impl.h"

/* In the text; the JSON has all. */
#define SHOWN_PYTHON 12u
#define SHOWN_NATIVE 6u
#define MINUTE_NS    (60ull * GP_NS_PER_S)

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "train.py:12 in step", "libx.so+0x1234 (name)", "0x7f..". */
static const char *words(const struct gp_frame_text *at, char *text,
			 size_t size)
{
	if (at->line || !at->address)
		snprintf(text, size, "%s:%llu in %s",
			 at->file[0] ? at->file : "(a name too many)",
			 (unsigned long long)at->line,
			 at->function[0] ? at->function : "?");
	else if (at->file[0] && at->function[0])
		snprintf(text, size, "%s+0x%llx (%s)", base_name(at->file),
			 (unsigned long long)at->offset, at->function);
	else if (at->file[0])
		snprintf(text, size, "%s+0x%llx", base_name(at->file),
			 (unsigned long long)at->offset);
	else
		snprintf(text, size, "0x%llx", (unsigned long long)at->address);
	return text;
}

const char *gp_frame_words(uint64_t frame, char *text, size_t size)
{
	struct gp_frame_text at;

	gp_frame_look_up(frame, &at);
	return words(&at, text, size);
}

static void frame_text(struct gp_emit *emit, const struct gp_frame_text *at,
		       bool shown)
{
	char text[1024];

	gp_emit_object(emit, NULL);
	gp_emit_hide(emit, true);
	gp_emit_string(emit, "function", at->function);
	gp_emit_string(emit, "file", at->file);
	gp_emit_number(emit, "line", GP_UNIT_PLAIN, at->line);
	gp_emit_number(emit, "offset", GP_UNIT_PLAIN, at->offset);
	gp_emit_number(emit, "address", GP_UNIT_ADDRESS, at->address);
	gp_emit_hide(emit, !shown);
	gp_emit_item(emit, "   ");
	gp_emit_words(emit, words(at, text, sizeof(text)));
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
	gp_emit_close(emit);
}

static void frame(struct gp_emit *emit, uint64_t word, bool shown)
{
	struct gp_frame_text at;

	gp_frame_look_up(word, &at);
	frame_text(emit, &at, shown);
}

/* Frames left out of the text, or beyond what is kept. */
static void and_more(struct gp_emit *emit, unsigned hidden, bool cut,
		     const char *what)
{
	char text[64];

	if (!hidden && !cut)
		return;
	if (cut)
		snprintf(text, sizeof(text), "... and more %s frames", what);
	else
		snprintf(text, sizeof(text), "... and %u more %s frame%s",
			 hidden, what, hidden == 1 ? "" : "s");
	gp_emit_item(emit, "   ");
	gp_emit_words(emit, text);
	gp_emit_line(emit);
}

static unsigned less(unsigned all, unsigned shown)
{
	return all > shown ? all - shown : 0;
}

static void frames(struct gp_emit *emit, const char *key,
		   const struct gp_stack *stack)
{
	unsigned shown_native =
		stack->python ? SHOWN_NATIVE : SHOWN_PYTHON + SHOWN_NATIVE;

	gp_emit_list(emit, key);
	for (unsigned i = 0; i < stack->python; i++)
		frame(emit, stack->frames[i], i < SHOWN_PYTHON);
	and_more(emit, less(stack->python, SHOWN_PYTHON), stack->python_cut,
		 "Python");
	for (unsigned i = 0; i < stack->native; i++)
		frame(emit, stack->frames[stack->python + i], i < shown_native);
	and_more(emit, less(stack->native, shown_native), stack->native_cut,
		 "native");
	gp_emit_close(emit);
}

void gp_report_oom_stack(struct gp_emit *emit, const struct gp_report *report)
{
	const struct gp_stack *stack = &report->oom_stack;
	const char *says =
		report->has_oom_stack
			? gp_stack_python_says((enum gp_stack_python)stack->why)
			: "Not kept; stacks:oom, the default, keeps it.";

	gp_emit_heading(emit, "Call stack of the request");
	frames(emit, "oom_stack", stack);
	gp_emit_words(emit, says);
	gp_emit_hide(emit, true);
	gp_emit_string(emit, "oom_stack_note", says);
	gp_emit_hide(emit, false);
	gp_emit_line(emit);
}

/* ---- overruns -------------------------------------------------------------------- */

const char *gp_overrun_words(const struct gp_report_overrun *overrun,
			     char *text, size_t size)
{
	bool before = overrun->first < 0;
	uint64_t away = before ? (uint64_t)-overrun->first
			       : (uint64_t)overrun->first - overrun->bytes;

	snprintf(text, size,
		 "overrun: %llu bytes were written beside 0x%llx of %llu bytes "
		 "on device %d, the first at offset %lld, %llu bytes %s",
		 (unsigned long long)overrun->wrong,
		 (unsigned long long)overrun->address,
		 (unsigned long long)overrun->bytes, overrun->device,
		 (long long)overrun->first, (unsigned long long)away,
		 before ? "before its start" : "past its end");
	return text;
}

static void overrun(struct gp_emit *emit, const struct gp_report_overrun *o)
{
	bool before = o->first < 0;
	char text[160];

	gp_emit_object(emit, NULL);
	gp_emit_item(emit, "-");
	gp_emit_words(emit, gp_overrun_words(o, text, sizeof(text)));
	gp_emit_line(emit);
	gp_emit_hide(emit, true);
	gp_emit_number(emit, "device", GP_UNIT_PLAIN, (uint64_t)o->device);
	gp_emit_number(emit, "address", GP_UNIT_ADDRESS, o->address);
	gp_emit_number(emit, "bytes", GP_UNIT_BYTES, o->bytes);
	gp_emit_number(emit, "wrong_bytes", GP_UNIT_BYTES, o->wrong);
	gp_emit_bool(emit, "before", before);
	gp_emit_number(emit, "distance", GP_UNIT_BYTES,
		       before ? (uint64_t)-o->first
			      : (uint64_t)o->first - o->bytes);
	gp_emit_hide(emit, false);
	gp_emit_item(emit, "  ");
	gp_emit_words(emit, "allocated in");
	gp_emit_line(emit);
	frames(emit, "allocated", &o->allocated);
	gp_emit_item(emit, "  ");
	gp_emit_words(emit, "freed in");
	gp_emit_line(emit);
	frames(emit, "freed", &o->freed);
	gp_emit_close(emit);
}

void gp_report_overruns(struct gp_emit *emit, const struct gp_report *report)
{
	if (!report->num_overruns)
		return;
	gp_emit_heading(emit, "Overruns");
	gp_emit_hide(emit, report->num_overruns <= GP_REPORT_OVERRUNS);
	gp_emit_words(emit, "The first ones of");
	gp_emit_number(emit, "num_overruns", GP_UNIT_COUNT,
		       report->num_overruns);
	gp_emit_words(emit, ".");
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
	gp_emit_list(emit, "overruns");
	for (uint64_t i = 0; i < report->num_overruns && i < GP_REPORT_OVERRUNS;
	     i++)
		overrun(emit, &report->overruns[i]);
	gp_emit_close(emit);
}

/* ---- sites ---------------------------------------------------------------------- */

static void level(struct gp_emit *emit, const struct gp_report *report,
		  const struct gp_site_row *row)
{
	gp_emit_item(emit, "-");
	gp_emit_number(emit, "bytes", GP_UNIT_BYTES, row->bytes);
	gp_emit_words(emit, "in");
	gp_emit_number(emit, "blocks", GP_UNIT_COUNT, row->blocks);
	gp_emit_words(emit, row->blocks == 1 ? "block," : "blocks,");
	gp_emit_number(emit, "share", GP_UNIT_PERCENT,
		       gp_percent(row->bytes, report->site_totals.bytes));
	gp_emit_words(emit, "(at the peak");
	gp_emit_number(emit, "peak_bytes", GP_UNIT_BYTES, row->peak_bytes);
	gp_emit_words(emit, "; of");
	gp_emit_number(emit, "all_bytes", GP_UNIT_BYTES, row->all_bytes);
	gp_emit_words(emit, "in");
	gp_emit_number(emit, "all_blocks", GP_UNIT_COUNT, row->all_blocks);
	gp_emit_words(emit, "ever)");
}

static void slope(struct gp_emit *emit, const struct gp_site_row *row)
{
	/* What grew for less than a minute says nothing about an hour. */
	gp_emit_hide(emit, !row->growth || row->since_ns < MINUTE_NS);
	gp_emit_words(emit, ", grows by");
	gp_emit_number(emit, "growth_bytes_per_hour", GP_UNIT_BYTES,
		       row->growth);
	gp_emit_words(emit, "an hour");
	gp_emit_hide(emit, true);
	gp_emit_number(emit, "growth_ns", GP_UNIT_NS, row->since_ns);
	gp_emit_hide(emit, false);
}

static void site(struct gp_emit *emit, const struct gp_report *report,
		 const struct gp_site_row *row)
{
	bool empty = !row->stack.python && !row->stack.native;
	const char *says =
		empty ? "Stacks that there was no room for."
		      : gp_stack_python_says(
				(enum gp_stack_python)row->stack.why);

	gp_emit_object(emit, NULL);
	level(emit, report, row);
	slope(emit, row);
	gp_emit_line(emit);
	frames(emit, "frames", &row->stack);
	gp_emit_hide(emit, !!row->stack.python || !*says);
	gp_emit_item(emit, "   ");
	gp_emit_words(emit, says);
	gp_emit_hide(emit, true);
	gp_emit_string(emit, "note", says);
	gp_emit_hide(emit, false);
	gp_emit_line(emit);
	gp_emit_close(emit);
}

static void list(struct gp_emit *emit, const struct gp_report *report,
		 const char *key, const char *heading,
		 const struct gp_site_row *rows, size_t n)
{
	if (n)
		gp_emit_heading(emit, heading);
	gp_emit_list(emit, key);
	for (size_t i = 0; i < n; i++)
		site(emit, report, &rows[i]);
	gp_emit_close(emit);
}

/* How the figures came about, and what they leave out. */
static void origin(struct gp_emit *emit, const struct gp_report *report)
{
	const struct gp_sites_totals *totals = &report->site_totals;

	gp_emit_words(emit, "Of");
	gp_emit_number(emit, "call_site_bytes", GP_UNIT_BYTES, totals->bytes);
	gp_emit_words(emit, "live in");
	gp_emit_number(emit, "call_site_blocks", GP_UNIT_COUNT, totals->blocks);
	gp_emit_words(emit, "blocks");
	gp_emit_hide(emit, !report->sample_bytes);
	gp_emit_words(emit, ", estimated from");
	gp_emit_number(emit, "call_site_samples", GP_UNIT_COUNT,
		       totals->entered);
	gp_emit_words(emit, "samples, one in");
	gp_emit_number(emit, "sample_bytes", GP_UNIT_BYTES,
		       report->sample_bytes);
	gp_emit_words(emit, "or more");
	gp_emit_hide(emit, false);
	gp_emit_words(emit, ".");
	gp_emit_hide(emit, !totals->dropped_stacks);
	gp_emit_words(emit, "Without a stack, for lack of room:");
	gp_emit_number(emit, "call_site_stacks_dropped", GP_UNIT_COUNT,
		       totals->dropped_stacks);
	gp_emit_words(emit, ".");
	gp_emit_hide(emit, !totals->dropped_blocks);
	gp_emit_words(emit, "Left out, for lack of room:");
	gp_emit_number(emit, "call_site_blocks_dropped", GP_UNIT_COUNT,
		       totals->dropped_blocks);
	gp_emit_words(emit, "blocks.");
	gp_emit_hide(emit, true);
	gp_emit_number(emit, "call_sites", GP_UNIT_COUNT, totals->sites);
	gp_emit_number(emit, "call_site_peak_bytes", GP_UNIT_BYTES,
		       totals->peak_bytes);
	gp_emit_hide(emit, false);
	gp_emit_line(emit);
}

void gp_report_sites(struct gp_emit *emit, const struct gp_report *report)
{
	bool at_exit = report->reason == GP_REPORT_EXIT;

	gp_emit_heading(emit, "Call sites");
	gp_emit_hide(emit, report->has_sites);
	gp_emit_words(emit, "Not kept; stacks:sample tells which lines of the "
			    "program hold memory, and which leak.");
	gp_emit_hide(emit, true);
	gp_emit_bool(emit, "call_sites_kept", report->has_sites);
	gp_emit_hide(emit, false);
	if (report->has_sites)
		origin(emit, report);
	gp_emit_line(emit);
	list(emit, report, "leaks", "Leaks: still allocated at exit",
	     report->sites, at_exit ? report->num_sites : 0);
	list(emit, report, "top_sites",
	     at_exit ? "Top call sites at the peak"
		     : "Top call sites by live bytes",
	     at_exit ? report->peak_sites : report->sites,
	     at_exit ? report->num_peak_sites : report->num_sites);
	list(emit, report, "growing_sites", "Growth: sites that only ever grew",
	     report->growing_sites, report->num_growing_sites);
}

/* ---- blocks --------------------------------------------------------------------- */

/* The program waits for a report, at its end for three seconds at most, and to
 * find a name in a large library takes up to a millisecond. After so long
 * functions of the machine are told by their addresses. */
#define NAMES_NS 1000000000u

static void block_frames(struct gp_emit *emit,
			 const struct gp_block_sites *sites)
{
	uint64_t until = gp_clock_ns(CLOCK_MONOTONIC) + NAMES_NS;
	struct gp_frame_text unnamed = {.function = "", .file = ""};

	gp_emit_list(emit, "frames");
	for (size_t i = 0; i < sites->num_frames; i++) {
		uint64_t word = sites->frames[i];

		if (gp_frame_is_place(word) ||
		    gp_clock_ns(CLOCK_MONOTONIC) < until) {
			frame(emit, word, false);
		} else {
			unnamed.address = word;
			frame_text(emit, &unnamed, false);
		}
	}
	gp_emit_close(emit);
}

/* For maps and snapshots. */
void gp_report_block_sites(struct gp_emit *emit, const struct gp_report *report)
{
	const struct gp_block_sites *sites = report->block_sites;
	uint32_t from = 0;

	if (!sites || !emit->json)
		return;
	gp_emit_object(emit, "block_sites");
	gp_emit_number(emit, "left_out", GP_UNIT_COUNT, sites->left_out);
	block_frames(emit, sites);
	gp_emit_list(emit, "sites");
	for (size_t i = 0; i < sites->num_sites; i++) {
		gp_emit_numbers(emit, NULL, &sites->stacks[from],
				sites->ends[i] - from, 1);
		from = sites->ends[i];
	}
	gp_emit_close(emit);
	gp_emit_close(emit);
}
