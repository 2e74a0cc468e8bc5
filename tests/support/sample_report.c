#include <stdio.h>
#include <string.h>

#include "tests/support/sample_report.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static const struct gp_report_setting settings[] = {
	{"enabled", "True", true},
	{"quiet", "False", true},
	{"report_dir",
	 "/srv/jobs/2025-11-02/experiment-with-a-long-name/reports/of/rank/7",
	 false},
	{"roundup_power2_divisions", "[256:1,512:2,1024:4,>:8]", false},
};

static const char *const notes[] = {
	"max_split_size_mb:10MiB is taken, though PyTorch accepts only 20MiB "
	"(large_segment_size_mb) or more",
	"a path \"quoted\", a tab\tand a \xff byte",
};

/* No two figures are alike, so that none can stand in another's place. */
static void fill_pool(struct gp_report_pool *pool)
{
	struct gp_pool_stats *stats = &pool->stats;
	uint64_t n = 1000;

	snprintf(pool->device_name, sizeof(pool->device_name), "NVIDIA H200");
	pool->context = 0x55d3a4c01230;
	pool->primary = true;
	pool->total_bytes = 150 * 1000000000ull;
	pool->free_bytes = 131 * GIB + 7 * MIB;
#define X(name, unit, help) stats->name = n += 1234;
	GP_POOL_COUNTERS(X)
	GP_POOL_LEVELS(X)
#undef X
	stats->allocated_bytes = (struct gp_stat){5 * GIB, 12 * GIB + 5 * MIB,
						  900 * GIB, 895 * GIB};
	stats->requested_bytes = (struct gp_stat){
		5 * GIB - 12345678, 11 * GIB, 890 * GIB, 885 * GIB + 12345678};
	stats->reserved_bytes =
		(struct gp_stat){6 * GIB, 13 * GIB, 14 * GIB, 8 * GIB};
	stats->active_bytes = stats->allocated_bytes;
	stats->active_bytes.current += 3 * MIB;
	stats->allocated_bytes_small =
		(struct gp_stat){301 * MIB, 302 * MIB, 40 * GIB, 39 * GIB};
	stats->allocated_bytes_large = (struct gp_stat){
		4 * GIB, 12 * GIB + 1 * MIB, 860 * GIB, 856 * GIB};
	stats->inactive_split_bytes =
		(struct gp_stat){317 * MIB, 400 * MIB, 900 * MIB, 583 * MIB};
	stats->movable_bytes = 1 * GIB - 317 * MIB;
	stats->max_split_size = UINT64_MAX;
	for (int i = 0; i < GP_TIMED_COUNT; i++)
		stats->calls[i] = (struct gp_call_stat){n += 11, n += 1700};
	for (int i = 0; i < 3; i++)
		pool->points[pool->num_points++] = (struct gp_timeline_point){
			1762078272000000000ull + (uint64_t)i * 1000000007,
			(uint64_t)i * GIB + 1, (uint64_t)i * GIB + 3};
	stats->most_allocated_bytes = stats->allocated_bytes.peak;
	stats->most_reserved_bytes = stats->reserved_bytes.peak;
	stats->saved_ns = 91234567891;
	stats->allocation = (struct gp_stat){57, 1234, 2080557, 2080500};
	stats->segment = (struct gp_stat){31, 93, 124, 94};
	stats->rounding_bytes = 12345678;
	stats->cached_bytes = 1 * GIB;
	stats->largest_free_bytes = 701 * MIB;
	stats->driver_ns = 12345678;
	stats->num_ooms = 2;
	stats->num_hits = 2222;
}

static void fill_layout(struct gp_layout *layout)
{
	static struct gp_layout_range segments[] = {
		{0x7f0000000000, 6 * MIB, 0, 0, 0},
		{0x7f0040000000, 32 * MIB, 0, 0, 0},
	};
	static struct gp_layout_range blocks[] = {
		{0x7f0000000000, 1024, 700, 1, 1},
		{0x7f0000100200, 70144, 69999, 3, 0},
		{0x7f0040000000, 20 * MIB, 20 * MIB - 1, 1, 2},
	};

	*layout = (struct gp_layout){.unix_ns = 1762078355123000000ull,
				     .left_out = 17,
				     .expandable = true,
				     .num_segments = 2,
				     .segments = segments,
				     .num_blocks = 3,
				     .blocks = blocks};
}

static void fill_devices(struct gp_report *report)
{
	struct gp_report_device *device = &report->devices[0];
	struct gp_limit_stats *limit = &device->limit;

	report->num_devices = 1;
	device->total_bytes = 150 * 1000000000ull;
	limit->cap = 40 * GIB;
	limit->peak = 17 * GIB;
	limit->refusals = 4321;
	limit->part[GP_PART_pool] = 6 * GIB;
	limit->part[GP_PART_array] = 130 * MIB;
	limit->part[GP_PART_context] = 517 * MIB;
	for (int i = 0; i < GP_PART_NUM; i++)
		limit->held += limit->part[i];
	report->host = (struct gp_limit_stats){
		.cap = GP_NO_LIMIT, .held = 170 * MIB, .peak = 187 * MIB};
}

/* Frames of Python, and one of the machine that nothing is known of. */
static void fill_stack(struct gp_stack *stack, unsigned line)
{
	static const struct {
		const char *file, *function;
	} places[] = {
		{"/srv/jobs/train.py", "Net.forward"},
		{"/srv/jobs/a directory with blanks/and a name that is very "
		 "long/so that it does not fit into one line/module.py",
		 "Module.__call__.<locals>.inner"},
		{"<string>", "<module>"},
	};
	unsigned n = 0;

	for (; n < 3; n++)
		stack->frames[n] = gp_frame_at(
			gp_place(places[n].file, places[n].function), line + n);
	stack->python = (uint16_t)n;
	stack->frames[n] = 0x1234;
	stack->native = 1;
	stack->why = GP_PYTHON_FRAMES;
}

/* Of the layout's blocks: two stacks that have but their first frame each for
 * themselves. */
static void fill_block_sites(struct gp_report *report)
{
	static const uint64_t stacks[] = {0, 1, 2, 3, 4, 1, 2, 3};
	static struct gp_block_sites sites;
	struct gp_stack stack;

	fill_stack(&stack, 12);
	sites.num_sites = 3;
	sites.num_frames = 5;
	sites.left_out = 6;
	memcpy(sites.frames, stack.frames, 4 * sizeof(uint64_t));
	sites.frames[4] =
		gp_frame_at(gp_place("/srv/jobs/train.py", "Net.backward"), 15);
	memcpy(sites.stacks, stacks, sizeof(stacks));
	sites.ends[1] = 4;
	sites.ends[2] = 8;
	report->block_sites = &sites;
	report->pools[0].layout.has_sites = true;
}

static void fill_sites(struct gp_report *report)
{
	report->has_sites = true;
	report->sample_bytes = 1 * MIB;
	report->site_totals = (struct gp_sites_totals){
		.bytes = 5 * GIB,
		.blocks = 57,
		.peak_bytes = 12 * GIB,
		.entered = 31415,
		.entered_now = 27,
		.sites = 18,
		.dropped_stacks = 3,
		.dropped_blocks = 4,
	};
	report->num_sites = 2;
	report->sites[0] = (struct gp_site_row){
		.bytes = 4 * GIB,
		.blocks = 40,
		.peak_bytes = 5 * GIB,
		.all_bytes = 77 * GIB,
		.all_blocks = 1234567,
		.growth = 3 * GIB,
		.since_ns = 81000000000,
	};
	fill_stack(&report->sites[0].stack, 12);
	report->sites[1] = (struct gp_site_row){.bytes = 1 * MIB,
						.blocks = 1,
						.all_bytes = 1 * MIB + 1,
						.all_blocks = 2};
	report->sites[1].stack.frames[0] = 0x4321;
	report->sites[1].stack.native = 1;
	report->sites[1].stack.native_cut = true;
	report->sites[1].stack.why = GP_PYTHON_UNKNOWN;
	report->num_peak_sites = 1;
	report->peak_sites[0] = report->sites[0];
	report->num_growing_sites = 1;
	report->growing_sites[0] = report->sites[0];
}

struct gp_report *sample_report(enum gp_report_reason reason)
{
	static struct gp_report report;
	uint64_t n = 1;

	memset(&report, 0, sizeof(report));
	report.reason = reason;
	report.sequence = reason == GP_REPORT_EXIT ? 0 : 3;
	report.signal = "usr1";
	report.pid = 4242;
	snprintf(report.exe, sizeof(report.exe), "/usr/bin/python3.12");
	report.record = "/run/user/1000/gpupool/4242-1234567-0.gpupool";
	report.start_unix_ns = 1762078272000000000ull;
	report.now_unix_ns = report.start_unix_ns + 83123456789ull;
	report.calls_saved = 4160900;
	report.driver_calls = 311;
	report.num_pools = 1;
	fill_pool(&report.pools[0]);
	fill_layout(&report.pools[0].layout);
	for (int kind = 0; kind < GP_KIND_COUNT; kind++, n++) {
		if (kind == GP_KIND_array || kind == GP_KIND_graph)
			continue; /* never used */
		report.kinds[kind].bytes = (struct gp_stat){
			n * 10 * MIB, n * 11 * MIB, n * 33 * MIB, n * 23 * MIB};
		report.kinds[kind].count =
			(struct gp_stat){n * 10, n * 11, n * 33, n * 23};
	}
	report.num_sections = 2;
	report.sections[0] = (struct gp_section_row){
		"load", 0, false, 1, 2500000000, 3 * GIB + 1, 4 * GIB + 1};
	report.sections[1] = (struct gp_section_row){
		"train: forward and backward, all layers of it",
		0,
		true,
		77,
		61000000000,
		12 * GIB,
		13 * GIB};
	fill_devices(&report);
	if (reason != GP_REPORT_OOM) {
		fill_sites(&report);
		fill_block_sites(&report);
	}
	report.settings = settings;
	report.num_settings = sizeof(settings) / sizeof(settings[0]);
	report.notes = notes;
	report.num_notes = sizeof(notes) / sizeof(notes[0]);
	if (reason == GP_REPORT_WARN) {
		report.warn_device = 1;
		report.warn_used = 36 * GIB + 3 * MIB;
		report.warn_of = 40 * GIB;
	}
	if (reason == GP_REPORT_OOM) {
		report.oom = (struct gp_oom){
			.bytes = 200 * GIB / 7,
			.call = "cuMemAlloc_v2",
			.total = GP_UNKNOWN,
			.free = GP_UNKNOWN,
			.own = GP_UNKNOWN,
			.num_others = 2,
			.more_others = 3,
			.others = {{4321, "python3.11", 90 * GIB + 1,
				    30 * GIB + 1},
				   {77, "", 20 * GIB + 1, 0}},
			.roomy_device = 1,
			.roomy_free = 111 * GIB,
		};
		report.has_oom_stack = true;
		fill_stack(&report.oom_stack, 77);
		report.pools[0].free_bytes = 3 * GIB / 2;
	}
	return &report;
}

void sample_add_pool(struct gp_report *report)
{
	struct gp_report_pool *pool = &report->pools[report->num_pools++];

	fill_pool(pool);
	pool->device = 1;
	pool->context++;
	pool->primary = false;
	pool->free_bytes = GP_UNKNOWN;
	pool->stats.allocated_bytes.peak = 3 * GIB;
	pool->stats.reserved_bytes.peak = 4 * GIB;
	pool->stats.most_allocated_bytes = 3 * GIB;
	pool->stats.most_reserved_bytes = 4 * GIB;
}
