/*
 * A pool's gauges under PyTorch's keys: those of torch.cuda.memory_stats(),
 * all of them. The page shows the ones that a person asks for first.
 */
#include "stats/report_impl.h"

/* Four columns of 14 behind a label: 78 of a page's 80. */
#define LABEL 22
#define CELL  14

struct stat_keys {
	const char *current, *peak, *allocated, *freed;
};

static void stat(struct gp_emit *emit, enum gp_unit unit,
		 const struct stat_keys *keys, const struct gp_stat *stat)
{
	gp_emit_number(emit, keys->current, unit, stat->current);
	gp_emit_number(emit, keys->peak, unit, stat->peak);
	gp_emit_number(emit, keys->allocated, unit, stat->allocated);
	gp_emit_number(emit, keys->freed, unit, stat->freed);
}

/* On the page if it has a label there. */
static void row(struct gp_emit *emit, const char *label, enum gp_unit unit,
		const struct stat_keys *keys, const struct gp_stat *values)
{
	gp_emit_hide(emit, !label);
	gp_emit_row(emit, label ? label : "", LABEL, CELL);
	stat(emit, unit, keys, values);
	gp_emit_line(emit);
	gp_emit_hide(emit, false);
}

/* What the page calls them; a gauge without an entry does not build. */
#define LABEL_allocated_bytes      "Allocated"
#define LABEL_requested_bytes      "Requested"
#define LABEL_active_bytes         NULL
#define LABEL_reserved_bytes       "Reserved"
#define LABEL_inactive_split_bytes NULL
#define LABEL_allocation           "Allocations"
#define LABEL_active               NULL
#define LABEL_segment              "Handles or segments"
#define LABEL_inactive_split       NULL

#define KEYS(name)                                                \
	(&(const struct stat_keys){name ".current", name ".peak", \
				   name ".allocated", name ".freed"})

void gp_report_gauges(struct gp_emit *emit, const struct gp_pool_stats *stats)
{
	gp_emit_row(emit, "", LABEL, CELL);
	gp_emit_cell(emit, "now");
	gp_emit_cell(emit, "peak");
	gp_emit_cell(emit, "total taken");
	gp_emit_cell(emit, "total freed");
	gp_emit_line(emit);
#define X(name, unit, help)                                         \
	row(emit, LABEL_##name, GP_UNIT_##unit, KEYS(#name ".all"), \
	    &stats->name);                                          \
	row(emit, NULL, GP_UNIT_##unit, KEYS(#name ".small_pool"),  \
	    &stats->name##_small);                                  \
	row(emit, NULL, GP_UNIT_##unit, KEYS(#name ".large_pool"),  \
	    &stats->name##_large);
	GP_POOL_GAUGES(X)
#undef X
#define X(name, unit, help) \
	row(emit, NULL, GP_UNIT_##unit, KEYS(#name), &stats->name);
	GP_POOL_OVERSIZE(X)
#undef X
	gp_emit_hide(emit, true);
	gp_emit_number(emit, "num_device_alloc", GP_UNIT_COUNT,
		       stats->segment.allocated);
	gp_emit_number(emit, "num_device_free", GP_UNIT_COUNT,
		       stats->segment.freed);
	/* PyTorch's count of waits for all pending frees is nearest to this. */
	gp_emit_number(emit, "num_sync_all_streams", GP_UNIT_COUNT,
		       stats->num_memory_waits);
	gp_emit_number(emit, "max_split_size", GP_UNIT_BYTES,
		       stats->max_split_size);
	gp_emit_number(emit, "most_allocated_bytes", GP_UNIT_BYTES,
		       stats->most_allocated_bytes);
	gp_emit_number(emit, "most_reserved_bytes", GP_UNIT_BYTES,
		       stats->most_reserved_bytes);
	gp_emit_hide(emit, false);
}
