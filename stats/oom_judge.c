/*
 * Why a request was refused, from the figures there are.
 */
#include <string.h>

#include "stats/report.h"

/* What is this much in use is full: the last pieces are nobody's fault. */
#define FULL_PERCENT 95u

/* The driver gives out memory in pieces of this size. */
#define PIECE        (2ull << 20)

static uint64_t less(uint64_t from, uint64_t amount)
{
	return from > amount ? from - amount : 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void look_at_pool(const struct gp_report_pool *pool,
			 struct gp_oom_view *view)
{
	const struct gp_pool_stats *stats = &pool->stats;

	view->pools++;
	view->name = pool->device_name;
	view->total = pool->total_bytes;
	if (pool->free_bytes != GP_UNKNOWN)
		view->free = pool->free_bytes;
	view->reserved += stats->reserved_bytes.current;
	view->allocated += stats->allocated_bytes.current;
	view->requested += stats->requested_bytes.current;
	view->cached += stats->cached_bytes;
	view->movable += stats->movable_bytes;
	view->pieces += stats->free_ranges;
	if (stats->largest_free_bytes > view->largest)
		view->largest = stats->largest_free_bytes;
	if (pool->no_remap) {
		view->no_remap = pool->no_remap;
		view->could_remap |= pool->could_remap;
	}
}

static void look_at_limit(const struct gp_report *report,
			  struct gp_oom_view *view)
{
	view->cap = GP_NO_LIMIT;
	for (size_t i = 0; i < report->num_devices; i++) {
		const struct gp_report_device *device = &report->devices[i];

		if (device->device != report->oom.device)
			continue;
		view->limit = &device->limit;
		view->cap = device->limit.cap;
		view->context = device->limit.part[GP_PART_context];
		view->outside = less(less(device->limit.held, view->context),
				     device->limit.part[GP_PART_pool]);
		if (view->total == GP_UNKNOWN && device->total_bytes)
			view->total = device->total_bytes;
	}
	view->held = view->reserved + view->outside + view->context;
}

/* Memory in use that nothing of ours explains. */
static void look_at_others(const struct gp_oom *oom, struct gp_oom_view *view)
{
	uint64_t known = 0, own = view->held;

	for (size_t i = 0; i < oom->num_others; i++)
		if (oom->others[i].bytes != GP_UNKNOWN)
			known = sum(known, oom->others[i].bytes);
	view->others = known ? known : GP_UNKNOWN;
	if (view->total == GP_UNKNOWN || view->free == GP_UNKNOWN)
		return;
	if (oom->own != GP_UNKNOWN && oom->own > own)
		own = oom->own;
	view->others = less(less(view->total, view->free), own);
	view->others_mixed = oom->own == GP_UNKNOWN && !view->context;
}

static void look(const struct gp_report *report, struct gp_oom_view *view)
{
	const struct gp_oom *oom = &report->oom;

	*view = (struct gp_oom_view){
		.total = GP_UNKNOWN, .free = GP_UNKNOWN, .name = ""};
	for (size_t i = 0; i < report->num_pools; i++)
		if (report->pools[i].device == oom->device)
			look_at_pool(&report->pools[i], view);
	if (oom->total != GP_UNKNOWN)
		view->total = oom->total;
	if (oom->free != GP_UNKNOWN)
		view->free = oom->free;
	look_at_limit(report, view);
	look_at_others(oom, view);
}

/* Of `whole`, is nearly all in use by somebody? */
static bool full(uint64_t used, uint64_t whole)
{
	return used / 100 >= whole / 100 * FULL_PERCENT / 100;
}

static enum gp_oom_cause by_limit(const struct gp_oom_view *view,
				  uint64_t wanted)
{
	uint64_t used = view->allocated + view->outside + view->context;

	if (!view->limit || !view->cap)
		return GP_OOM_BAD_LIMIT;
	if (wanted > view->cap)
		return GP_OOM_OVER_LIMIT;
	if (view->largest < wanted && view->cached &&
	    sum(less(view->cap, view->limit->held), view->cached) >= wanted &&
	    !full(used, view->cap))
		return GP_OOM_FRAGMENTED;
	return GP_OOM_LIMIT;
}

/* Who has so much that without it there would have been enough? Of several,
 * who has most. */
static enum gp_oom_cause holder(const struct gp_oom_view *view,
				uint64_t missing)
{
	const uint64_t others = view->others == GP_UNKNOWN ? 0 : view->others;
	enum gp_oom_cause cause = GP_OOM_LIVE;
	uint64_t most = view->allocated;
	bool enough = most >= missing;

	if (others > most || (!enough && others >= missing)) {
		cause = GP_OOM_OTHERS;
		most = others;
		enough = most >= missing;
	}
	if (view->outside > most || (!enough && view->outside >= missing)) {
		cause = GP_OOM_OUTSIDE;
		most = view->outside;
	}
	return most ? cause : GP_OOM_UNKNOWN;
}

static enum gp_oom_cause by_card(const struct gp_oom_view *view,
				 uint64_t wanted)
{
	uint64_t there, used;

	if (view->free == GP_UNKNOWN || view->total == GP_UNKNOWN)
		return view->largest < wanted && view->cached >= wanted
			       ? GP_OOM_FRAGMENTED
			       : GP_OOM_UNKNOWN;
	there = sum(view->free, view->cached);
	used = less(view->total, there);
	if (there < wanted)
		return holder(view, wanted - there);
	if (view->free >= sum(wanted, PIECE) ||
	    (view->largest >= wanted && !full(used, view->total)))
		return GP_OOM_DRIVER;
	if (!view->cached)
		return full(used, view->total) ? holder(view, 0)
					       : GP_OOM_DRIVER;
	return full(used, view->total) ? holder(view, 0) : GP_OOM_FRAGMENTED;
}

void gp_oom_judge(const struct gp_report *report, struct gp_oom_view *view)
{
	const uint64_t wanted = report->oom.bytes;

	look(report, view);
	if (view->total != GP_UNKNOWN && wanted > view->total)
		view->cause = GP_OOM_OVER_DEVICE;
	else if (report->oom.by_limit)
		view->cause = by_limit(view, wanted);
	else
		view->cause = by_card(view, wanted);
	/* A limit that cannot be read refuses everything. */
	if (report->oom.by_limit && view->limit && !view->cap)
		view->cause = GP_OOM_BAD_LIMIT;
}

const char *gp_oom_cause_name(enum gp_oom_cause cause)
{
	static const char *const names[] = {
#define X(name, cause_) [GP_OOM_##cause_] = name,
		GP_OOM_CAUSES(X)
#undef X
	};

	return names[cause];
}
