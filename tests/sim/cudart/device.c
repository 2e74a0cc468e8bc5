/* Devices, versions and error texts. */
#include "tests/sim/cudart/rt.h"

#include <string.h>

RT_API cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	if (!count)
		return rt_error(cudaErrorInvalidValue);
	if (!d) {
		*count = 0;
		return rt_error(err);
	}
	return rt_result(d->cuDeviceGetCount(count));
}

RT_API cudaError_t cudaGetDevice(int *device)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);
	CUcontext ctx = NULL;
	CUdevice dev;

	if (!device)
		return rt_error(cudaErrorInvalidValue);
	if (!d)
		return rt_error(err);
	/* A context made current through the driver decides. */
	if (!d->cuCtxGetCurrent(&ctx) && ctx && !d->cuCtxGetDevice(&dev))
		*device = dev;
	else
		*device = rt_device();
	return cudaSuccess;
}

RT_API cudaError_t cudaSetDevice(int device)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);
	CUcontext ctx;
	int count = 0;

	if (!d)
		return rt_error(err);
	if (d->cuDeviceGetCount(&count) || device < 0 || device >= count)
		return rt_error(cudaErrorInvalidDevice);
	rt_set_device(device);
	err = rt_primary(device, &ctx);
	return err ? rt_error(err) : rt_result(d->cuCtxSetCurrent(ctx));
}

RT_API cudaError_t cudaSetDeviceFlags(unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuDevicePrimaryCtxSetFlags(rt_device(), flags))
		 : rt_error(err);
}

RT_API cudaError_t cudaDeviceSynchronize(void)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuCtxSynchronize()) : rt_error(err);
}

RT_API cudaError_t cudaDeviceReset(void)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);
	CUresult res;

	if (!d)
		return rt_error(err);
	res = d->cuDevicePrimaryCtxReset(rt_device());
	rt_forget_primary(rt_device());
	return rt_result(res);
}

RT_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr,
					  int device)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuDeviceGetAttribute(
			   value, (CUdevice_attribute)(int)attr, device))
		 : rt_error(err);
}

static int attribute(const struct rt_driver *d, CUdevice_attribute attr,
		     int device)
{
	int value = 0;

	d->cuDeviceGetAttribute(&value, attr, device);
	return value;
}

RT_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop,
					   int device)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);
	CUresult res;

	if (!d)
		return rt_error(err);
	if (!prop)
		return rt_error(cudaErrorInvalidValue);
	memset(prop, 0, sizeof(*prop));
	res = d->cuDeviceGetName(prop->name, sizeof(prop->name), device);
	if (res)
		return rt_result(res);
	d->cuDeviceTotalMem(&prop->totalGlobalMem, device);
	d->cuDeviceGetUuid((CUuuid *)&prop->uuid, device);
	prop->major = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
				device);
	prop->minor = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
				device);
	prop->multiProcessorCount =
		attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	prop->warpSize = attribute(d, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
	prop->maxThreadsPerBlock =
		attribute(d, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
	prop->l2CacheSize =
		attribute(d, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
	prop->unifiedAddressing =
		attribute(d, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device);
	prop->managedMemory =
		attribute(d, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device);
	prop->memoryPoolsSupported = attribute(
		d, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device);
	prop->canMapHostMemory =
		attribute(d, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, device);
	return cudaSuccess;
}

RT_API cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuDeviceGetPCIBusId(id, size, device))
		 : rt_error(err);
}

RT_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuCtxGetStreamPriorityRange(least, greatest))
		 : rt_error(err);
}

RT_API cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuCtxGetLimit(value, (CUlimit)(int)limit))
		 : rt_error(err);
}

RT_API cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuCtxSetLimit((CUlimit)(int)limit, value))
		 : rt_error(err);
}

RT_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuDeviceCanAccessPeer(can, device, peer))
		 : rt_error(err);
}

RT_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUcontext ctx;

	if (!d)
		return rt_error(err);
	err = rt_primary(peer, &ctx);
	return err ? rt_error(err)
		   : rt_result(d->cuCtxEnablePeerAccess(ctx, flags));
}

RT_API cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUcontext ctx;

	if (!d)
		return rt_error(err);
	err = rt_primary(peer, &ctx);
	return err ? rt_error(err) : rt_result(d->cuCtxDisablePeerAccess(ctx));
}

/* ---- versions and entry points ---------------------------------------------------------- */

RT_API cudaError_t cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return rt_error(cudaErrorInvalidValue);
	*version = CUDART_VERSION;
	return cudaSuccess;
}

/* No driver is version 0, not an error. */
RT_API cudaError_t cudaDriverGetVersion(int *version)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	if (!version)
		return rt_error(cudaErrorInvalidValue);
	*version = 0;
	return d ? rt_result(d->cuDriverGetVersion(version)) : cudaSuccess;
}

static cudaError_t entry_point(const char *symbol, void **pfn, int version,
			       unsigned long long flags,
			       enum cudaDriverEntryPointQueryResult *status)
{
	CUdriverProcAddressQueryResult own = CU_GET_PROC_ADDRESS_SUCCESS;
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);
	CUresult res;

	if (!d)
		return rt_error(err);
	res = d->lookup(symbol, pfn, version, flags, &own);
	if (status)
		*status = (enum cudaDriverEntryPointQueryResult)(int)own;
	/* What is not there is told by the status. */
	return res == CUDA_ERROR_NOT_FOUND && status ? cudaSuccess
						     : rt_result(res);
}

#if CUDART_VERSION >= 12050
RT_API cudaError_t cudaGetDriverEntryPointByVersion(
	const char *symbol, void **pfn, unsigned version,
	unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	return entry_point(symbol, pfn, (int)version, flags, status);
}
#endif

#if CUDART_VERSION >= 12000 && CUDART_VERSION < 13000
RT_API cudaError_t cudaGetDriverEntryPoint(
	const char *symbol, void **pfn, unsigned long long flags,
	enum cudaDriverEntryPointQueryResult *status)
{
	return entry_point(symbol, pfn, CUDART_VERSION, flags, status);
}
#endif

/* ---- error texts -------------------------------------------------------------------------- */

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
#define SIM_ERROR(code, name, text) {code, #name, text},
#include "tests/sim/errors.def"
#undef SIM_ERROR
};

/* The runtime names the same codes in its own way; the common ones. */
static const struct {
	cudaError_t code;
	const char *name;
} runtime_names[] = {
	{cudaSuccess, "cudaSuccess"},
	{cudaErrorInvalidValue, "cudaErrorInvalidValue"},
	{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation"},
	{cudaErrorInitializationError, "cudaErrorInitializationError"},
	{cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver"},
	{cudaErrorInvalidDevice, "cudaErrorInvalidDevice"},
	{cudaErrorNoDevice, "cudaErrorNoDevice"},
	{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle"},
	{cudaErrorNotReady, "cudaErrorNotReady"},
	{cudaErrorIllegalAddress, "cudaErrorIllegalAddress"},
	{cudaErrorNotSupported, "cudaErrorNotSupported"},
	{cudaErrorNotPermitted, "cudaErrorNotPermitted"},
	{cudaErrorStreamCaptureUnsupported,
	 "cudaErrorStreamCaptureUnsupported"},
	{cudaErrorStreamCaptureInvalidated,
	 "cudaErrorStreamCaptureInvalidated"},
	{cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection"},
	{cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue"},
	{cudaErrorUnknown, "cudaErrorUnknown"},
};

static const char *driver_word(cudaError_t err, bool text)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == (int)err)
			return text ? errors[i].text : errors[i].name;
	return "unrecognized error code";
}

RT_API const char *cudaGetErrorName(cudaError_t err)
{
	const size_t n = sizeof(runtime_names) / sizeof(*runtime_names);

	for (size_t i = 0; i < n; i++)
		if (runtime_names[i].code == err)
			return runtime_names[i].name;
	return driver_word(err, false);
}

RT_API const char *cudaGetErrorString(cudaError_t err)
{
	switch ((int)err) {
	case cudaErrorInsufficientDriver:
		return "CUDA driver version is insufficient for CUDA runtime "
		       "version";
	case cudaErrorInvalidMemcpyDirection:
		return "invalid copy direction for memcpy";
	case cudaErrorInvalidPitchValue:
		return "invalid pitch argument";
	default:
		return driver_word(err, true);
	}
}
