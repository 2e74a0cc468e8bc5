/* Copies and sets. */
#include "tests/sim/cudart/rt.h"

static CUresult copy_now(const struct rt_driver *d, void *dst, const void *src,
			 size_t n, enum cudaMemcpyKind kind)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return d->cuMemcpyHtoD(rt_va(dst), src, n);
	case cudaMemcpyDeviceToHost:
		return d->cuMemcpyDtoH(dst, rt_va(src), n);
	case cudaMemcpyDeviceToDevice:
		return d->cuMemcpyDtoD(rt_va(dst), rt_va(src), n);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return d->cuMemcpy(rt_va(dst), rt_va(src), n);
	default:
		return (CUresult)cudaErrorInvalidMemcpyDirection;
	}
}

RT_API cudaError_t cudaMemcpy(void *dst, const void *src, size_t n,
			      enum cudaMemcpyKind kind)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(copy_now(d, dst, src, n, kind)) : rt_error(err);
}

static CUresult copy_on(const struct rt_driver *d, void *dst, const void *src,
			size_t n, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return d->cuMemcpyHtoDAsync(rt_va(dst), src, n, stream);
	case cudaMemcpyDeviceToHost:
		return d->cuMemcpyDtoHAsync(dst, rt_va(src), n, stream);
	case cudaMemcpyDeviceToDevice:
		return d->cuMemcpyDtoDAsync(rt_va(dst), rt_va(src), n, stream);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return d->cuMemcpyAsync(rt_va(dst), rt_va(src), n, stream);
	default:
		return (CUresult)cudaErrorInvalidMemcpyDirection;
	}
}

RT_API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n,
				   enum cudaMemcpyKind kind,
				   cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(copy_on(d, dst, src, n, kind, stream))
		 : rt_error(err);
}

static CUDA_MEMCPY2D rows(void *dst, size_t dpitch, const void *src,
			  size_t spitch, size_t width, size_t height,
			  enum cudaMemcpyKind kind)
{
	bool from_host =
		kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
	bool to_host =
		kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
	CUDA_MEMCPY2D copy = {0};

	copy.srcMemoryType = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
			     : from_host               ? CU_MEMORYTYPE_HOST
						       : CU_MEMORYTYPE_DEVICE;
	copy.dstMemoryType = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
			     : to_host                 ? CU_MEMORYTYPE_HOST
						       : CU_MEMORYTYPE_DEVICE;
	copy.srcHost = src;
	copy.srcDevice = rt_va(src);
	copy.srcPitch = spitch;
	copy.dstHost = dst;
	copy.dstDevice = rt_va(dst);
	copy.dstPitch = dpitch;
	copy.WidthInBytes = width;
	copy.Height = height;
	return copy;
}

RT_API cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src,
				size_t spitch, size_t width, size_t height,
				enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY2D copy =
		rows(dst, dpitch, src, spitch, width, height, kind);
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	if (!d)
		return rt_error(err);
	if (width > dpitch || width > spitch)
		return rt_error(cudaErrorInvalidPitchValue);
	return rt_result(d->cuMemcpy2DUnaligned(&copy));
}

RT_API cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src,
				     size_t spitch, size_t width, size_t height,
				     enum cudaMemcpyKind kind,
				     cudaStream_t stream)
{
	CUDA_MEMCPY2D copy =
		rows(dst, dpitch, src, spitch, width, height, kind);
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	if (!d)
		return rt_error(err);
	if (width > dpitch || width > spitch)
		return rt_error(cudaErrorInvalidPitchValue);
	return rt_result(d->cuMemcpy2DAsync(&copy, stream));
}

RT_API cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src,
				       int from, size_t n, cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUcontext dst_ctx, src_ctx;

	if (!d)
		return rt_error(err);
	err = rt_primary(to, &dst_ctx);
	if (!err)
		err = rt_primary(from, &src_ctx);
	if (err)
		return rt_error(err);
	return rt_result(d->cuMemcpyPeerAsync(rt_va(dst), dst_ctx, rt_va(src),
					      src_ctx, n, stream));
}

RT_API cudaError_t cudaMemcpyPeer(void *dst, int to, const void *src, int from,
				  size_t n)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUcontext dst_ctx, src_ctx;

	if (!d)
		return rt_error(err);
	err = rt_primary(to, &dst_ctx);
	if (!err)
		err = rt_primary(from, &src_ctx);
	if (err)
		return rt_error(err);
	return rt_result(
		d->cuMemcpyPeer(rt_va(dst), dst_ctx, rt_va(src), src_ctx, n));
}

RT_API cudaError_t cudaMemset(void *p, int value, size_t n)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuMemsetD8(rt_va(p), (unsigned char)value, n))
		 : rt_error(err);
}

RT_API cudaError_t cudaMemsetAsync(void *p, int value, size_t n,
				   cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuMemsetD8Async(rt_va(p), (unsigned char)value,
						n, stream))
		 : rt_error(err);
}

RT_API cudaError_t cudaMemset2D(void *p, size_t pitch, int value, size_t width,
				size_t height)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuMemsetD2D8(rt_va(p), pitch,
					     (unsigned char)value, width,
					     height))
		 : rt_error(err);
}

RT_API cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value,
				     size_t width, size_t height,
				     cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuMemsetD2D8Async(rt_va(p), pitch,
						  (unsigned char)value, width,
						  height, stream))
		 : rt_error(err);
}
