/*
 * Contexts that the program makes and destroys. The pool of a context goes
 * after the driver destroyed it: by then its work is over.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "conf/conf.h"
#include "shim/capture.h"
#include "shim/context.h"
#include "shim/follow.h"
#include "shim/green.h"
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
 * same one nobody could tell. The driver lets him wait, too.
 * Rank: above the contexts' lock. Held across driver calls. */
static pthread_mutex_t primaries[GP_CONF_DEVICES] = {
	/* What a profiler runs within a retain may retain it, too. */
	[0 ... GP_CONF_DEVICES - 1] = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
};

/* What the program's retains gave last, as long as nobody has released it or
 * reset the device since. Synchronization: atomic. */
static CUcontext retained[GP_CONF_DEVICES];

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

static void note_retained(CUdevice device, CUcontext context)
{
	if (device >= 0 && device < GP_CONF_DEVICES)
		__atomic_store_n(&retained[device], context, __ATOMIC_RELEASE);
}

/* 1 or 0; -1: the driver does not say. */
static int active(CUdevice device)
{
	unsigned flags;
	int is = -1;

	return gp_real()->cuDevicePrimaryCtxGetState(device, &flags, &is) ==
			       CUDA_SUCCESS
		       ? is != 0
		       : -1;
}

/* `keep`: for the program, which releases it; else only where it is not there
 * yet. In one go, so that the last one to release it is seen to be that. */
static CUresult retain(CUcontext *context, CUdevice device, bool keep)
{
	const struct gp_real *real = gp_real();
	pthread_mutex_t *lock = lock_primary(device);
	bool was_there = !keep && active(device) > 0;
	CUresult rc = real->cuDevicePrimaryCtxRetain(context, device);

	if (rc == CUDA_SUCCESS)
		note_retained(device, *context);
	if (rc == CUDA_SUCCESS && was_there)
		real->cuDevicePrimaryCtxRelease_v2(device);
	unlock_primary(lock);
	return rc;
}

/* Made by the first who retains it. */
static CUresult get(CUcontext *context, CUdevice device, bool keep)
{
	struct gp_overhead overhead;
	CUresult rc;

	gp_overhead_begin(&overhead, device, true);
	rc = retain(context, device, keep);
	if (room_made(&overhead, device, rc))
		rc = retain(context, device, keep);
	if (rc == CUDA_SUCCESS)
		gp_context_await_left(*context);
	gp_overhead_end(&overhead, rc, NULL);
	return rc;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	return get(context, device, true);
}

CUresult gp_context_primary(CUcontext *context, CUdevice device)
{
	return get(context, device, false);
}

/* Where nobody was seen to retain it, that is the only way to learn its handle;
 * it is cheap while the context is there. */
static __attribute__((noinline, cold)) CUcontext ask_primary(CUdevice device)
{
	const struct gp_real *real = gp_real();
	pthread_mutex_t *lock = lock_primary(device);
	CUcontext primary = NULL;

	if (active(device) > 0 &&
	    real->cuDevicePrimaryCtxRetain(&primary, device) == CUDA_SUCCESS)
		real->cuDevicePrimaryCtxRelease_v2(device);
	unlock_primary(lock);
	return primary;
}

bool gp_context_is_primary(CUcontext handle, CUdevice device)
{
	if (device >= 0 && device < GP_CONF_DEVICES &&
	    __atomic_load_n(&retained[device], __ATOMIC_ACQUIRE) == handle)
		return true;
	return ask_primary(device) == handle;
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
static pthread_mutex_t *release_begins(CUdevice device)
{
	pthread_mutex_t *lock = lock_primary(device);

	note_retained(device, NULL);
	if (lock)
		gp_context_may_leave(device);
	return lock;
}

static CUresult release_ended(pthread_mutex_t *lock, CUdevice device,
			      CUresult rc)
{
	if (lock && rc == CUDA_SUCCESS && active(device) == 0)
		gp_context_primary_gone(device);
	else if (lock)
		gp_context_stays(NULL, device);
	unlock_primary(lock);
	return rc;
}

static CUresult release(__typeof__(cuDevicePrimaryCtxRelease) *real,
			CUdevice device)
{
	pthread_mutex_t *lock = release_begins(device);

	return release_ended(lock, device, real(device));
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
	note_retained(device, NULL);
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

/* ---- green contexts ------------------------------------------------------------------ */

#if CUDA_VERSION >= 12040
/* It retains the primary one, which the first who does so makes. */
static CUresult make_green(CUgreenCtx *green, CUdevResourceDesc desc,
			   CUdevice device, unsigned flags)
{
	pthread_mutex_t *lock = lock_primary(device);
	CUresult rc = gp_real()->cuGreenCtxCreate(green, desc, device, flags);

	unlock_primary(lock);
	return rc;
}

static void know_green(CUgreenCtx green, CUdevice device)
{
	struct gp_green made = {.green = green, .device = device};

	gp_context_others();
	if (gp_real()->cuCtxFromGreenCtx(&made.context, green) !=
	    CUDA_SUCCESS) {
		gp_green_unknown();
		return;
	}
	gp_context_await_left(made.context);
	gp_green_add(&made);
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc,
			  CUdevice device, unsigned flags)
{
	struct gp_overhead overhead;
	CUresult rc;

	gp_overhead_begin(&overhead, device, true);
	rc = make_green(green, desc, device, flags);
	if (room_made(&overhead, device, rc))
		rc = make_green(green, desc, device, flags);
	if (rc == CUDA_SUCCESS && gp_may_intercept())
		know_green(*green, device);
	gp_overhead_end(&overhead, rc, NULL);
	return rc;
}

/* Its streams are left behind, or go with it: no call takes them any more, what
 * they have goes on. And it releases the primary one. */
CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	const struct gp_real *real = gp_real();
	pthread_mutex_t *lock;
	struct gp_green was;
	uint64_t captures;
	CUresult rc;

	if (!gp_may_intercept() || !gp_green_take(green, &was))
		return real->cuGreenCtxDestroy(green);
	gp_follow_leave(was.context);
	gp_context_green_gone(was.context);
	lock = release_begins(was.device);
	captures = gp_capture_last();
	rc = real->cuGreenCtxDestroy(green);
	if (rc == CUDA_SUCCESS)
		gp_capture_forget(was.context, captures);
	else
		gp_green_add(&was);
	return release_ended(lock, was.device, rc);
}
#endif
