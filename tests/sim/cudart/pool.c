/* Stream-ordered memory and its pools. */
#include "tests/sim/cudart/rt.h"

RT_API cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes,
					   cudaMemPool_t pool,
					   cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUdeviceptr va = 0;

	if (!d)
		return rt_error(err);
	if (!out)
		return rt_error(cudaErrorInvalidValue);
	if (!bytes) {
		*out = NULL;
		return cudaSuccess;
	}
	return rt_got(
		out, &va,
		pool ? d->cuMemAllocFromPoolAsync(&va, bytes, pool, stream)
		     : d->cuMemAllocAsync(&va, bytes, stream));
}

RT_API cudaError_t cudaMallocAsync(void **out, size_t bytes,
				   cudaStream_t stream)
{
	return cudaMallocFromPoolAsync(out, bytes, NULL, stream);
}

RT_API cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	if (!d)
		return rt_error(err);
	return p ? rt_result(d->cuMemFreeAsync(rt_va(p), stream)) : cudaSuccess;
}

RT_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuDeviceGetDefaultMemPool(pool, device))
		 : rt_error(err);
}

RT_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuDeviceGetMemPool(pool, device))
		 : rt_error(err);
}

RT_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuDeviceSetMemPool(device, pool))
		 : rt_error(err);
}

RT_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
				     const struct cudaMemPoolProps *props)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);
	CUmemPoolProps own = {0};

	if (!d)
		return rt_error(err);
	if (!props)
		return rt_error(cudaErrorInvalidValue);
	own.allocType = (CUmemAllocationType)(int)props->allocType;
	own.handleTypes = (CUmemAllocationHandleType)(int)props->handleTypes;
	own.location.type = (CUmemLocationType)(int)props->location.type;
	own.location.id = props->location.id;
	return rt_result(d->cuMemPoolCreate(pool, &own));
}

RT_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuMemPoolDestroy(pool)) : rt_error(err);
}

RT_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuMemPoolTrimTo(pool, keep)) : rt_error(err);
}

RT_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
					   enum cudaMemPoolAttr attr,
					   void *value)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuMemPoolGetAttribute(
			   pool, (CUmemPool_attribute)(int)attr, value))
		 : rt_error(err);
}

RT_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
					   enum cudaMemPoolAttr attr,
					   void *value)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuMemPoolSetAttribute(
			   pool, (CUmemPool_attribute)(int)attr, value))
		 : rt_error(err);
}
