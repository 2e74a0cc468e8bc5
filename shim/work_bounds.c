/* See work_bounds.h. */
#include "shim/work_bounds.h"

#include "pool/pool.h"
#include "shim/state.h"

#define likely(x) __builtin_expect(!!(x), 1)

/* Without a context the driver's answer is another. */
static __attribute__((noinline, cold)) bool refuse(void)
{
	CUcontext current = NULL;

	return gp_running() &&
	       gp_real()->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current;
}

/* The driver's own limit is what was asked for, to the byte (measured, driver
 * 580), not what it rounds that to. */
bool gp_past_block(CUdeviceptr at, size_t bytes)
{
	struct gp_pool *pool = gp_pool_of(at);

	return pool && !likely(gp_pool_fits(pool, at, bytes)) && refuse();
}

/* From `at` to behind the last byte of rows and slices; 0: none, or more than
 * there can be. */
static uint64_t extent(uint64_t before, size_t pitch, size_t slice,
		       size_t width, size_t height, size_t depth)
{
	uint64_t rows, slices, end;

	if (!width || !height || !depth ||
	    __builtin_mul_overflow(pitch, height - 1, &rows) ||
	    __builtin_mul_overflow(slice, depth - 1, &slices) ||
	    __builtin_add_overflow(rows, slices, &end) ||
	    __builtin_add_overflow(end, width, &end) ||
	    __builtin_add_overflow(end, before, &end))
		return 0;
	return end;
}

bool gp_past_set(CUdeviceptr at, size_t pitch, unsigned unit, size_t width,
		 size_t height)
{
	size_t bytes;

	if (__builtin_mul_overflow(width, unit, &bytes) ||
	    (height > 1 && pitch < bytes))
		return false;
	return gp_past_end(at, extent(0, pitch, 0, bytes, height, 1));
}

/* One side of a copy of boxes. */
struct side {
	CUmemorytype type;
	CUdeviceptr device;
	size_t x, y, z, pitch, rows; /* 0: as wide, as high as the box */
};

static bool past_side(struct side side, size_t width, size_t height,
		      size_t depth)
{
	size_t slice, before, skip;

	if ((side.type != CU_MEMORYTYPE_DEVICE &&
	     side.type != CU_MEMORYTYPE_UNIFIED) ||
	    !gp_registry_near(side.device))
		return false;
	if (!side.pitch)
		side.pitch = width;
	if (!side.rows)
		side.rows = height;
	if (side.pitch < width ||
	    __builtin_mul_overflow(side.pitch, side.rows, &slice) ||
	    __builtin_mul_overflow(side.pitch, side.y, &before) ||
	    __builtin_mul_overflow(slice, side.z, &skip) ||
	    __builtin_add_overflow(before, skip, &before) ||
	    __builtin_add_overflow(before, side.x, &before))
		return false;
	return gp_past_end(side.device, extent(before, side.pitch, slice, width,
					       height, depth));
}

bool gp_past_2d(const CUDA_MEMCPY2D *c)
{
	if (!c)
		return false;
	struct side src = {c->srcMemoryType,
			   c->srcDevice,
			   c->srcXInBytes,
			   c->srcY,
			   0,
			   c->srcPitch,
			   1};
	struct side dst = {c->dstMemoryType,
			   c->dstDevice,
			   c->dstXInBytes,
			   c->dstY,
			   0,
			   c->dstPitch,
			   1};

	return past_side(src, c->WidthInBytes, c->Height, 1) ||
	       past_side(dst, c->WidthInBytes, c->Height, 1);
}

bool gp_past_3d(const CUDA_MEMCPY3D *c)
{
	if (!c)
		return false;
	struct side src = {c->srcMemoryType, c->srcDevice, c->srcXInBytes,
			   c->srcY,          c->srcZ,      c->srcPitch,
			   c->srcHeight};
	struct side dst = {c->dstMemoryType, c->dstDevice, c->dstXInBytes,
			   c->dstY,          c->dstZ,      c->dstPitch,
			   c->dstHeight};

	return past_side(src, c->WidthInBytes, c->Height, c->Depth) ||
	       past_side(dst, c->WidthInBytes, c->Height, c->Depth);
}

bool gp_past_3d_peer(const CUDA_MEMCPY3D_PEER *c)
{
	if (!c)
		return false;
	struct side src = {c->srcMemoryType, c->srcDevice, c->srcXInBytes,
			   c->srcY,          c->srcZ,      c->srcPitch,
			   c->srcHeight};
	struct side dst = {c->dstMemoryType, c->dstDevice, c->dstXInBytes,
			   c->dstY,          c->dstZ,      c->dstPitch,
			   c->dstHeight};

	return past_side(src, c->WidthInBytes, c->Height, c->Depth) ||
	       past_side(dst, c->WidthInBytes, c->Height, c->Depth);
}

bool gp_past_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
		   const size_t *sizes, size_t count, size_t *bad)
{
	if (!dsts || !srcs || !sizes)
		return false;
	for (size_t i = 0; i < count; i++)
		if (gp_past_end(dsts[i], sizes[i]) ||
		    gp_past_end(srcs[i], sizes[i])) {
			if (bad)
				*bad = i;
			return true;
		}
	return false;
}
