/*
 * What a report says, and where it goes.
 *
 * The driver is asked before a report is begun, and never waited for here: one
 * that hangs must not keep the report back.
 */
#define _GNU_SOURCE
#include "shim/report_write.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/value.h"
#include "pool/layout.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/libraries.h"
#include "shim/mark.h"
#include "shim/names.h"
#include "shim/overruns.h"
#include "shim/stacks.h"
#include "shim/state.h"
#include "stats/clock.h"
#include "stats/emit.h"
#include "stats/format.h"
#include "stats/log.h"
#include "stats/process_file.h"
#include "stats/runtime_dir.h"

/* Rank: below the start, above the contexts' lock. Guards the statics here.
 * Never taken by a signal handler. */
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

#define MAX_SETTINGS 64

static size_t fill_settings(struct gp_report_setting *settings)
{
	size_t n = gp_conf_count();

	if (n > MAX_SETTINGS)
		n = MAX_SETTINGS;
	for (size_t i = 0; i < n; i++) {
		settings[i].key = gp_conf_option(i)->key;
		settings[i].is_default = gp_conf_is_default(gp_settings(), i);
		gp_conf_plain(gp_settings(), i, settings[i].value,
			      sizeof(settings[i].value));
	}
	return n;
}

/* "WHAT a, b", for `n` names. */
static const char *list(char *text, size_t size, const char *what,
			const char *const *names, size_t n)
{
	size_t length = (size_t)snprintf(text, size, "%s", what);

	for (size_t i = 0; i < n && length < size; i++)
		length += (size_t)snprintf(text + length, size - length,
					   "%s %s", i ? "," : "", names[i]);
	return text;
}

/* What the settings gave rise to, and work that goes unseen. Caller holds
 * report_lock. */
static void fill_notes(struct gp_report *report,
		       const struct gp_report_about *about)
{
	static const char *notes[GP_MAX_NOTES + 4];
	static char unknown[128 + GP_MAX_UNKNOWN * 64];
	static char around[128 + GP_MAX_LIBRARIES * 64];
	static char direct[128 + GP_MAX_LIBRARIES * 64];
	const char *const *names;
	size_t n = gp_setting_notes(&names), found;

	memcpy(notes, names, n * sizeof(*notes));
	found = gp_work_unknown(&names);
	if (found)
		notes[n++] = list(unknown, sizeof(unknown),
				  "driver entry points newer than this "
				  "gpupool, which does not see the work they "
				  "submit:",
				  names, found);
	found = gp_libraries_found(GP_LIBRARY_AROUND, &names);
	if (found)
		notes[n++] = list(around, sizeof(around),
				  "libraries that reach the driver around "
				  "gpupool, so that frees wait on the host:",
				  names, found);
	found = gp_libraries_found(GP_LIBRARY_DIRECT, &names);
	if (found)
		notes[n++] = list(direct, sizeof(direct),
				  "libraries that let memory be reached "
				  "without a stream, so that it is used again "
				  "only once it is idle:",
				  names, found);
	if (about->silent)
		notes[n++] = "the driver was asked how much is free, and did "
			     "not answer in time: a call may hang";
	report->notes = notes;
	report->num_notes = n;
}

static int is_torch(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = info->dlpi_name ? info->dlpi_name : "";
	const char *slash = strrchr(name, '/');

	(void)size;
	(void)arg;
	return !strcmp(slash ? slash + 1 : name, "libc10_cuda.so");
}

/* PyTorch's allocator keeps what its program frees, unless it is told not to.
 * Not dlopen(RTLD_NOLOAD), which looks through all directories where it could
 * be. */
static bool program_caches(void)
{
	const char *off = getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");

	return dl_iterate_phdr(is_torch, NULL) &&
	       (!off || !*off || !strcmp(off, "0"));
}

/* The process's file, if it has events. Caller holds report_lock. */
static const char *record(void)
{
	static char path[PATH_MAX + GP_FILE_NAME + 2];

	if (!gp_file || !gp_file->num_chunks)
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", gp_file_dir(),
		 gp_file_own_name());
	return path;
}

/* Who the process is in its job. Written at start, then constant. */
static char node[65], rank[16];

/* The signal that asks for a report, as in their names: "usr1"; "" if none
 * does. Written at start, then constant. */
static char signal_name[16];

/* Guarded by report_lock; no memory lies behind it until it is filled. */
static struct gp_layout_range segments[8192], blocks[131072];

struct layouts {
	struct gp_report *report;
	struct gp_layout left; /* room that the layouts so far did not take */
};

static void fill_layout(struct gp_context *context, void *arg)
{
	struct layouts *layouts = arg;
	struct gp_report_pool *pools = layouts->report->pools;
	struct gp_layout *left = &layouts->left, *layout;
	size_t i = 0, n = layouts->report->num_pools;

	/* Those of the dead, whose handles may be the same, come last. */
	while (i < n && pools[i].context != (uintptr_t)context->cuda.context)
		i++;
	if (i == n)
		return; /* newer than the report's figures */
	layout = &pools[i].layout;
	if (!context->pool) { /* the driver does not say */
		layout->num_segments = layout->num_blocks = 0;
		return;
	}
	*layout = *left;
	layout->unix_ns = gp_clock_ns(CLOCK_REALTIME);
	gp_pool_layout(context->pool, layout);
	left->segments += layout->num_segments;
	left->max_segments -= layout->num_segments;
	left->blocks += layout->num_blocks;
	left->max_blocks -= layout->num_blocks;
}

/* What allocated the blocks. Caller holds report_lock. */
static void fill_block_sites(struct gp_report *report)
{
	static struct gp_block_sites sites;

	gp_block_sites_clear(&sites);
	for (size_t i = 0; i < report->num_pools; i++)
		gp_block_sites_add(&sites, report->pools[i].layout.blocks,
				   report->pools[i].layout.num_blocks);
	report->block_sites = &sites;
}

/* What lies where, of all pools that are there. Caller holds report_lock. */
static void fill_layouts(struct gp_report *report)
{
	struct layouts layouts = {
		.report = report,
		.left = {
			.segments = segments,
			.max_segments = sizeof(segments) / sizeof(*segments),
			.blocks = blocks,
			.max_blocks = sizeof(blocks) / sizeof(*blocks),
			.has_sites = report->has_sites,
		}};

	gp_context_each(fill_layout, &layouts);
	if (report->has_sites)
		fill_block_sites(report);
}

/* The figures of this moment. Caller holds report_lock. */
static void fill_report(struct gp_report *report,
			const struct gp_report_about *about)
{
	static struct gp_report_setting settings[MAX_SETTINGS];
	ssize_t n;

	/* Most processes write one: its pages are zero until then. */
	if (report->pid)
		memset(report, 0, offsetof(struct gp_report, pools));
	report->reason = about->reason;
	report->sequence = about->sequence;
	report->signal = *signal_name ? signal_name : NULL;
	report->pid = gp_owner_pid();
	n = readlink("/proc/self/exe", report->exe, sizeof(report->exe) - 1);
	if (n < 0)
		strcpy(report->exe, "unknown");
	report->record = record();
	strcpy(report->node, node);
	strcpy(report->rank, rank);
	report->start_unix_ns = gp_start_time();
	report->formats = gp_settings()->report_format;
	report->num_pools = gp_context_report(
		report->pools, GP_REPORT_MAX_POOLS, about->asked);
	gp_stacks_report(report);
	if (report->formats & GP_REPORT_JSON)
		fill_layouts(report);
	report->now_unix_ns = gp_clock_ns(CLOCK_REALTIME);
	for (size_t i = 0; i < report->num_pools; i++) {
		const struct gp_pool_stats *stats = &report->pools[i].stats;

		report->calls_saved +=
			stats->num_alloc_calls + stats->num_free_calls;
		report->driver_calls += stats->num_driver_calls;
	}
	for (int i = 0; i < GP_KIND_COUNT; i++)
		gp_kind_get((enum gp_kind)i, &report->kinds[i]);
	report->num_sections = gp_mark_sections(report->sections);
	report->program_caches = program_caches();
	report->num_devices =
		gp_devices_report(report->devices, GP_REPORT_MAX_DEVICES);
	gp_limit_get(gp_host_limit(), &report->host);
	report->num_settings = fill_settings(settings);
	report->settings = settings;
	fill_notes(report, about);
}

/* The line at exit. */
static void tell_summary(const struct gp_report *report, const char *path)
{
	uint64_t allocated = 0, reserved = 0, outside = 0, calls = 0;
	char a[32], r[32], o[32], c[32];

	for (size_t i = 0; i < report->num_pools; i++) {
		const struct gp_pool_stats *stats = &report->pools[i].stats;

		allocated += stats->most_allocated_bytes;
		reserved += stats->most_reserved_bytes;
		calls += stats->allocation.allocated + stats->allocation.freed;
	}
	for (int i = 0; i < GP_KIND_COUNT; i++)
		outside += report->kinds[i].bytes.peak;
	gp_format_bytes(allocated, a, sizeof(a));
	gp_format_bytes(reserved, r, sizeof(r));
	gp_format_bytes(outside, o, sizeof(o));
	gp_format_count(calls, c, sizeof(c));
	if (calls)
		gp_note_last("peak %s allocated, %s reserved; %s calls went to "
			     "the pool; report %s",
			     a, r, c, path);
	else
		gp_note_last("no pooled memory, peak %s outside the pool; "
			     "report %s",
			     o, path);
}

static void tell_warning(const struct gp_report *report, const char *path)
{
	uint64_t tenths = gp_percent(report->warn_used, report->warn_of);
	char of[32], percent[32];

	gp_note("device %d: %s %% of the %s that this process may take are in "
		"use; report %s",
		report->warn_device,
		gp_format_tenths(tenths, percent, sizeof(percent)),
		gp_format_bytes(report->warn_of, of, sizeof(of)), path);
}

/* The first sentence of the answer. */
static void tell_oom(const struct gp_report *report, const char *path)
{
	struct gp_oom_view view;
	char answer[1024], *end;

	gp_oom_judge(report, &view);
	gp_oom_answer(report, &view, answer, sizeof(answer));
	/* The first sentence, without its full stop. */
	end = strstr(answer, ". ");
	if (!end && *answer && answer[strlen(answer) - 1] == '.')
		end = answer + strlen(answer) - 1;
	if (end)
		*end = '\0';
	gp_note("out of memory: %s; report %s", answer, path);
}

static void tell_written(const struct gp_report *report, int rc,
			 const char *path)
{
	if (rc)
		gp_warn("no report: cannot write %s: %s (report_dir sets the "
			"directory)",
			path, strerror(-rc));
	else if (report->reason == GP_REPORT_EXIT)
		tell_summary(report, path);
	else if (report->reason == GP_REPORT_WARN)
		tell_warning(report, path);
	else if (report->reason == GP_REPORT_OOM)
		tell_oom(report, path);
	else
		gp_note("report %s", path);
}

/* Where reports go: the program may have changed its directory since. */
static void report_dir(char *dir, size_t size)
{
	const char *wanted = gp_settings()->report_dir;

	if (*wanted == '/')
		snprintf(dir, size, "%s", wanted);
	else
		snprintf(dir, size, "%s%s%s", gp_start_dir(),
			 *wanted ? "/" : "", wanted);
}

/* The reports' names. Written at start, then constant. */
static char base[GP_REPORT_BASE];

static void name_signal(void)
{
	char text[32]; /* "SIGUSR1" */

	if (!gp_settings()->report_signal)
		return;
	gp_signal_print(gp_settings()->report_signal, text, sizeof(text));
	for (size_t i = 3; text[i] && i - 3 < sizeof(signal_name) - 1; i++)
		signal_name[i - 3] = (char)tolower((unsigned char)text[i]);
}

void gp_report_names_start(void)
{
	static const char *const ranks[] = {"RANK", "SLURM_PROCID",
					    "OMPI_COMM_WORLD_RANK", "PMI_RANK",
					    "LOCAL_RANK"};
	char exe[256] = "", host[HOST_NAME_MAX + 1] = "";
	struct gp_report_words words = {
		.exe = exe,
		.pid = gp_owner_pid(),
		.host = host,
		.unix_ns = gp_start_time(),
	};
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		strcpy(exe, "unknown");
	gethostname(host, sizeof(host) - 1);
	for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks) && !words.rank;
	     i++)
		words.rank = getenv(ranks[i]);
	gp_report_name(gp_settings()->report_name, &words, base);
	name_signal();
	snprintf(node, sizeof(node), "%.64s", host);
	if (words.rank && strlen(words.rank) < sizeof(rank) && *words.rank &&
	    strspn(words.rank, "0123456789") == strlen(words.rank))
		strcpy(rank, words.rank);
}

/* The directory cannot be written: the runtime directory is there. True: that
 * was told. */
static bool write_elsewhere(const struct gp_report *report, int *rc,
			    char *written, size_t size)
{
	static char path[2 * PATH_MAX + 64]; /* under report_lock */
	const struct gp_conf *conf = gp_settings();
	int dir;

	if (!*gp_file_dir() ||
	    gp_report_write(report, gp_file_dir(), path, sizeof(path)))
		return false;
	gp_warn("cannot write %s: %s (report_dir sets the directory); the "
		"report is %s",
		written, strerror(-*rc), path);
	snprintf(written, size, "%s", path);
	*rc = 0;
	dir = gp_runtime_dir_reopen(gp_file_dir());
	if (dir >= 0) {
		gp_report_keep(
			dir, 2 * (conf->keep_reports ? conf->keep_reports : 1),
			conf->keep_reports_size);
		close(dir);
	}
	return true;
}

int gp_write_report(const struct gp_report_about *about, char *path,
		    size_t path_size)
{
	static struct gp_report report; /* too large for a thread's stack */
	static char dir[2 * PATH_MAX], written[2 * PATH_MAX + 64];
	int saved = errno;
	int rc;

	pthread_mutex_lock(&report_lock);
	fill_report(&report, about);
	if (about->oom)
		report.oom = *about->oom;
	report.has_oom_stack = about->stack != NULL;
	if (about->stack)
		report.oom_stack = *about->stack;
	gp_overruns_report(&report);
	report.warn_device = about->warn_device;
	report.warn_used = about->warn_used;
	report.warn_of = about->warn_of;
	memcpy(report.base, base, sizeof(report.base));
	report_dir(dir, sizeof(dir));
	rc = gp_report_write(&report, dir, written, sizeof(written));
	if (!rc || !write_elsewhere(&report, &rc, written, sizeof(written)))
		tell_written(&report, rc, written);
	if (path)
		snprintf(path, path_size, "%s", written);
	pthread_mutex_unlock(&report_lock);
	errno = saved;
	return rc;
}
