/*
 * See device.h. The page has the columns, rows and units of
 * torch.cuda.memory_summary(), so that eyes and scripts that know the one read
 * the other.
 */
#include "stats/device.h"

#include <stdio.h>
#include <string.h>

#include "stats/emit_impl.h"
#include "stats/report_impl.h"

#define WIDTH 75 /* between the two bars */

long gp_device_json(const struct gp_device_figures *figures, char *text,
		    size_t size)
{
	struct gp_emit emit;

	gp_emit_init_memory(&emit, text, size, true);
	gp_emit_object(&emit, NULL);
	gp_report_figures(&emit, &figures->stats);
	gp_report_kinds(&emit, figures->kinds);
	gp_emit_number(&emit, "total_bytes", GP_UNIT_BYTES,
		       figures->total_bytes ? figures->total_bytes
					    : GP_UNKNOWN);
	gp_emit_number(&emit, "limit_bytes", GP_UNIT_BYTES,
		       figures->limit_bytes);
	gp_emit_close(&emit);
	return gp_emit_finish_memory(&emit);
}

/* ---- the page ------------------------------------------------------------------- */

static void line(struct gp_emit *emit, const char *text)
{
	char buf[WIDTH + 4];

	snprintf(buf, sizeof(buf), "|%-*.*s|\n", WIDTH, WIDTH, text);
	gp_emit_puts(emit, buf);
}

static void rule(struct gp_emit *emit, char c)
{
	char buf[WIDTH + 1];

	memset(buf, c, WIDTH);
	buf[WIDTH] = '\0';
	line(emit, buf);
}

/* In the unit that suits `scale`: a row's parts in the unit of their sum. */
static void format_bytes(char *buf, size_t size, uint64_t bytes, uint64_t scale)
{
	static const char *const units[] = {"B  ", "KiB", "MiB",
					    "GiB", "TiB", "PiB"};
	unsigned unit = 0;

	while (unit < 5 && scale >= 768ull * 1024) {
		bytes /= 1024;
		scale /= 1024;
		unit++;
	}
	snprintf(buf, size, "%6llu %s", (unsigned long long)bytes, units[unit]);
}

static void format_count(char *buf, size_t size, uint64_t count, uint64_t scale)
{
	static const char units[] = {' ', 'K', 'M'};
	unsigned unit = 0;

	while (unit < 2 && scale >= 750000) {
		count /= 1000;
		scale /= 1000;
		unit++;
	}
	snprintf(buf, size, "%7llu %c ", (unsigned long long)count,
		 units[unit]);
}

static void row(struct gp_emit *emit, const char *label, bool is_bytes,
		const struct gp_stat *stat, const struct gp_stat *scale)
{
	const uint64_t values[4] = {stat->current, stat->peak, stat->allocated,
				    stat->freed};
	const uint64_t scales[4] = {scale->current, scale->peak,
				    scale->allocated, scale->freed};
	char cells[4][32], buf[WIDTH * 3];

	for (int i = 0; i < 4; i++)
		(is_bytes ? format_bytes : format_count)(
			cells[i], sizeof(cells[i]), values[i], scales[i]);
	snprintf(buf, sizeof(buf), " %-21s | %s | %s | %s | %s ", label,
		 cells[0], cells[1], cells[2], cells[3]);
	line(emit, buf);
}

static void metric(struct gp_emit *emit, const char *label, bool is_bytes,
		   const struct gp_stat *all, const struct gp_stat *large,
		   const struct gp_stat *small)
{
	rule(emit, '-');
	row(emit, label, is_bytes, all, all);
	if (large)
		row(emit, "      from large pool", is_bytes, large, all);
	if (small)
		row(emit, "      from small pool", is_bytes, small, all);
}

static void head(struct gp_emit *emit, const struct gp_device_figures *figures)
{
	char buf[WIDTH * 2];

	rule(emit, '=');
	if (figures->device < 0)
		line(emit, "                    gpupool memory summary, "
			   "all devices");
	else {
		snprintf(buf, sizeof(buf),
			 "                    gpupool memory summary, device "
			 "ID %d",
			 figures->device);
		line(emit, buf);
	}
	rule(emit, '-');
	snprintf(buf, sizeof(buf),
		 "            CUDA OOMs: %-12llu |         cudaMalloc retries: "
		 "%-8llu  ",
		 (unsigned long long)figures->stats.num_ooms,
		 (unsigned long long)figures->stats.num_alloc_retries);
	line(emit, buf);
	rule(emit, '=');
	line(emit, "        Metric         | Cur Usage  | Peak Usage | "
		   "Tot Alloc  | Tot Freed  ");
}

long gp_device_summary(const struct gp_device_figures *figures, char *text,
		       size_t size)
{
	const struct gp_pool_stats *s = &figures->stats;
	struct gp_emit emit;

	gp_emit_init_memory(&emit, text, size, false);
	head(&emit, figures);
#define METRIC(label, is_bytes, name)                              \
	metric(&emit, label, is_bytes, &s->name, &s->name##_large, \
	       &s->name##_small)
	METRIC("Allocated memory", true, allocated_bytes);
	METRIC("Active memory", true, active_bytes);
	METRIC("Requested memory", true, requested_bytes);
	METRIC("GPU reserved memory", true, reserved_bytes);
	METRIC("Non-releasable memory", true, inactive_split_bytes);
	METRIC("Allocations", false, allocation);
	METRIC("Active allocs", false, active);
	METRIC("GPU reserved segments", false, segment);
	METRIC("Non-releasable allocs", false, inactive_split);
#undef METRIC
	metric(&emit, "Oversize allocations", false, &s->oversize_allocations,
	       NULL, NULL);
	metric(&emit, "Oversize GPU segments", false, &s->oversize_segments,
	       NULL, NULL);
	rule(&emit, '=');
	return gp_emit_finish_memory(&emit);
}
