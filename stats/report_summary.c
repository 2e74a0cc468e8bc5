/*
 * What happened, in plain words and in a handful of figures.
 */
#include "stats/report_impl.h"

static uint64_t elapsed(const struct gp_report *report)
{
	return report->now_unix_ns > report->start_unix_ns
		       ? report->now_unix_ns - report->start_unix_ns
		       : 0;
}

static void held(struct gp_emit *emit, const struct gp_report *report,
		 const struct gp_report_totals *totals)
{
	const bool any = totals->allocated.allocated > 0;

	gp_emit_words(emit, "In");
	gp_emit_number(emit, "elapsed_ns", GP_UNIT_NS, elapsed(report));
	gp_emit_hide(emit, any);
	gp_emit_words(emit, "the program took nothing from the pool.");
	gp_emit_hide(emit, !any);
	gp_emit_words(emit, "the program held at most");
	gp_emit_number(emit, "peak_allocated_bytes", GP_UNIT_BYTES,
		       totals->most_allocated);
	gp_emit_words(emit, "of pooled device memory at one time; the most "
			    "that was reserved for it was");
	gp_emit_number(emit, "peak_reserved_bytes", GP_UNIT_BYTES,
		       totals->most_reserved);
	gp_emit_words(emit, "(");
	gp_emit_number(
		emit, "peak_use_percent", GP_UNIT_PERCENT,
		gp_percent(totals->most_allocated, totals->most_reserved));
	gp_emit_words(emit, "in use).");
	gp_emit_hide(emit, !any || report->num_pools < 2);
	gp_emit_words(emit, "Both add up the peaks of");
	gp_emit_number(emit, "num_pools", GP_UNIT_COUNT, report->num_pools);
	gp_emit_words(emit, "pools.");
	gp_emit_hide(emit, false);
}

static void left(struct gp_emit *emit, const struct gp_report *report,
		 const struct gp_report_totals *totals)
{
	const bool any = totals->allocated.allocated > 0;
	const bool live = totals->allocation.current > 0;
	const bool at_exit = report->reason == GP_REPORT_EXIT;

	gp_emit_hide(emit, !any || live);
	gp_emit_words(emit, at_exit ? "Everything was freed."
				    : "Nothing is allocated now.");
	gp_emit_hide(emit, !any || !live);
	gp_emit_words(emit, at_exit ? "At the end" : "It now has");
	gp_emit_number(emit, "live_allocations", GP_UNIT_COUNT,
		       totals->allocation.current);
	gp_emit_words(emit, totals->allocation.current == 1 ? "allocation of"
							    : "allocations of");
	gp_emit_number(emit, "allocated_bytes", GP_UNIT_BYTES,
		       totals->allocated.current);
	gp_emit_words(emit,
		      at_exit ? "together had not been freed." : "together.");
	gp_emit_hide(emit, !any);
	if (report->num_pools > 1)
		gp_emit_words(emit, at_exit ? "The pools still had"
					    : "The pools have");
	else
		gp_emit_words(emit,
			      at_exit ? "The pool still had" : "The pool has");
	gp_emit_number(emit, "reserved_bytes", GP_UNIT_BYTES,
		       totals->reserved.current);
	gp_emit_words(emit, "reserved,");
	gp_emit_number(emit, "cached_bytes", GP_UNIT_BYTES, totals->cached);
	gp_emit_words(emit, "of it cached.");
	gp_emit_hide(emit, false);
}

static void saved(struct gp_emit *emit, const struct gp_report *report,
		  const struct gp_report_totals *totals)
{
	/* Waits are driver calls too, and not among these. */
	gp_emit_hide(emit, report->calls_saved == 0);
	gp_emit_words(emit, "For");
	gp_emit_number(emit, "calls_saved", GP_UNIT_COUNT, report->calls_saved);
	gp_emit_words(emit, report->calls_saved == 1 ? "call of the program"
						     : "calls of the program");
	gp_emit_words(emit, "the driver was called");
	gp_emit_number(emit, "driver_calls", GP_UNIT_COUNT,
		       report->driver_calls);
	gp_emit_words(emit, report->driver_calls == 1 ? "time" : "times");
	gp_emit_words(emit, "to get or give back memory, which took");
	gp_emit_number(emit, "driver_ns", GP_UNIT_NS, totals->driver_ns);
	gp_emit_hide(emit, report->calls_saved == 0 || totals->saved_ns == 0);
	gp_emit_words(emit, "; the calls not made would have taken about");
	gp_emit_number(emit, "saved_ns", GP_UNIT_NS, totals->saved_ns);
	gp_emit_hide(emit, report->calls_saved == 0);
	gp_emit_words(emit, ".");
	gp_emit_hide(emit, totals->num_ooms == 0);
	gp_emit_number(emit, "num_ooms", GP_UNIT_COUNT, totals->num_ooms);
	gp_emit_words(emit, totals->num_ooms == 1
				    ? "request was refused for lack of memory."
				    : "requests were refused for lack of "
				      "memory.");
	gp_emit_hide(emit, false);
}

static void outside(struct gp_emit *emit, const struct gp_report *report,
		    const struct gp_report_totals *totals)
{
	const bool at_exit = report->reason == GP_REPORT_EXIT;

	gp_emit_hide(emit, totals->passthrough_device == 0);
	gp_emit_words(emit, at_exit ? "Outside the pool, the process still held"
				    : "Outside the pool, the process holds");
	gp_emit_number(emit, "passthrough_device_bytes", GP_UNIT_BYTES,
		       totals->passthrough_device);
	gp_emit_words(emit, "of device memory.");
	gp_emit_hide(emit, totals->passthrough_host == 0);
	gp_emit_words(emit, "Pinned host memory:");
	gp_emit_number(emit, "passthrough_host_bytes", GP_UNIT_BYTES,
		       totals->passthrough_host);
	gp_emit_words(emit, ".");
	gp_emit_hide(emit, false);
}

void gp_report_summary(struct gp_emit *emit, const struct gp_report *report,
		       const struct gp_report_totals *totals)
{
	held(emit, report, totals);
	left(emit, report, totals);
	saved(emit, report, totals);
	outside(emit, report, totals);
	gp_emit_line(emit);
}
