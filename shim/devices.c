/* The table of ledgers; see devices.h. */
#include "shim/devices.h"

#include <errno.h>

#include "shim/async.h"
#include "shim/graphs.h"
#include "shim/room.h"
#include "shim/state.h"
#include "stats/report.h"

#define MAX_DEVICES GP_CONF_DEVICES

static struct device {
	struct gp_limit limit;
	uint64_t total; /* atomic; 0: not known */
	int state;      /* atomic: enum state */
} devices[MAX_DEVICES];

enum state {
	UNMET,
	UNKNOWN, /* has a ledger; the cap is a share of it is not known what */
	MET,
};

bool gp_devices_capped;

static struct gp_limit host;
static bool host_met; /* atomic */

/* Guards the making of ledgers. Rank: above those. Not held across a driver
 * call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct device *device_at(CUdevice device)
{
	/* Ordinals beyond the table share its last ledger, as they share its
	 * last setting. */
	return &devices[device >= 0 && device < MAX_DEVICES ? device
							    : MAX_DEVICES - 1];
}

uint64_t gp_device_cap(const struct gp_conf *conf, CUdevice device,
		       uint64_t total)
{
	double fraction = gp_conf_fraction(conf, (unsigned)device);
	uint64_t cap = gp_conf_limit(conf, (unsigned)device);
	uint64_t share = GP_NO_LIMIT;

	if (conf->limit_is_bad)
		return 0;
	if (fraction < 1.0)
		share = (uint64_t)(fraction * (double)total);
	return share < cap ? share : cap;
}

static bool needs_total(CUdevice device)
{
	return gp_conf_fraction(gp_settings(), (unsigned)device) < 1.0;
}

uint64_t gp_device_total(CUdevice device)
{
	struct device *d = device_at(device);
	uint64_t total = __atomic_load_n(&d->total, __ATOMIC_RELAXED);
	size_t bytes = 0;

	if (!total &&
	    gp_real()->cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS) {
		total = bytes;
		__atomic_store_n(&d->total, total, __ATOMIC_RELAXED);
	}
	return total;
}

static __attribute__((noinline, cold)) void meet(struct device *d,
						 CUdevice device)
{
	uint64_t total = gp_device_total(device);
	uint64_t cap = gp_device_cap(gp_settings(), device, total);

	pthread_mutex_lock(&lock);
	if (d->state == UNMET)
		gp_limit_init(&d->limit, cap);
	else if (d->state == UNKNOWN)
		gp_limit_set(&d->limit, cap);
	if (d->state != MET)
		__atomic_store_n(&d->state,
				 total || !needs_total(device) ? MET : UNKNOWN,
				 __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
}

struct gp_limit *gp_device_limit(CUdevice device)
{
	struct device *d = device_at(device);

	if (__builtin_expect(
		    __atomic_load_n(&d->state, __ATOMIC_ACQUIRE) != MET, 0))
		meet(d, device);
	return &d->limit;
}

struct gp_limit *gp_host_limit(void)
{
	if (!__atomic_load_n(&host_met, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&lock);
		if (!host_met)
			gp_limit_init(&host, gp_settings()->host_limit);
		__atomic_store_n(&host_met, true, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&lock);
	}
	return &host;
}

bool gp_device_capped(CUdevice device)
{
	struct gp_limit_stats stats;

	gp_limit_get(gp_device_limit(device), &stats);
	return stats.cap != GP_NO_LIMIT;
}

void gp_devices_have_caps(void)
{
	__atomic_store_n(&gp_devices_capped, true, __ATOMIC_RELAXED);
}

int gp_device_set_limit(CUdevice device, uint64_t bytes)
{
	uint64_t excess;
	size_t total;

	if (!gp_active())
		return -EPERM;
	if (device < 0 || device >= MAX_DEVICES ||
	    gp_real()->cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
		return -ENODEV;
	gp_devices_have_caps();
	gp_limit_set(gp_device_limit(device), bytes);
	/* Without a cap nobody looked at what these reserve. */
	gp_async_refresh(device);
	gp_graph_refresh(device);
	excess = gp_limit_excess(gp_device_limit(device));
	if (excess)
		gp_room_make(device, excess, NULL);
	return 0;
}

bool gp_device_met(CUdevice device)
{
	return __atomic_load_n(&devices[device].state, __ATOMIC_ACQUIRE) !=
	       UNMET;
}

size_t gp_devices_report(struct gp_report_device *list, size_t max)
{
	size_t n = 0;

	for (int i = 0; i < MAX_DEVICES && n < max; i++) {
		if (!gp_device_met(i))
			continue;
		list[n].device = i;
		list[n].total_bytes =
			__atomic_load_n(&devices[i].total, __ATOMIC_RELAXED);
		gp_limit_get(&devices[i].limit, &list[n].limit);
		n++;
	}
	return n;
}
