/* Making room; see room.h. */
#include "shim/room.h"

#include <errno.h>

#include "shim/async.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/graphs.h"
#include "shim/neighbours.h"
#include "shim/reporter.h"
#include "shim/state.h"
#include "shim/warn.h"

/* What is given back may be taken by another thread before us; so often it is
 * tried. */
#define MAX_TRIES 64

static __thread bool limit_refused;

bool gp_room_limit_refused(void)
{
	return limit_refused;
}

void gp_room_card_refused(void)
{
	limit_refused = false;
}

uint64_t gp_room_make(CUdevice device, uint64_t bytes, CUcontext except)
{
	uint64_t given = gp_async_trim(device);

	if (given < bytes)
		given += gp_context_trim(device, bytes - given, except);
	if (given < bytes)
		given += gp_graph_trim(device);
	return given;
}

uint64_t gp_room_make_idle(CUdevice device, uint64_t bytes)
{
	uint64_t given = gp_context_trim_idle(device, bytes);

	if (given < bytes)
		given += gp_async_trim(device);
	if (given < bytes)
		given += gp_graph_trim(device);
	return given;
}

int gp_room_reserve(CUdevice device, const struct gp_charge *charge,
		    CUcontext except)
{
	struct gp_limit *limit = gp_device_limit(device);
	uint64_t outcomes;

	gp_reporter_again();
	for (int i = 0; i < MAX_TRIES; i++) {
		if (!gp_limit_reserve(limit, charge, &outcomes)) {
			gp_warn_grew(device);
			return 0;
		}
		if (!gp_limit_allows(limit, charge->bytes))
			break; /* nothing that could be given back helps */
		if (!gp_limit_wait(limit, outcomes) &&
		    !gp_room_make(device, charge->bytes, except))
			break;
	}
	limit_refused = true;
	return -ENOMEM;
}

/* Other processes on the card, after all that this one had. */
static bool neighbours_gave(CUdevice device)
{
	CUuuid uuid;

	return device >= 0 &&
	       gp_real()->cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS &&
	       gp_neighbours_ask((const uint8_t *)uuid.bytes, (uint32_t)device,
				 UINT64_MAX) > 0;
}

__attribute__((noinline, cold)) bool gp_room_lacked_on(CUdevice device,
						       uint64_t bytes)
{
	int saved = errno;
	uint64_t given;
	bool some;

	/* That may be the first call of all, a context's making: who has no
	 * file yet can ask nobody. */
	if (!gp_active())
		return false;
	limit_refused = false;
	given = gp_room_make(device, UINT64_MAX, NULL);
	some = given > 0;
	if (!given || given < bytes)
		some |= neighbours_gave(device);
	errno = saved;
	return some;
}

__attribute__((noinline, cold)) bool gp_room_lacked(uint64_t bytes)
{
	CUdevice device;

	/* Without a context the call was about some device all the same. */
	if (gp_real()->cuCtxGetDevice(&device) != CUDA_SUCCESS)
		device = -1;
	return gp_room_lacked_on(device, bytes);
}
