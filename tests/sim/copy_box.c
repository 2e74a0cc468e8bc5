/*
 * Copies of boxes, of arrays, and of many ranges at once.
 */
#include "tests/sim/bodies.h"
#include "tests/sim/work.h"

/* One side of a copy. False: it makes no sense. locked. */
static bool side(struct sim_box *box, CUmemorytype type, const void *host,
		 CUdeviceptr device, CUarray array, size_t pitch, size_t rows,
		 size_t x, size_t y, size_t z, const CUDA_MEMCPY3D_PEER *c)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		box->va = (CUdeviceptr)(uintptr_t)host;
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		box->va = device;
		break;
	case CU_MEMORYTYPE_ARRAY:
		if (!sim_array_layout(array, &box->va, &pitch, &rows))
			return false;
		break;
	default:
		return false;
	}
	if (!pitch)
		pitch = c->WidthInBytes;
	if (!rows)
		rows = c->Height;
	if (c->WidthInBytes > pitch || c->Height > rows)
		return false;
	box->pitch = pitch;
	box->slice = pitch * rows;
	box->va += z * box->slice + y * pitch + x;
	box->width = c->WidthInBytes;
	box->height = c->Height;
	box->depth = c->Depth;
	return true;
}

/* NULL contexts: the stream's. */
static CUresult copy_box(const CUDA_MEMCPY3D_PEER *c, CUstream stream,
			 bool sync)
{
	struct sim_work work = {
		.kind = SIM_W_COPY,
		.dst_ctx = (struct sim_ctx *)(void *)c->dstContext,
		.src_ctx = (struct sim_ctx *)(void *)c->srcContext,
		.named = c->dstContext || c->srcContext,
	};
	bool good;

	sim_lock();
	good = (!work.dst_ctx || sim_handle_is(SIM_K_CTX, work.dst_ctx)) &&
	       (!work.src_ctx || sim_handle_is(SIM_K_CTX, work.src_ctx)) &&
	       side(&work.dst, c->dstMemoryType, c->dstHost, c->dstDevice,
		    c->dstArray, c->dstPitch, c->dstHeight, c->dstXInBytes,
		    c->dstY, c->dstZ, c) &&
	       side(&work.src, c->srcMemoryType, c->srcHost, c->srcDevice,
		    c->srcArray, c->srcPitch, c->srcHeight, c->srcXInBytes,
		    c->srcY, c->srcZ, c);
	sim_unlock();
	return good ? sim_transfer(stream, &work, sync)
		    : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool sync)
{
	CUDA_MEMCPY3D_PEER box = {0};

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	box.srcXInBytes = c->srcXInBytes;
	box.srcY = c->srcY;
	box.srcMemoryType = c->srcMemoryType;
	box.srcHost = c->srcHost;
	box.srcDevice = c->srcDevice;
	box.srcArray = c->srcArray;
	box.srcPitch = c->srcPitch;
	box.srcHeight = c->srcY + c->Height;
	box.dstXInBytes = c->dstXInBytes;
	box.dstY = c->dstY;
	box.dstMemoryType = c->dstMemoryType;
	box.dstHost = c->dstHost;
	box.dstDevice = c->dstDevice;
	box.dstArray = c->dstArray;
	box.dstPitch = c->dstPitch;
	box.dstHeight = c->dstY + c->Height;
	box.WidthInBytes = c->WidthInBytes;
	box.Height = c->Height;
	box.Depth = 1;
	return copy_box(&box, stream, sync);
}

CUresult sim_copy_2d(const CUDA_MEMCPY2D *copy)
{
	return copy_2d(copy, NULL, true);
}

CUresult sim_copy_2d_async(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return copy_2d(copy, stream, false);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, bool sync)
{
	CUDA_MEMCPY3D_PEER box = {0};

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	box.srcXInBytes = c->srcXInBytes;
	box.srcY = c->srcY;
	box.srcZ = c->srcZ;
	box.srcMemoryType = c->srcMemoryType;
	box.srcHost = c->srcHost;
	box.srcDevice = c->srcDevice;
	box.srcArray = c->srcArray;
	box.srcPitch = c->srcPitch;
	box.srcHeight = c->srcHeight;
	box.dstXInBytes = c->dstXInBytes;
	box.dstY = c->dstY;
	box.dstZ = c->dstZ;
	box.dstMemoryType = c->dstMemoryType;
	box.dstHost = c->dstHost;
	box.dstDevice = c->dstDevice;
	box.dstArray = c->dstArray;
	box.dstPitch = c->dstPitch;
	box.dstHeight = c->dstHeight;
	box.WidthInBytes = c->WidthInBytes;
	box.Height = c->Height;
	box.Depth = c->Depth;
	return copy_box(&box, stream, sync);
}

CUresult sim_copy_3d(const CUDA_MEMCPY3D *copy)
{
	return copy_3d(copy, NULL, true);
}

CUresult sim_copy_3d_async(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return copy_3d(copy, stream, false);
}

CUresult sim_copy_3d_peer(const CUDA_MEMCPY3D_PEER *copy)
{
	return copy ? copy_box(copy, NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_copy_3d_peer_async(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	return copy ? copy_box(copy, stream, false) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- arrays as a row of bytes ------------------------------------------------ */

/* Where byte `at` of an array is; 0: no such array. */
static CUdeviceptr in_array(CUarray array, size_t at)
{
	size_t pitch, rows;
	CUdeviceptr va;
	bool known;

	sim_lock();
	known = sim_array_layout(array, &va, &pitch, &rows);
	sim_unlock();
	return known ? va + at : 0;
}

static CUresult copy_row(CUdeviceptr dst, CUdeviceptr src, size_t n,
			 CUstream stream, bool sync)
{
	struct sim_work work = {.kind = SIM_W_COPY,
				.dst = sim_box_line(dst, n),
				.src = sim_box_line(src, n)};

	if (!dst || !src)
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_transfer(stream, &work, sync);
}

CUresult sim_copy_dtoa(CUarray dst, size_t at, CUdeviceptr src, size_t n)
{
	return copy_row(in_array(dst, at), src, n, NULL, true);
}

CUresult sim_copy_atod(CUdeviceptr dst, CUarray src, size_t at, size_t n)
{
	return copy_row(dst, in_array(src, at), n, NULL, true);
}

CUresult sim_copy_htoa(CUarray dst, size_t at, const void *src, size_t n)
{
	return copy_row(in_array(dst, at), (CUdeviceptr)(uintptr_t)src, n, NULL,
			true);
}

CUresult sim_copy_atoh(void *dst, CUarray src, size_t at, size_t n)
{
	return copy_row((CUdeviceptr)(uintptr_t)dst, in_array(src, at), n, NULL,
			true);
}

CUresult sim_copy_atoa(CUarray dst, size_t to, CUarray src, size_t from,
		       size_t n)
{
	return copy_row(in_array(dst, to), in_array(src, from), n, NULL, true);
}

CUresult sim_copy_htoa_async(CUarray dst, size_t at, const void *src, size_t n,
			     CUstream stream)
{
	return copy_row(in_array(dst, at), (CUdeviceptr)(uintptr_t)src, n,
			stream, false);
}

CUresult sim_copy_atoh_async(void *dst, CUarray src, size_t at, size_t n,
			     CUstream stream)
{
	return copy_row((CUdeviceptr)(uintptr_t)dst, in_array(src, at), n,
			stream, false);
}

#if CUDA_VERSION >= 12080
/* ---- batches ------------------------------------------------------------------- */

/* The copies of a batch are in no order among themselves; here they follow
 * each other. *bad: which one is refused. */
static CUresult copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
			   size_t count, size_t *bad, CUstream stream)
{
	CUresult err = CUDA_SUCCESS;

	if (!count || !dsts || !srcs || !sizes || !stream ||
	    stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !err; i++) {
		err = copy_row(dsts[i], srcs[i], sizes[i], stream, false);
		if (err && bad)
			*bad = i;
	}
	return err;
}

CUresult sim_copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
			size_t count, CUmemcpyAttributes *attrs,
			size_t *attr_of, size_t attr_count, size_t *bad,
			CUstream stream)
{
	if (!attrs || !attr_of || !attr_count)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_batch(dsts, srcs, sizes, count, bad, stream);
}
#endif

#if CUDA_VERSION >= 13000
CUresult sim_copy_batch_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
			   size_t count, CUmemcpyAttributes *attrs,
			   size_t *attr_of, size_t attr_count, CUstream stream)
{
	return sim_copy_batch(dsts, srcs, sizes, count, attrs, attr_of,
			      attr_count, NULL, stream);
}
#endif
