/*
 * The tables of one pool.
 */
#include "stats/report_impl.h"

/* Four columns of 14 behind a label: 78 of a page's 80. */
#define LABEL      22
#define CELL       14
/* Labels that are a sentence's worth, and one or two columns. */
#define LONG_LABEL 46

static void title(struct gp_emit *emit, const struct gp_report_pool *pool)
{
	gp_emit_words(emit, "Device");
	gp_emit_number(emit, "device", GP_UNIT_PLAIN, (uint64_t)pool->device);
	gp_emit_words(emit, ",");
	gp_emit_string(emit, "device_name", pool->device_name);
	gp_emit_words(emit, ",");
	gp_emit_words(emit, pool->primary ? "primary context" : "context");
	gp_emit_number(emit, "context", GP_UNIT_ADDRESS, pool->context);
	gp_emit_hide(emit, true);
	gp_emit_bool(emit, "primary", pool->primary);
	gp_emit_hide(emit, false);
	gp_emit_hide(emit, pool->total_bytes == GP_UNKNOWN);
	gp_emit_words(emit, ":");
	gp_emit_number(emit, "total_bytes", GP_UNIT_BYTES, pool->total_bytes);
	gp_emit_words(emit, "in all");
	gp_emit_hide(emit, pool->free_bytes == GP_UNKNOWN);
	gp_emit_words(emit, ",");
	gp_emit_number(emit, "free_bytes", GP_UNIT_BYTES, pool->free_bytes);
	gp_emit_words(emit, "free");
	gp_emit_hide(emit, false);
	gp_emit_words(emit, ".");
	gp_emit_gap(emit);
}

struct stat_keys {
	const char *current, *peak, *allocated, *freed;
};

static void gauge(struct gp_emit *emit, const char *label, enum gp_unit unit,
		  const struct stat_keys *keys, const struct gp_stat *stat)
{
	gp_emit_row(emit, label, LABEL, CELL);
	gp_emit_number(emit, keys->current, unit, stat->current);
	gp_emit_number(emit, keys->peak, unit, stat->peak);
	gp_emit_number(emit, keys->allocated, unit, stat->allocated);
	gp_emit_number(emit, keys->freed, unit, stat->freed);
	gp_emit_line(emit);
}

/* What the page calls them; a gauge without a label does not build. */
#define LABEL_allocated_bytes "Allocated"
#define LABEL_requested_bytes "Requested"
#define LABEL_reserved_bytes  "Reserved"
#define LABEL_allocation      "Allocations"
#define LABEL_segment         "Handles or segments"

static void gauges(struct gp_emit *emit, const struct gp_pool_stats *stats)
{
	gp_emit_row(emit, "", LABEL, CELL);
	gp_emit_cell(emit, "now");
	gp_emit_cell(emit, "peak");
	gp_emit_cell(emit, "total taken");
	gp_emit_cell(emit, "total freed");
	gp_emit_line(emit);
#define X(name, unit, help)                                        \
	gauge(emit, LABEL_##name, GP_UNIT_##unit,                  \
	      &(const struct stat_keys){                           \
		      #name ".all.current", #name ".all.peak",     \
		      #name ".all.allocated", #name ".all.freed"}, \
	      &stats->name);
	GP_POOL_GAUGES(X)
#undef X
}

static void share(struct gp_emit *emit, const char *label, const char *key,
		  const char *percent_key, uint64_t part, uint64_t whole)
{
	gp_emit_row(emit, label, LONG_LABEL, CELL);
	gp_emit_number(emit, key, GP_UNIT_BYTES, part);
	gp_emit_number(emit, percent_key, GP_UNIT_PERCENT,
		       gp_percent(part, whole));
	gp_emit_line(emit);
}

static void fragmentation(struct gp_emit *emit,
			  const struct gp_pool_stats *stats)
{
	const uint64_t reserved = stats->reserved_bytes.current;
	const uint64_t allocated = stats->allocated_bytes.current;

	gp_emit_gap(emit);
	gp_emit_row(emit, "Of the reserved memory", LONG_LABEL, CELL);
	gp_emit_line(emit);
	share(emit, "  allocated, as asked for", "in_use_bytes",
	      "in_use_percent",
	      allocated > stats->rounding_bytes
		      ? allocated - stats->rounding_bytes
		      : 0,
	      reserved);
	share(emit, "  allocated above that, by rounding", "rounding_bytes",
	      "rounding_percent", stats->rounding_bytes, reserved);
	share(emit, "  cached, free for the next request", "cached_bytes",
	      "cached_percent", stats->cached_bytes, reserved);
	share(emit, "  largest free range, and its share of cached",
	      "largest_free_bytes", "largest_free_percent",
	      stats->largest_free_bytes, stats->cached_bytes);
	gp_emit_row(emit, "  free ranges", LONG_LABEL, CELL);
	gp_emit_number(emit, "free_ranges", GP_UNIT_COUNT, stats->free_ranges);
	gp_emit_line(emit);
}

static void counter(struct gp_emit *emit, const char *label, const char *key,
		    enum gp_unit unit, uint64_t value)
{
	gp_emit_row(emit, label, LONG_LABEL, CELL);
	gp_emit_number(emit, key, unit, value);
	gp_emit_line(emit);
}

static void counters(struct gp_emit *emit, const struct gp_pool_stats *stats)
{
	gp_emit_gap(emit);
#define X(name, unit, help) \
	counter(emit, help, #name, GP_UNIT_##unit, stats->name);
	GP_POOL_COUNTERS(X)
#undef X
}

void gp_report_pool(struct gp_emit *emit, const struct gp_report_pool *pool)
{
	gp_emit_object(emit, NULL);
	title(emit, pool);
	gauges(emit, &pool->stats);
	fragmentation(emit, &pool->stats);
	counters(emit, &pool->stats);
	gp_emit_close(emit);
}
