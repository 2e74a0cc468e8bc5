/*
 * The tables of one pool.
 */
#include "stats/report_impl.h"

#define CELL       14
/* Labels that are a sentence's worth, and one or two columns. */
#define LONG_LABEL 46
/* From one range of a layout to the next, as gp_emit_numbers() steps. */
#define RANGE      (sizeof(struct gp_layout_range) / sizeof(uint64_t))

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

static void share(struct gp_emit *emit, const char *label, const char *key,
		  const char *percent_key, uint64_t part, uint64_t whole)
{
	gp_emit_row(emit, label, LONG_LABEL, CELL);
	gp_emit_number(emit, key, GP_UNIT_BYTES, part);
	gp_emit_number(emit, percent_key, GP_UNIT_PERCENT,
		       gp_percent(part, whole));
	gp_emit_line(emit);
}

/* The gauge has its keys among PyTorch's. */
static void bound(struct gp_emit *emit, const struct gp_stat *stat,
		  uint64_t cached)
{
	gp_emit_row(emit, "  beside what is in use: can do neither", LONG_LABEL,
		    CELL);
	gp_emit_again(emit, GP_UNIT_BYTES, stat->current);
	gp_emit_number(emit, "inactive_split_percent", GP_UNIT_PERCENT,
		       gp_percent(stat->current, cached));
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
	gp_emit_gap(emit);
	gp_emit_row(emit, "Of the cached memory", LONG_LABEL, CELL);
	gp_emit_line(emit);
	share(emit, "  in whole handles: can move, or be given back",
	      "movable_bytes", "movable_percent", stats->movable_bytes,
	      stats->cached_bytes);
	bound(emit, &stats->inactive_split_bytes, stats->cached_bytes);
	share(emit, "  largest free range", "largest_free_bytes",
	      "largest_free_percent", stats->largest_free_bytes,
	      stats->cached_bytes);
	share(emit, "  not in it: external fragmentation",
	      "external_fragmentation_bytes", "external_fragmentation_percent",
	      stats->cached_bytes > stats->largest_free_bytes
		      ? stats->cached_bytes - stats->largest_free_bytes
		      : 0,
	      stats->cached_bytes);
	gp_emit_row(emit, "  free ranges", LONG_LABEL, CELL);
	gp_emit_number(emit, "free_ranges", GP_UNIT_COUNT, stats->free_ranges);
	gp_emit_line(emit);
}

/* What never happened takes no row. */
static void counter(struct gp_emit *emit, const char *label, const char *key,
		    enum gp_unit unit, uint64_t value)
{
	gp_emit_hide(emit, value == 0);
	gp_emit_row(emit, label, LONG_LABEL, CELL);
	gp_emit_number(emit, key, unit, value);
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
}

/* Call by call, in JSON only. */
static void driver_calls(struct gp_emit *emit,
			 const struct gp_pool_stats *stats)
{
	gp_emit_hide(emit, true);
#define X(name, function)                                             \
	gp_emit_number(emit, "driver." #name ".calls", GP_UNIT_COUNT, \
		       stats->calls[GP_TIMED_##name].calls);          \
	gp_emit_number(emit, "driver." #name ".ns", GP_UNIT_NS,       \
		       stats->calls[GP_TIMED_##name].ns);
	GP_TIMED_CALLS(X)
#undef X
	gp_emit_hide(emit, false);
}

static void counters(struct gp_emit *emit, const struct gp_pool_stats *stats)
{
	gp_emit_gap(emit);
#define X(name, unit, help) \
	counter(emit, help, #name, GP_UNIT_##unit, stats->name);
	GP_POOL_COUNTERS(X)
#undef X
	counter(emit, "driver time saved, estimated", "saved_ns", GP_UNIT_NS,
		stats->saved_ns);
	counter(emit, "hit rate", "hit_rate_percent", GP_UNIT_PERCENT,
		gp_percent(stats->num_hits, stats->num_alloc_calls));
	driver_calls(emit, stats);
}

/* For plots. Times are from the program's start. */
static void timeline(struct gp_emit *emit, const struct gp_report_pool *pool,
		     uint64_t start_unix_ns)
{
	const struct gp_timeline_point *points = pool->points;
	const size_t n = pool->num_points;
	const size_t step = sizeof(*points) / sizeof(uint64_t);
	uint64_t elapsed[GP_TIMELINE_POINTS];

	/* The clock may have been set back since the start. */
	for (size_t i = 0; i < n; i++)
		elapsed[i] = points[i].ns > start_unix_ns
				     ? points[i].ns - start_unix_ns
				     : 0;
	gp_emit_object(emit, "timeline");
	gp_emit_numbers(emit, "elapsed_ns", elapsed, n, 1);
	gp_emit_numbers(emit, "allocated_bytes", &points->allocated, n, step);
	gp_emit_numbers(emit, "reserved_bytes", &points->reserved, n, step);
	gp_emit_close(emit);
}

static void places(struct gp_emit *emit, const struct gp_layout_range *first,
		   size_t n)
{
	gp_emit_numbers(emit, "address", &first->address, n, RANGE);
	gp_emit_numbers(emit, "bytes", &first->bytes, n, RANGE);
}

static void blocks(struct gp_emit *emit, const struct gp_layout *layout)
{
	const struct gp_layout_range *first = layout->blocks;
	const size_t n = layout->num_blocks;

	gp_emit_object(emit, "blocks");
	places(emit, first, n);
	gp_emit_numbers(emit, "requested", &first->requested, n, RANGE);
	gp_emit_numbers(emit, "blocks", &first->blocks, n, RANGE);
	if (layout->has_sites)
		gp_emit_numbers(emit, "site", &first->site, n, RANGE);
	gp_emit_close(emit);
}

/* For maps and snapshots. */
static void layout(struct gp_emit *emit, const struct gp_layout *layout)
{
	if (!layout->unix_ns || !emit->json)
		return;
	gp_emit_object(emit, "layout");
	gp_emit_number(emit, "unix_ns", GP_UNIT_TIME, layout->unix_ns);
	gp_emit_number(emit, "left_out", GP_UNIT_COUNT, layout->left_out);
	gp_emit_bool(emit, "expandable", layout->expandable);
	gp_emit_object(emit, "segments");
	places(emit, layout->segments, layout->num_segments);
	gp_emit_close(emit);
	blocks(emit, layout);
	gp_emit_close(emit);
}

void gp_report_figures(struct gp_emit *emit, const struct gp_pool_stats *stats)
{
	gp_report_gauges(emit, stats);
	fragmentation(emit, stats);
	counters(emit, stats);
}

void gp_report_pool(struct gp_emit *emit, const struct gp_report_pool *pool,
		    uint64_t start_unix_ns)
{
	gp_emit_object(emit, NULL);
	title(emit, pool);
	gp_report_figures(emit, &pool->stats);
	timeline(emit, pool, start_unix_ns);
	layout(emit, &pool->layout);
	gp_emit_close(emit);
}
