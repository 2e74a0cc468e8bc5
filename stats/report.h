/*
 * Reports: one structure of plain data, one emitter, text and JSON from the
 * same calls, so that every number in the text is in the JSON.
 *
 * gp_report_write() runs on gpupool's own thread or at exit, never in a signal
 * handler and never under a pool lock. It does not allocate from the host
 * program's heap beyond a few KiB (fixed buffers; write(2)).
 */
#ifndef GP_STATS_REPORT_H
#define GP_STATS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/block_sites.h"
#include "stats/kinds.h"
#include "stats/layout.h"
#include "stats/limit_stats.h"
#include "stats/oom.h"
#include "stats/pool_stats.h"
#include "stats/report_name.h"
#include "stats/sections.h"
#include "stats/sites.h"
#include "stats/timeline.h"

#define GP_REPORT_MAX_POOLS   64
#define GP_REPORT_MAX_DEVICES 64
#define GP_REPORT_SITES       10
#define GP_UNKNOWN            UINT64_MAX /* for byte figures nobody could ask */

#define GP_REPORT_TEXT        1u
#define GP_REPORT_JSON        2u

enum gp_report_reason {
	GP_REPORT_EXIT,
	GP_REPORT_SIGNAL,
	GP_REPORT_OOM,
	GP_REPORT_WARN, /* much of what the process may take is in use */
};

struct gp_report_pool {
	int device; /* ordinal in this process */
	char device_name[96];
	uint8_t uuid[16];     /* of the device; zeros: unknown */
	uint64_t context;     /* the CUcontext, as a number */
	bool primary;         /* the device's primary context */
	uint64_t total_bytes; /* physical memory, or GP_UNKNOWN */
	uint64_t free_bytes;  /* free on the device as the driver says */
	const char *no_remap; /* why free memory stays in pieces; NULL: it is
				 joined. Not owned */
	bool could_remap;     /* but for a setting */
	struct gp_pool_stats stats;
	struct gp_layout layout; /* JSON alone */
	size_t num_points;       /* of the curve; ns since 1970 */
	struct gp_timeline_point points[GP_TIMELINE_POINTS];
};

struct gp_report_device {
	int device;           /* ordinal in this process */
	uint64_t total_bytes; /* physical memory; 0: not known */
	struct gp_limit_stats limit;
};

struct gp_report_setting {
	const char *key; /* not owned */
	char value[256]; /* as effective, printable */
	bool is_default;
};

/* Somebody wrote beside an allocation: guard_bytes found it at its free. */
struct gp_report_overrun {
	int device;
	uint64_t address, bytes; /* of the allocation */
	uint64_t wrong;          /* bytes that were written */
	int64_t first; /* the first of them, from `address`; negative: before */
	struct gp_stack allocated, freed; /* no frames: not known */
};

#define GP_REPORT_OVERRUNS 8

struct gp_report {
	enum gp_report_reason reason;
	unsigned sequence;  /* N of .usr1-N, .oom-N and .warn-N, from 1 */
	const char *signal; /* that asks for it, "usr1"; NULL: none does */
	char base[GP_REPORT_BASE]; /* of its files' names; "": gpupool-%e-%p */
	unsigned formats;          /* GP_REPORT_TEXT and so on; 0: all */
	int pid;
	char exe[256];      /* path of the executable */
	const char *record; /* file with the last events; NULL: none. Not owned
			     */
	char rank[16]; /* of the process in its job, digits; "": it has none */
	char node[65]; /* the host's name; "": not known */
	uint64_t start_unix_ns; /* when gpupool started in this process */
	uint64_t now_unix_ns;

	struct gp_oom oom; /* GP_REPORT_OOM only: the request that failed */
	/* GP_REPORT_WARN only: so much is in use on that device, of so much
	 * that may be. */
	int warn_device;
	uint64_t warn_used, warn_of;

	bool program_caches; /* PyTorch has its own cache above the pool */

	bool has_oom_stack; /* of the thread that made it */
	struct gp_stack oom_stack;

	uint64_t num_overruns; /* of which the first ones are kept */
	struct gp_report_overrun overruns[GP_REPORT_OVERRUNS];

	/* Where the program allocates. */
	bool has_sites;        /* else all of this is 0 */
	uint64_t sample_bytes; /* 0: every block is counted */
	struct gp_sites_totals site_totals;
	size_t num_sites, num_peak_sites, num_growing_sites;
	struct gp_site_row sites[GP_REPORT_SITES];      /* by live bytes */
	struct gp_site_row peak_sites[GP_REPORT_SITES]; /* at the peak */
	struct gp_site_row growing_sites[GP_REPORT_SITES];
	/* Of the layouts' blocks; NULL: they have none. Not owned. JSON alone */
	const struct gp_block_sites *block_sites;

	/* Calls of the program that the pools answered, refusals included, and
	 * the driver calls they made to get, map and give back memory. */
	uint64_t calls_saved;
	uint64_t driver_calls;

	struct gp_kind_stats kinds[GP_KIND_COUNT];
	size_t num_devices;
	struct gp_report_device devices[GP_REPORT_MAX_DEVICES];
	struct gp_limit_stats host; /* pinned memory; the cap is host_limit */

	size_t num_sections;
	struct gp_section_row sections[GP_SECTION_ROWS];

	size_t num_settings;
	const struct gp_report_setting *settings; /* not owned */
	size_t num_notes;
	const char *const *notes; /* sentences worth telling; not owned */

	/* Last, and only the first num_pools of them are filled in: with their
	 * curves they are large. */
	size_t num_pools;
	struct gp_report_pool pools[GP_REPORT_MAX_POOLS];
};

/* Writes BASE.exit.txt and .json into `dir` (.usr1-N, .oom-N, .warn-N for other
 * reasons), each by a temporary file and rename, so that a reader never sees
 * half a report. `path` receives the first file's path. 0, or -errno with *path
 * naming the file that could not be written. Preserves errno. */
int gp_report_write(const struct gp_report *report, const char *dir, char *path,
		    size_t path_size);

/* The same text, or JSON, to a file descriptor. 0 or -errno. */
int gp_report_print(const struct gp_report *report, bool json, int fd);

/* A frame of a stack in words, into text, which is returned. Not for signal
 * handlers. */
const char *gp_frame_words(uint64_t frame, char *text, size_t size);

/* The same of an overrun, without its stacks. */
const char *gp_overrun_words(const struct gp_report_overrun *overrun,
			     char *text, size_t size);

/* Bytes as a person reads them: "512 B", "20.00 MiB", "1.50 GiB". */
const char *gp_format_bytes(uint64_t bytes, char *buf, size_t size);

#endif
