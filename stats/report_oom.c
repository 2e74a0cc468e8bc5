/*
 * Why a request was refused, from the figures there are.
 */
#include <string.h>

#include "stats/report_impl.h"

/* The device on which memory ran out: its pools together. */
struct device {
	uint64_t total, free; /* or GP_UNKNOWN */
	uint64_t reserved, allocated, requested, cached, largest_free;
	size_t pools;
	const char *name;
	const struct gp_limit_stats *limit; /* NULL: not known */
};

struct cause {
	const char *name; /* in the JSON */
	const char *sentence;
};

static void look(const struct gp_report *report, struct device *device)
{
	*device = (struct device){.total = GP_UNKNOWN, .free = GP_UNKNOWN};
	for (size_t i = 0; i < report->num_devices; i++)
		if (report->devices[i].device == report->oom_device)
			device->limit = &report->devices[i].limit;
	for (size_t i = 0; i < report->num_pools; i++) {
		const struct gp_report_pool *pool = &report->pools[i];
		const struct gp_pool_stats *stats = &pool->stats;

		if (pool->device != report->oom_device)
			continue;
		device->pools++;
		device->name = pool->device_name;
		device->total = pool->total_bytes;
		device->free = pool->free_bytes;
		device->reserved += stats->reserved_bytes.current;
		device->allocated += stats->allocated_bytes.current;
		device->requested += stats->requested_bytes.current;
		device->cached += stats->cached_bytes;
		if (stats->largest_free_bytes > device->largest_free)
			device->largest_free = stats->largest_free_bytes;
	}
}

/* Pieces of cuMemAlloc stay where they are. */
static bool can_join(const struct gp_report *report)
{
	for (size_t i = 0; i < report->num_settings; i++) {
		if (!strcmp(report->settings[i].key, "expandable_segments"))
			return !strcmp(report->settings[i].value, "True");
	}
	return true;
}

static struct cause judge(const struct gp_report *report,
			  const struct device *device)
{
	const uint64_t wanted = report->oom_bytes;

	if (report->oom_by_limit && device->limit && !device->limit->cap)
		return (struct cause){"bad_limit",
				      "It gets no device memory, because its "
				      "limit cannot be read, or is nothing."};
	if (report->oom_by_limit)
		return (struct cause){
			"limit", "The limit of this process left no room for "
				 "it; the device was not asked."};
	if (device->total != GP_UNKNOWN && wanted > device->total)
		return (struct cause){"larger_than_device",
				      "That is more than the whole device."};
	if (device->largest_free < wanted && device->cached >= wanted)
		return (struct cause){
			"fragmented",
			can_join(report)
				? "The cached memory would be enough, but it "
				  "lies in pieces, none of which is large "
				  "enough, and they could not be joined."
				: "The cached memory would be enough, but it "
				  "lies in pieces, none of which is large "
				  "enough; expandable_segments:True could "
				  "join them."};
	if (device->free == GP_UNKNOWN)
		return (struct cause){
			"unknown", "How much memory the device has free could "
				   "not be asked."};
	if (wanted > device->free && wanted - device->free > device->cached)
		return (struct cause){"device_full",
				      "What is free on the device and what is "
				      "cached are together less than that."};
	return (struct cause){
		"driver_refused",
		"Free and cached memory together would be enough, and the "
		"driver refused all the same."};
}

static uint64_t less(uint64_t from, uint64_t amount)
{
	return from > amount ? from - amount : 0;
}

/* Memory in use that neither our pools nor what passed through explains. Only
 * with one pool can it be told from the process's figures. */
static uint64_t others(const struct gp_report *report,
		       const struct device *device, uint64_t passthrough)
{
	if (report->num_pools != 1 || !device->pools ||
	    device->total == GP_UNKNOWN || device->free == GP_UNKNOWN)
		return GP_UNKNOWN;
	return less(less(less(device->total, device->free), device->reserved),
		    passthrough);
}

static void request(struct gp_emit *emit, const struct gp_report *report,
		    const struct device *device)
{
	const struct cause cause = judge(report, device);

	gp_emit_string(emit, "oom_call", report->oom_call);
	gp_emit_words(emit, "asked for");
	gp_emit_number(emit, "oom_bytes", GP_UNIT_BYTES, report->oom_bytes);
	gp_emit_words(emit, "on device");
	gp_emit_number(emit, "oom_device", GP_UNIT_PLAIN,
		       (uint64_t)report->oom_device);
	gp_emit_words(emit, "and was refused.");
	gp_emit_words(emit, cause.sentence);
	gp_emit_hide(emit, true);
	gp_emit_string(emit, "oom_cause", cause.name);
	gp_emit_hide(emit, false);
}

static void limit(struct gp_emit *emit, const struct device *device)
{
	const struct gp_limit_stats *stats = device->limit;
	const bool any = stats && stats->cap != GP_NO_LIMIT;

	gp_emit_hide(emit, !any);
	gp_emit_words(emit, "This process may take");
	gp_emit_number(emit, "oom_limit_bytes", GP_UNIT_BYTES,
		       any ? stats->cap : GP_UNKNOWN);
	gp_emit_words(emit, "there and holds");
	gp_emit_number(emit, "oom_held_bytes", GP_UNIT_BYTES,
		       stats ? stats->held : GP_UNKNOWN);
	gp_emit_words(emit, ",");
	gp_emit_number(emit, "oom_context_bytes", GP_UNIT_BYTES,
		       stats ? stats->part[GP_PART_context] : GP_UNKNOWN);
	gp_emit_words(emit, "of that for contexts.");
	gp_emit_hide(emit, false);
}

static void balance(struct gp_emit *emit, const struct device *device)
{
	gp_emit_hide(emit, device->total == GP_UNKNOWN);
	gp_emit_words(emit, "The device has");
	gp_emit_number(emit, "oom_total_bytes", GP_UNIT_BYTES, device->total);
	gp_emit_hide(emit,
		     device->total == GP_UNKNOWN || device->free == GP_UNKNOWN);
	gp_emit_words(emit, ",");
	gp_emit_number(emit, "oom_free_bytes", GP_UNIT_BYTES, device->free);
	gp_emit_words(emit, "of it free");
	gp_emit_hide(emit, device->total == GP_UNKNOWN);
	gp_emit_words(emit, ".");
	gp_emit_hide(emit, device->pools > 0);
	gp_emit_words(emit, "This process has no pool on it.");
	gp_emit_hide(emit, device->pools == 0);
	gp_emit_words(emit, "This process's pool has");
	gp_emit_number(emit, "oom_reserved_bytes", GP_UNIT_BYTES,
		       device->reserved);
	gp_emit_words(emit, "reserved:");
	gp_emit_number(emit, "oom_allocated_bytes", GP_UNIT_BYTES,
		       device->allocated);
	gp_emit_words(emit, "allocated (");
	gp_emit_number(emit, "oom_rounding_bytes", GP_UNIT_BYTES,
		       less(device->allocated, device->requested));
	gp_emit_words(emit, "of that from rounding), and");
	gp_emit_number(emit, "oom_cached_bytes", GP_UNIT_BYTES, device->cached);
	gp_emit_words(emit, "cached, where the largest free range is");
	gp_emit_number(emit, "oom_largest_free_bytes", GP_UNIT_BYTES,
		       device->largest_free);
	gp_emit_words(emit, ".");
	gp_emit_hide(emit, false);
}

static void passthrough(struct gp_emit *emit, const struct gp_report *report,
			uint64_t bytes)
{
	bool first = true;

	gp_emit_hide(emit, bytes == 0);
	gp_emit_words(emit, "Outside the pool the process holds, on "
			    "all devices,");
	gp_emit_number(emit, "oom_passthrough_bytes", GP_UNIT_BYTES, bytes);
	gp_emit_words(emit, ":");
	for (int kind = 0; kind < GP_KIND_COUNT; kind++) {
		const uint64_t part = report->kinds[kind].bytes.current;

		if (!part || gp_kind_is_host((enum gp_kind)kind))
			continue;
		if (!first)
			gp_emit_words(emit, ",");
		first = false;
		gp_emit_again(emit, GP_UNIT_BYTES, part);
		gp_emit_words(emit, gp_kind_name((enum gp_kind)kind));
	}
	gp_emit_words(emit, ".");
	gp_emit_hide(emit, false);
}

void gp_report_oom(struct gp_emit *emit, const struct gp_report *report)
{
	struct gp_report_totals totals;
	struct device device;
	uint64_t other;

	gp_report_sum(report, &totals);
	look(report, &device);
	other = others(report, &device, totals.passthrough_device);
	request(emit, report, &device);
	limit(emit, &device);
	balance(emit, &device);
	passthrough(emit, report, totals.passthrough_device);
	gp_emit_hide(emit, other == GP_UNKNOWN);
	gp_emit_words(emit, "The other");
	gp_emit_number(emit, "oom_other_bytes", GP_UNIT_BYTES, other);
	gp_emit_words(emit, "in use belongs to contexts, loaded code and other "
			    "processes.");
	gp_emit_hide(emit, false);
	gp_emit_gap(emit);
}
