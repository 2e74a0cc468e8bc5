/*
 * Contexts that the program makes and destroys. The pool of a context goes
 * after the driver destroyed it: by then its work is over.
 */
#include "shim/context.h"
#include "shim/hooks.h"
#include "shim/state.h"

static CUresult created(CUresult rc, const CUcontext *context)
{
	if (rc == CUDA_SUCCESS && gp_may_intercept())
		gp_context_created(*context);
	return rc;
}

CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
	return created(gp_real()->cuCtxCreate(context, flags, device), context);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
	return created(gp_real()->cuCtxCreate_v2(context, flags, device),
		       context);
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params,
			int number, unsigned flags, CUdevice device)
{
	return created(gp_real()->cuCtxCreate_v3(context, params, number, flags,
						 device),
		       context);
}

#if CUDA_VERSION >= 12050
CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params,
			unsigned flags, CUdevice device)
{
	return created(
		gp_real()->cuCtxCreate_v4(context, params, flags, device),
		context);
}
#endif

static CUresult destroyed(CUresult rc, CUcontext context)
{
	if (rc == CUDA_SUCCESS)
		gp_context_gone(context);
	return rc;
}

CUresult cuCtxDestroy(CUcontext context)
{
	return destroyed(gp_real()->cuCtxDestroy(context), context);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
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

static CUresult reset(CUresult rc, CUdevice device)
{
	if (rc == CUDA_SUCCESS)
		gp_context_primary_gone(device);
	return rc;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return reset(gp_real()->cuDevicePrimaryCtxReset(device), device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	return reset(gp_real()->cuDevicePrimaryCtxReset_v2(device), device);
}
