/*
 * Contexts that the program makes and destroys. The pool of a context goes
 * after the driver destroyed it: by then its work is over.
 */
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
	if (rc == CUDA_SUCCESS && gp_may_intercept())
		gp_context_created(*context);
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

/* Made by the first who retains it. */
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	struct gp_overhead overhead;
	CUresult rc;

	gp_overhead_begin(&overhead, device, true);
	rc = gp_real()->cuDevicePrimaryCtxRetain(context, device);
	if (room_made(&overhead, device, rc))
		rc = gp_real()->cuDevicePrimaryCtxRetain(context, device);
	gp_overhead_end(&overhead, rc, NULL);
	return rc;
}

static CUresult destroyed(CUresult rc, CUcontext context)
{
	if (rc == CUDA_SUCCESS)
		gp_context_gone(context);
	else if (context)
		gp_context_stays(context, -1);
	return rc;
}

/* Only what the program made can be destroyed. */
static void leaves(CUcontext context)
{
	if (gp_running() && gp_context_was_created(context))
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
static CUresult released(CUresult rc, CUdevice device)
{
	unsigned flags;
	int active = 1;

	if (rc == CUDA_SUCCESS && gp_running() &&
	    gp_real()->cuDevicePrimaryCtxGetState(device, &flags, &active) ==
		    CUDA_SUCCESS &&
	    !active)
		gp_context_primary_gone(device);
	return rc;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return released(gp_real()->cuDevicePrimaryCtxRelease(device), device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return released(gp_real()->cuDevicePrimaryCtxRelease_v2(device),
			device);
}

static void resets(CUdevice device)
{
	if (gp_running())
		gp_context_leaves(NULL, device);
}

static CUresult reset(CUresult rc, CUdevice device)
{
	if (rc == CUDA_SUCCESS)
		gp_context_primary_gone(device);
	else
		gp_context_stays(NULL, device);
	return rc;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	resets(device);
	return reset(gp_real()->cuDevicePrimaryCtxReset(device), device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	resets(device);
	return reset(gp_real()->cuDevicePrimaryCtxReset_v2(device), device);
}
