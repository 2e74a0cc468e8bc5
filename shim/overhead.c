/* Contexts' own memory; see overhead.h. */
#include "shim/overhead.h"

#include "shim/devices.h"
#include "shim/nvml.h"
#include "shim/state.h"
#include "stats/log.h"

#define MAX_CONTEXTS 256

/* More than this is not a context's: another process took it meanwhile. */
#define MOST         (4ull << 30)

static struct {
	CUcontext context; /* NULL: a primary one */
	CUdevice device;
	uint64_t bytes;
} measured[MAX_CONTEXTS]; /* guarded by lock */
static int num_measured;
/* Rank: above the ledgers. Not held across a driver call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t held(CUdevice device)
{
	struct gp_limit_stats stats;

	gp_limit_get(gp_device_limit(device), &stats);
	return stats.held;
}

static bool exists(CUdevice device)
{
	unsigned flags;
	int active = 0;

	return gp_real()->cuDevicePrimaryCtxGetState(device, &flags, &active) !=
		       CUDA_SUCCESS ||
	       active;
}

static void tell_unmeasured(void)
{
	static int told;

	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		gp_warn("what contexts take does not count for the limit: "
			"there is no NVML (libnvidia-ml.so.1) to measure it");
}

void gp_overhead_begin(struct gp_overhead *overhead, CUdevice device,
		       bool primary)
{
	overhead->on = false;
	if (!gp_may_limit() || (primary && exists(device)) || !gp_active() ||
	    !gp_settings()->count_context || !gp_device_capped(device))
		return;
	if (!gp_nvml_open()) {
		tell_unmeasured();
		return;
	}
	overhead->device = device;
	overhead->on = true;
	gp_overhead_again(overhead);
}

void gp_overhead_again(struct gp_overhead *overhead)
{
	if (!overhead->on)
		return;
	overhead->held = held(overhead->device);
	overhead->on = gp_nvml_used(overhead->device, &overhead->used);
	if (!overhead->on)
		gp_nvml_close();
}

static void enter(CUcontext context, CUdevice device, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	if (num_measured < MAX_CONTEXTS) {
		measured[num_measured].context = context;
		measured[num_measured].device = device;
		measured[num_measured++].bytes = bytes;
		gp_limit_adjust(gp_device_limit(device), GP_PART_context, 0,
				bytes);
	}
	pthread_mutex_unlock(&lock);
}

void gp_overhead_end(struct gp_overhead *overhead, CUresult rc,
		     CUcontext context)
{
	uint64_t used, other;

	if (!overhead->on)
		return;
	if (rc == CUDA_SUCCESS && gp_nvml_used(overhead->device, &used)) {
		/* Less what other threads took meanwhile. */
		other = held(overhead->device);
		other = other > overhead->held ? other - overhead->held : 0;
		if (used > overhead->used + other &&
		    used - overhead->used - other <= MOST)
			enter(context, overhead->device,
			      used - overhead->used - other);
	}
	gp_nvml_close();
}

void gp_overhead_gone(CUcontext context, CUdevice device)
{
	pthread_mutex_lock(&lock);
	for (int i = num_measured; i-- > 0;) {
		if (measured[i].context != context ||
		    (!context && measured[i].device != device))
			continue;
		gp_limit_adjust(gp_device_limit(measured[i].device),
				GP_PART_context, measured[i].bytes, 0);
		measured[i] = measured[--num_measured];
	}
	pthread_mutex_unlock(&lock);
}
