/*
 * Contexts that the program makes and destroys. The pool of a context goes
 * after the driver destroyed it: by then its work is over.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "conf/conf.h"
#include "shim/context.h"
#include "shim/hooks.h"
#include "shim/overhead.h"
#include "shim/room.h"
#include "shim/state.h"

/* What others gave back meanwhile is not part of what the context takes. */
static bool room_made(struct gp_overhead *overhead, CUdevice device,
		      CUresult rc)
{
	if (!gp_room_made_on(device, 0, rc))
		return false;
	gp_overhead_again(overhead);
	return true;
}

static CUresult created(struct gp_overhead *overhead, CUresult rc,
			const CUcontext *context)
{
	if (rc == CUDA_SUCCESS && gp_may_intercept()) {
		gp_context_await_left(*context);
		gp_context_created(*context);
	}
	gp_overhead_end(overhead, rc, rc == CUDA_SUCCESS ? *context : NULL);
	return rc;
}

CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
	struct gp_overhead overhead;
	CUresult rc;

	gp_overhead_begin(&overhead, device, false);
	rc = gp_real()->cuCtxCreate(context, flags, device);
	if (room_made(&overhead, device, rc))
		rc = gp_real()->cuCtxCreate(context, flags, device);
	return created(&overhead, rc, context);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
	struct gp_overhead overhead;
	CUresult rc;

	gp_overhead_begin(&overhead, device, false);
	rc = gp_real()->cuCtxCreate_v2(context, flags, device);
	if (room_made(&overhead, device, rc))
		rc = gp_real()->cuCtxCreate_v2(context, flags, device);
	return created(&overhead, rc, context);
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params,
			int number, unsigned flags, CUdevice device)
{
	struct gp_overhead overhead;
	CUresult rc;

	gp_overhead_begin(&overhead, device, false);
	rc = gp_real()->cuCtxCreate_v3(context, params, number, flags, device);
	if (room_made(&overhead, device, rc))
		rc = gp_real()->cuCtxCreate_v3(context, params, number, flags,
					       device);
	return created(&overhead, rc, context);
}

#if CUDA_VERSION >= 12050
CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params,
			unsigned flags, CUdevice device)
{
	struct gp_overhead overhead;
	CUresult rc;

	gp_overhead_begin(&overhead, device, false);
	rc = gp_real()->cuCtxCreate_v4(context, params, flags, device);
	if (room_made(&overhead, device, rc))
		rc = gp_real()->cuCtxCreate_v4(context, params, flags, device);
	return created(&overhead, rc, context);
}
#endif

/* Who retains a primary context while the last one releases it, or resets the
 * device, gets it when all is forgotten of the one that was: whether it is the
 * same one nobody could tell. The driver lets him wait, too. */
static pthread_mutex_t primaries[GP_CONF_DEVICES] = {
	/* What a profiler runs within a retain may retain it, too. */
	[0 ... GP_CONF_DEVICES - 1] = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
};

/* NULL: nothing is known of any context, nor will be in a forked child. */
static pthread_mutex_t *lock_primary(CUdevice device)
{
	pthread_mutex_t *lock;

	if (!gp_running() || device < 0)
		return NULL;
	lock = &primaries[device < GP_CONF_DEVICES ? device
						   : GP_CONF_DEVICES - 1];
	pthread_mutex_lock(lock);
	return lock;
}

static void unlock_primary(pthread_mutex_t *lock)
{
	if (lock)
		pthread_mutex_unlock(lock);
}

static CUresult retain(CUcontext *context, CUdevice device)
{
	pthread_mutex_t *lock = lock_primary(device);
	CUresult rc = gp_real()->cuDevicePrimaryCtxRetain(context, device);

	unlock_primary(lock);
	return rc;
}

/* Made by the first who retains it. */
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	struct gp_overhead overhead;
	CUresult rc;

	gp_overhead_begin(&overhead, device, true);
	rc = retain(context, device);
	if (room_made(&overhead, device, rc))
		rc = retain(context, device);
	if (rc == CUDA_SUCCESS)
		gp_context_await_left(*context);
	gp_overhead_end(&overhead, rc, NULL);
	return rc;
}

static CUresult destroyed(CUresult rc, CUcontext context)
{
	if (!gp_may_intercept())
		return rc;
	if (rc == CUDA_SUCCESS)
		gp_context_gone(context);
	else if (context)
		gp_context_stays(context, -1);
	return rc;
}

/* Only what the program made can be destroyed. A forked child asks for no lock:
 * a thread of its parent may have had it. */
static void leaves(CUcontext context)
{
	if (gp_may_intercept() && gp_context_was_created(context))
		gp_context_leaves(context, -1);
}

CUresult cuCtxDestroy(CUcontext context)
{
	leaves(context);
	return destroyed(gp_real()->cuCtxDestroy(context), context);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	leaves(context);
	return destroyed(gp_real()->cuCtxDestroy_v2(context), context);
}

/* Only the last release destroys the primary context. */
static CUresult release(__typeof__(cuDevicePrimaryCtxRelease) *real,
			CUdevice device)
{
	pthread_mutex_t *lock = lock_primary(device);
	unsigned flags;
	int active = 1;
	CUresult rc;

	if (lock)
		gp_context_may_leave(device);
	rc = real(device);
	if (lock && rc == CUDA_SUCCESS &&
	    gp_real()->cuDevicePrimaryCtxGetState(device, &flags, &active) ==
		    CUDA_SUCCESS &&
	    !active)
		gp_context_primary_gone(device);
	else if (lock)
		gp_context_stays(NULL, device);
	unlock_primary(lock);
	return rc;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return release(gp_real()->cuDevicePrimaryCtxRelease, device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return release(gp_real()->cuDevicePrimaryCtxRelease_v2, device);
}

static CUresult reset(__typeof__(cuDevicePrimaryCtxReset) *real,
		      CUdevice device)
{
	pthread_mutex_t *lock = lock_primary(device);
	CUresult rc;

	if (lock)
		gp_context_leaves(NULL, device);
	rc = real(device);
	if (lock && rc == CUDA_SUCCESS)
		gp_context_primary_gone(device);
	else if (lock)
		gp_context_stays(NULL, device);
	unlock_primary(lock);
	return rc;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return reset(gp_real()->cuDevicePrimaryCtxReset, device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	return reset(gp_real()->cuDevicePrimaryCtxReset_v2, device);
}
