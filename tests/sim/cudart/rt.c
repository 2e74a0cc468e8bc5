#include "tests/sim/cudart/rt.h"

#include <dlfcn.h>
#include <pthread.h>

#define DEVICES_MAX 64

static struct rt_driver driver;
static cudaError_t load_error;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

/* Guarded by primary_lock. */
static CUcontext primary[DEVICES_MAX];
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

static __thread int device_now;
static __thread cudaError_t last_error;

/* The driver and the runtime number their errors alike. */
static cudaError_t as_runtime(CUresult err)
{
	return (cudaError_t)(int)err;
}

static bool look_up(const char *base, int version, void **pfn)
{
	CUdriverProcAddressQueryResult status;

	*pfn = NULL;
	return !driver.lookup(base, pfn, version,
			      CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) &&
	       *pfn;
}

static void load(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	bool all = true;
	CUresult err;

	load_error = cudaErrorInsufficientDriver;
	if (!handle)
		return;
	*(void **)&driver.lookup = dlsym(handle, "cuGetProcAddress_v2");
	if (!driver.lookup)
		return;
#define RT(base, version, entry) \
	all &= look_up(#base, version, (void **)&driver.base);
#include "tests/sim/cudart/rt.def"
#undef RT
	if (!all)
		return;
	err = driver.cuInit(0);
	load_error = as_runtime(err);
}

const struct rt_driver *rt_driver(cudaError_t *err)
{
	pthread_once(&load_once, load);
	*err = load_error;
	return load_error ? NULL : &driver;
}

cudaError_t rt_primary(int device, CUcontext *ctx)
{
	CUresult err = CUDA_SUCCESS;
	CUcontext have = NULL;

	if (device < 0 || device >= DEVICES_MAX)
		return cudaErrorInvalidDevice;
	pthread_mutex_lock(&primary_lock);
	if (!primary[device])
		err = driver.cuDevicePrimaryCtxRetain(&primary[device], device);
	if (!err)
		have = primary[device];
	pthread_mutex_unlock(&primary_lock);
	*ctx = have;
	return as_runtime(err);
}

void rt_forget_primary(int device)
{
	pthread_mutex_lock(&primary_lock);
	if (device >= 0 && device < DEVICES_MAX)
		primary[device] = NULL;
	pthread_mutex_unlock(&primary_lock);
}

/* Is this the context of a device that has been reset since? */
static bool is_reset(CUcontext ctx)
{
	unsigned flags;
	CUdevice device;
	int active = 1;
	bool ours = false;

	if (!driver.cuCtxGetDevice(&device))
		return false;
	pthread_mutex_lock(&primary_lock);
	for (int i = 0; i < DEVICES_MAX && !ours; i++)
		ours = primary[i] == ctx;
	pthread_mutex_unlock(&primary_lock);
	if (ours)
		return false;
	return !driver.cuDevicePrimaryCtxGetState(device_now, &flags,
						  &active) &&
	       !active;
}

const struct rt_driver *rt_enter(cudaError_t *err)
{
	const struct rt_driver *d = rt_driver(err);
	CUcontext ctx = NULL;
	CUresult res;

	if (!d)
		return NULL;
	res = d->cuCtxGetCurrent(&ctx);
	if (!res && (!ctx || is_reset(ctx))) {
		*err = rt_primary(device_now, &ctx);
		if (*err)
			return NULL;
		res = d->cuCtxSetCurrent(ctx);
	}
	*err = as_runtime(res);
	return res ? NULL : d;
}

int rt_device(void)
{
	return device_now;
}

void rt_set_device(int device)
{
	device_now = device;
}

cudaError_t rt_error(cudaError_t err)
{
	if (err)
		last_error = err;
	return err;
}

cudaError_t rt_result(CUresult err)
{
	return rt_error(as_runtime(err));
}

RT_API cudaError_t cudaGetLastError(void)
{
	cudaError_t err = last_error;

	last_error = cudaSuccess;
	return err;
}

RT_API cudaError_t cudaPeekAtLastError(void)
{
	return last_error;
}
