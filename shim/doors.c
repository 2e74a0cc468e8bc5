/*
 * The doors of frameworks that let others allocate for them: PyTorch's pluggable
 * allocator, and through the Python module CuPy and RMM. See gpupool.h.
 */
#define _GNU_SOURCE
#define GPUPOOL_FUNCTION __attribute__((visibility("default")))
#include "shim/gpupool.h"

#include <dlfcn.h>
#include <errno.h>

#include "pool/pool.h"
#include "shim/alloc.h"
#include "shim/context.h"
#include "shim/hooks.h"
#include "stats/log.h"

/* Does the process look its symbols up here first? Else nobody's work passes
 * through us, and memory could not be used again in its order. Constant. */
static bool stands_in_front(void)
{
	static int answer; /* 0: not asked yet, 1, -1; atomic */
	int now = __atomic_load_n(&answer, __ATOMIC_RELAXED);
	void *program, *first;
	Dl_info found, own;

	if (now)
		return now > 0;
	/* Not RTLD_DEFAULT: that begins with ourselves. */
	program = dlopen(NULL, RTLD_LAZY);
	first = gp_dlsym(program, "dlsym");
	now = first && dladdr(first, &found) && dladdr(&answer, &own) &&
			      found.dli_fbase == own.dli_fbase
		      ? 1
		      : -1;
	dlclose(program);
	if (now < 0)
		gp_warn("libgpupool.so was opened but not preloaded, so what "
			"gpupool_torch_alloc() gives comes from the driver; "
			"start the program with LD_PRELOAD, or with `gpupool "
			"run`");
	__atomic_store_n(&answer, now, __ATOMIC_RELAXED);
	return now > 0;
}

/* Makes a context of `device` current; *pushed: it is to be popped. A thread
 * that had none keeps it, as it would after cudaMalloc. */
static CUresult enter(CUdevice device, bool *pushed)
{
	const struct gp_real *real = gp_real();
	CUcontext current = NULL, primary;
	CUdevice on = -1;
	CUresult rc = real->cuCtxGetCurrent(&current);

	*pushed = false;
	if (rc != CUDA_SUCCESS ||
	    (current && real->cuCtxGetDevice(&on) == CUDA_SUCCESS &&
	     on == device))
		return rc;
	rc = gp_context_primary(&primary, device);
	if (rc == CUDA_SUCCESS)
		rc = real->cuCtxPushCurrent_v2(primary);
	*pushed = rc == CUDA_SUCCESS && current;
	return rc;
}

static void leave(bool pushed)
{
	CUcontext popped;

	if (pushed)
		gp_real()->cuCtxPopCurrent_v2(&popped);
}

static CUresult take(CUdevice device, size_t bytes, CUdeviceptr *address)
{
	bool pushed;
	CUresult rc = enter(device, &pushed);

	if (rc != CUDA_SUCCESS)
		return rc;
	rc = stands_in_front() ? gp_alloc(address, bytes, "gpupool_torch_alloc")
			       : gp_real()->cuMemAlloc_v2(address, bytes);
	leave(pushed);
	return rc;
}

void *gpupool_torch_alloc(ssize_t size, int device, void *stream)
{
	CUdeviceptr address = 0;
	int saved = errno;
	CUresult rc;

	(void)stream;
	if (size <= 0)
		return NULL;
	rc = take(device, (size_t)size, &address);
	if (rc != CUDA_SUCCESS)
		gp_warn("gpupool_torch_alloc: no %zd bytes on device %d (CUDA "
			"error %d); a caller that does not look at the answer "
			"will use address 0",
			size, device, (int)rc);
	errno = saved;
	return rc == CUDA_SUCCESS ? (void *)address : NULL;
}

static CUresult give(CUdevice device, CUdeviceptr address)
{
	bool pushed;
	CUresult rc;

	if (gp_pool_of(address)) /* whatever is current */
		return gp_free_in_order(address);
	rc = enter(device, &pushed);
	/* The address says whose it is; cudaFree does not ask for a device. */
	if (rc != CUDA_SUCCESS && rc != CUDA_ERROR_INVALID_DEVICE)
		return rc;
	rc = stands_in_front() ? gp_free_in_order(address)
			       : gp_real()->cuMemFree_v2(address);
	leave(pushed);
	return rc;
}

void gpupool_torch_free(void *address, ssize_t size, int device, void *stream)
{
	int saved = errno;
	CUresult rc;

	(void)size;
	(void)stream;
	if (!address)
		return;
	rc = give(device, (CUdeviceptr)address);
	/* At the end of a process the driver may be gone before its users. */
	if (rc != CUDA_SUCCESS && rc != CUDA_ERROR_DEINITIALIZED)
		gp_warn("gpupool_torch_free: %p could not be freed (CUDA error "
			"%d)",
			address, (int)rc);
	errno = saved;
}
