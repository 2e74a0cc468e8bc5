/* Sums of pools' figures; see pool_stats.h. */
#include "stats/pool_stats.h"

static void add(struct gp_stat *sum, const struct gp_stat *stat)
{
	sum->current += stat->current;
	sum->peak += stat->peak;
	sum->allocated += stat->allocated;
	sum->freed += stat->freed;
}

void gp_pool_stats_add(struct gp_pool_stats *sum,
		       const struct gp_pool_stats *stats)
{
	uint64_t largest = sum->largest_free_bytes;

#define X(name, unit, help)                            \
	add(&sum->name, &stats->name);                 \
	add(&sum->name##_small, &stats->name##_small); \
	add(&sum->name##_large, &stats->name##_large);
	GP_POOL_GAUGES(X)
#undef X
#define X(name, unit, help) add(&sum->name, &stats->name);
	GP_POOL_OVERSIZE(X)
#undef X
#define X(name, unit, help) sum->name += stats->name;
	GP_POOL_COUNTERS(X)
	GP_POOL_LEVELS(X)
#undef X
	for (int i = 0; i < GP_TIMED_COUNT; i++) {
		sum->calls[i].calls += stats->calls[i].calls;
		sum->calls[i].ns += stats->calls[i].ns;
	}
	/* A request is served by one of them. */
	sum->largest_free_bytes = largest > stats->largest_free_bytes
					  ? largest
					  : stats->largest_free_bytes;
	sum->max_split_size = stats->max_split_size;
	sum->most_allocated_bytes += stats->most_allocated_bytes;
	sum->most_reserved_bytes += stats->most_reserved_bytes;
}

static void drop(struct gp_stat *stat)
{
	stat->freed += stat->current;
	stat->current = 0;
}

void gp_pool_stats_drop(struct gp_pool_stats *stats)
{
	const uint64_t saved_ns = stats->saved_ns;

#define X(name, unit, help)         \
	drop(&stats->name);         \
	drop(&stats->name##_small); \
	drop(&stats->name##_large);
	GP_POOL_GAUGES(X)
#undef X
#define X(name, unit, help) drop(&stats->name);
	GP_POOL_OVERSIZE(X)
#undef X
#define X(name, unit, help) stats->name = 0;
	GP_POOL_LEVELS(X)
#undef X
	stats->saved_ns = saved_ns;
}

void gp_pool_stats_reset_peak(struct gp_pool_stats *stats)
{
#define X(name, unit, help)                                     \
	stats->name.peak = stats->name.current;                 \
	stats->name##_small.peak = stats->name##_small.current; \
	stats->name##_large.peak = stats->name##_large.current;
	GP_POOL_GAUGES(X)
#undef X
#define X(name, unit, help) stats->name.peak = stats->name.current;
	GP_POOL_OVERSIZE(X)
#undef X
}
