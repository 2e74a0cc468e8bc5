/*
 * Writes the ledger from the pools' figures, from gpupool's own thread and
 * from slow paths; never where an allocation hits.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "shim/ledger.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/control.h"
#include "shim/state.h"
#include "stats/bell.h"
#include "stats/clock.h"
#include "stats/ledger.h"
#include "stats/requests.h"

/* Atomic. */
static uint64_t asked, got_bytes, asked_us, gave_bytes;

void gp_ledger_count_asked(uint64_t processes, uint64_t bytes)
{
	__atomic_fetch_add(&asked, processes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&got_bytes, bytes, __ATOMIC_RELAXED);
}

void gp_ledger_count_gave(uint64_t bytes)
{
	__atomic_fetch_add(&asked_us, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&gave_bytes, bytes, __ATOMIC_RELAXED);
}

/* The settings that are not the default's, as they would be written. */
static void print_conf(char *text, size_t size)
{
	const struct gp_conf *conf = gp_settings();
	char value[512];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < gp_conf_count() && used < size; i++) {
		if (gp_conf_is_default(conf, i))
			continue;
		used += (size_t)snprintf(
			text + used, size - used, "%s%s:%s", used ? "," : "",
			gp_conf_option(i)->key,
			gp_conf_value(conf, i, value, sizeof(value)));
	}
}

void gp_ledger_start(const char *xdg)
{
	static char text[2048]; /* large, and used once */
	const struct gp_conf *conf = gp_settings();
	struct gp_file_options options = {
		.xdg = xdg,
		.names = gp_ledger_names,
		.row_bytes = sizeof(struct gp_ledger_row),
		.num_rows = GP_LEDGER_ROWS,
		.ring_bytes = conf->ring_events ? conf->ring_size : 0,
		.conf = text,
		.keep_files = conf->keep_reports,
		.keep_bytes = conf->keep_reports_size,
	};

	print_conf(text, sizeof(text));
	gp_file_start(&options);
	gp_bell_start();
}

/* ---- the rows --------------------------------------------------------------------- */

/* Rank: above report_lock, below the contexts' lock; only tried. Guards the
 * statics below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gp_report_pool pools[GP_REPORT_MAX_POOLS];
static struct gp_ledger_device devices[GP_LEDGER_DEVICES];
static unsigned num_devices; /* a device keeps its row */

static struct gp_ledger_device *device_of(const struct gp_report_pool *pool)
{
	struct gp_ledger_device *device;

	for (unsigned i = 0; i < num_devices; i++)
		if (!memcmp(devices[i].uuid, pool->uuid, sizeof(pool->uuid)))
			return &devices[i];
	if (num_devices == GP_LEDGER_DEVICES)
		return NULL;
	device = &devices[num_devices++];
	memset(device, 0, sizeof(*device));
	memcpy(device->uuid, pool->uuid, sizeof(device->uuid));
	memcpy(device->name, pool->device_name, sizeof(device->name));
	device->free_bytes = UINT64_MAX;
	return device;
}

static void add_pool(const struct gp_report_pool *pool, uint64_t now)
{
	struct gp_ledger_device *device = device_of(pool);
	struct gp_limit_stats limit;
	struct gp_pool_stats *to;

	if (!device)
		return;
	to = &device->stats;
	if (device->updated_unix_ns != now) {
		memset(to, 0, sizeof(*to));
		device->contexts = 0;
		device->updated_unix_ns = now;
	}
	device->ordinal = (uint64_t)pool->device;
	device->contexts++;
	device->total_bytes = pool->total_bytes;
	if (pool->free_bytes != GP_UNKNOWN)
		device->free_bytes = pool->free_bytes;
	gp_limit_get(gp_device_limit(pool->device), &limit);
	device->limit_bytes = limit.cap;
	/* Measured only where there is a limit. */
	device->context_bytes = limit.part[GP_PART_context]
					? limit.part[GP_PART_context]
					: UINT64_MAX;
	device->outside_bytes = limit.held - limit.part[GP_PART_pool] -
				limit.part[GP_PART_context];
	device->reserve_floor_bytes = gp_settings()->reserve_floor;
	gp_pool_stats_add(to, &pool->stats);
}

void gp_ledger_update(void)
{
	struct gp_ledger_process process = {0};
	uint64_t now = gp_clock_ns(CLOCK_REALTIME);
	size_t n;

	if (!gp_file || pthread_mutex_trylock(&lock))
		return;
	n = gp_context_report(pools, GP_REPORT_MAX_POOLS, true);
	for (size_t i = 0; i < n; i++)
		add_pool(&pools[i], now);
	for (unsigned i = 0; i < num_devices; i++)
		gp_ledger_put_device(i, &devices[i]);
	process.updated_unix_ns = now;
	process.devices = num_devices;
	process.neighbours_asked = __atomic_load_n(&asked, __ATOMIC_RELAXED);
	process.neighbours_gave_bytes =
		__atomic_load_n(&got_bytes, __ATOMIC_RELAXED);
	process.asked_by_neighbours =
		__atomic_load_n(&asked_us, __ATOMIC_RELAXED);
	process.gave_neighbours_bytes =
		__atomic_load_n(&gave_bytes, __ATOMIC_RELAXED);
	for (int i = 0; i < GP_KIND_COUNT; i++)
		gp_kind_get((enum gp_kind)i, &process.kinds[i]);
	gp_ledger_put_process(&process);
	pthread_mutex_unlock(&lock);
}

void gp_ledger_serve(void)
{
	struct gp_process_id self;
	int dir;

	if (!gp_file)
		return;
	dir = gp_runtime_dir_reopen(gp_file_dir());
	if (dir < 0)
		return;
	gp_process_self(&self);
	gp_requests_serve(dir, &self, gp_control);
	close(dir);
}
