/* Allocation, and what an address is. */
#include "tests/sim/cudart/rt.h"

#include <stdlib.h>
#include <string.h>

RT_API cudaError_t cudaMalloc(void **out, size_t bytes)
{
	const struct rt_driver *d;
	CUdeviceptr va = 0;
	cudaError_t err;

	if (!out)
		return rt_error(cudaErrorInvalidValue);
	d = rt_enter(&err);
	if (!d)
		return rt_error(err);
	if (!bytes) {
		*out = NULL;
		return cudaSuccess;
	}
	return rt_got(out, &va, d->cuMemAlloc(&va, bytes));
}

RT_API cudaError_t cudaFree(void *p)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	if (!d)
		return rt_error(err);
	return rt_result(d->cuMemFree(rt_va(p))); /* of NULL, too (measured) */
}

RT_API cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width,
				   size_t height)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUdeviceptr va = 0;

	if (!d)
		return rt_error(err);
	if (!out || !pitch)
		return rt_error(cudaErrorInvalidValue);
	if (!width || !height) {
		*out = NULL;
		*pitch = 0;
		return cudaSuccess;
	}
	return rt_got(out, &va,
		      d->cuMemAllocPitch(&va, pitch, width, height, 4));
}

RT_API cudaError_t cudaMalloc3D(struct cudaPitchedPtr *out,
				struct cudaExtent extent)
{
	size_t pitch = 0;
	void *p = NULL;
	cudaError_t err;

	if (!out)
		return rt_error(cudaErrorInvalidValue);
	err = cudaMallocPitch(&p, &pitch, extent.width,
			      extent.height * extent.depth);
	if (err)
		return err;
	out->ptr = p;
	out->pitch = pitch;
	out->xsize = extent.width;
	out->ysize = extent.height;
	return cudaSuccess;
}

RT_API cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUdeviceptr va = 0;

	if (!d)
		return rt_error(err);
	if (!out)
		return rt_error(cudaErrorInvalidValue);
	return rt_got(out, &va, d->cuMemAllocManaged(&va, bytes, flags));
}

RT_API cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	if (!d)
		return rt_error(err);
	if (!out)
		return rt_error(cudaErrorInvalidValue);
	if (!bytes) {
		*out = NULL;
		return cudaSuccess;
	}
	return rt_result(d->cuMemHostAlloc(out, bytes, flags));
}

RT_API cudaError_t cudaMallocHost(void **out, size_t bytes)
{
	return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}

RT_API cudaError_t cudaFreeHost(void *p)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	if (!d)
		return rt_error(err);
	return p ? rt_result(d->cuMemFreeHost(p)) : cudaSuccess;
}

RT_API cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuMemHostRegister(p, bytes, flags))
		 : rt_error(err);
}

RT_API cudaError_t cudaHostUnregister(void *p)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuMemHostUnregister(p)) : rt_error(err);
}

RT_API cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUdeviceptr va = 0;

	if (!d)
		return rt_error(err);
	if (!out)
		return rt_error(cudaErrorInvalidValue);
	return rt_got(out, &va, d->cuMemHostGetDevicePointer(&va, p, flags));
}

RT_API cudaError_t cudaHostGetFlags(unsigned *flags, void *p)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuMemHostGetFlags(flags, p)) : rt_error(err);
}

/* ---- arrays --------------------------------------------------------------------- */

static CUarray_format format_of(const struct cudaChannelFormatDesc *desc)
{
	bool is_signed = desc->f == cudaChannelFormatKindSigned;

	if (desc->f == cudaChannelFormatKindFloat)
		return desc->x == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
	switch (desc->x) {
	case 8:
		return is_signed ? CU_AD_FORMAT_SIGNED_INT8
				 : CU_AD_FORMAT_UNSIGNED_INT8;
	case 16:
		return is_signed ? CU_AD_FORMAT_SIGNED_INT16
				 : CU_AD_FORMAT_UNSIGNED_INT16;
	default:
		return is_signed ? CU_AD_FORMAT_SIGNED_INT32
				 : CU_AD_FORMAT_UNSIGNED_INT32;
	}
}

RT_API cudaError_t cudaMalloc3DArray(cudaArray_t *out,
				     const struct cudaChannelFormatDesc *desc,
				     struct cudaExtent extent, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUDA_ARRAY3D_DESCRIPTOR own = {0};

	if (!d)
		return rt_error(err);
	if (!out || !desc)
		return rt_error(cudaErrorInvalidValue);
	own.Width = extent.width;
	own.Height = extent.height;
	own.Depth = extent.depth;
	own.Format = format_of(desc);
	own.NumChannels =
		(unsigned)!!desc->x + !!desc->y + !!desc->z + !!desc->w;
	own.Flags = flags;
	return rt_result(d->cuArray3DCreate((CUarray *)out, &own));
}

RT_API cudaError_t cudaMallocArray(cudaArray_t *out,
				   const struct cudaChannelFormatDesc *desc,
				   size_t width, size_t height, unsigned flags)
{
	struct cudaExtent extent = {width, height, 0};

	return cudaMalloc3DArray(out, desc, extent, flags);
}

RT_API cudaError_t cudaFreeArray(cudaArray_t array)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	if (!d)
		return rt_error(err);
	return array ? rt_result(d->cuArrayDestroy((CUarray)array))
		     : cudaSuccess;
}

/* ---- questions --------------------------------------------------------------------- */

RT_API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuMemGetInfo(free_bytes, total))
		 : rt_error(err);
}

RT_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out,
					    const void *p)
{
	CUpointer_attribute ask[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				     CU_POINTER_ATTRIBUTE_IS_MANAGED,
				     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				     CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				     CU_POINTER_ATTRIBUTE_HOST_POINTER};
	CUmemorytype type = 0;
	char managed = 0;
	int device = 0;
	CUdeviceptr va = 0;
	void *host = NULL;
	void *answers[] = {&type, &managed, &device, &va, &host};
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUresult res;

	if (!d)
		return rt_error(err);
	if (!out)
		return rt_error(cudaErrorInvalidValue);
	res = d->cuPointerGetAttributes(5, ask, answers, rt_va(p));
	if (res)
		return rt_result(res);
	memset(out, 0, sizeof(*out));
	out->type = managed                        ? cudaMemoryTypeManaged
		    : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
		    : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
						   : cudaMemoryTypeUnregistered;
	out->device = device;
	out->devicePointer = (void *)(uintptr_t)va;
	out->hostPointer = type ? host : (void *)(uintptr_t)p;
	return cudaSuccess;
}
