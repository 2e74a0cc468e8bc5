/*
 * Memory of graphs: the driver takes it when a graph is launched, and keeps it.
 */
#include <pthread.h>

#include "shim/async.h"
#include "shim/devices.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"

#define NUM_DEVICES GP_CONF_DEVICES

bool gp_graphs_allocate;

/* Charged so far, and when it was asked for that. Guarded by lock. */
static uint64_t charged[NUM_DEVICES], as_of[NUM_DEVICES];
static uint64_t questions; /* atomic */
/* Rank: above the ledgers. Not held across a driver call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t pieces(uint64_t bytes)
{
	return (bytes + GP_LIMIT_PIECE - 1) / GP_LIMIT_PIECE * GP_LIMIT_PIECE;
}

bool gp_graph_memory(CUdevice device, uint64_t bytes, const char *call)
{
	struct gp_charge charge = {GP_PART_graph, pieces(bytes), NULL};

	if (gp_room_reserve(device, &charge, NULL)) {
		gp_take_refused(device, bytes, call);
		return false;
	}
	/* It is taken when the graph is launched. */
	gp_limit_cancel(gp_device_limit(device), &charge);
	__atomic_store_n(&gp_graphs_allocate, true, __ATOMIC_RELAXED);
	return true;
}

/* What the driver took cannot be refused any more, and a launch does not wait. */
static void make_room(CUdevice device, struct gp_limit *limit)
{
	uint64_t excess = gp_limit_excess(limit);

	if (excess)
		gp_room_make_idle(device, excess);
}

void gp_graph_refresh(void)
{
	uint64_t now = __atomic_add_fetch(&questions, 1, __ATOMIC_RELAXED);
	cuuint64_t reserved = 0;
	struct gp_limit *limit;
	CUdevice device;

	if (!gp_running() ||
	    gp_real()->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 ||
	    device >= NUM_DEVICES ||
	    gp_real()->cuDeviceGetGraphMemAttribute(
		    device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
		    &reserved) != CUDA_SUCCESS)
		return;
	limit = gp_device_limit(device);
	pthread_mutex_lock(&lock);
	if (now > as_of[device]) { /* else another thread's is newer */
		gp_limit_adjust(limit, GP_PART_graph, charged[device],
				reserved);
		charged[device] = reserved;
		as_of[device] = now;
	}
	pthread_mutex_unlock(&lock);
	make_room(device, limit);
}
