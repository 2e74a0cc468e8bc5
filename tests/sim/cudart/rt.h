/*
 * The simulated runtime: how its parts reach the driver and each other.
 *
 * It finds the driver as NVIDIA's does: dlopen, dlsym of cuGetProcAddress_v2,
 * and that for everything else, at the first call that needs it. The primary
 * context is retained when first needed. The last error is a thread's own; a
 * success does not clear it.
 */
#ifndef SIM_RT_H
#define SIM_RT_H

#include <stdbool.h>

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cuda_runtime_api.h>

#define RT_API __attribute__((visibility("default")))

struct rt_driver {
	CUresult (*lookup)(const char *symbol, void **pfn, int version,
			   cuuint64_t flags,
			   CUdriverProcAddressQueryResult *status);
#define RT(base, version, entry) __typeof__(entry) *base;
#include "tests/sim/cudart/rt.def"
#undef RT
};

/* The driver, loaded and initialised, else NULL with *err. Thread-safe. */
const struct rt_driver *rt_driver(cudaError_t *err);

/* The same, and this thread has a context. */
const struct rt_driver *rt_enter(cudaError_t *err);

/* The primary context of a device, retained. */
cudaError_t rt_primary(int device, CUcontext *ctx);
/* It was reset: it has to be retained again. */
void rt_forget_primary(int device);

/* The thread's device. */
int rt_device(void);
void rt_set_device(int device);

/* A driver's result as the runtime's, remembered as the last error. */
cudaError_t rt_result(CUresult err);
cudaError_t rt_error(cudaError_t err);

static inline CUdeviceptr rt_va(const void *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

/* rt_result() of a call that gives *va, which is the program's if it did. */
static inline cudaError_t rt_got(void **out, const CUdeviceptr *va,
				 CUresult res)
{
	if (!res)
		*out = (void *)(uintptr_t)*va;
	return rt_result(res);
}

#endif
