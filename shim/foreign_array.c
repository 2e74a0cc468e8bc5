/*
 * Arrays: forwarded, counted and held to the limit.
 */
#include "shim/hooks.h"
#include "shim/room.h"
#include "shim/take.h"

static uint64_t channel_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 2;
	}
}

static uint64_t at_least_one(uint64_t n)
{
	return n ? n : 1;
}

/* The driver tiles them: rows of 64 bytes, eight rows high. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	uint64_t row = at_least_one(shape->Width) * shape->NumChannels *
		       channel_bytes(shape->Format);
	uint64_t rows = at_least_one(shape->Height);

	if (shape->Height > 1) {
		row = (row + 63) / 64 * 64;
		rows = (rows + 7) / 8 * 8;
	}
	return row * rows * at_least_one(shape->Depth);
}

/* Sparse arrays and those mapped later have none of their own. */
static bool has_memory(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return shape && !(shape->Flags & (CUDA_ARRAY3D_SPARSE |
					  CUDA_ARRAY3D_DEFERRED_MAPPING));
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape)
{
	const struct gp_real *real = gp_real();
	CUDA_ARRAY3D_DESCRIPTOR full = {.Width = 0};
	struct gp_take take;
	CUresult rc;

	if (shape) {
		full.Width = shape->Width;
		full.Height = shape->Height;
		full.Format = shape->Format;
		full.NumChannels = shape->NumChannels;
	}
	if (!gp_take_begin(&take, GP_KIND_array, array_bytes(&full),
			   "cuArrayCreate_v2"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = real->cuArrayCreate_v2(array, shape);
	if (gp_room_made_for(array_bytes(&full), rc))
		rc = real->cuArrayCreate_v2(array, shape);
	gp_take_end(&take, rc, rc == CUDA_SUCCESS ? (uintptr_t)*array : 0);
	return rc;
}

CUresult cuArray3DCreate_v2(CUarray *array,
			    const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	const struct gp_real *real = gp_real();
	struct gp_take take;
	CUresult rc;

	if (!gp_take_begin(&take, GP_KIND_array,
			   has_memory(shape) ? array_bytes(shape) : 0,
			   "cuArray3DCreate_v2"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = real->cuArray3DCreate_v2(array, shape);
	if (gp_room_made_for(array_bytes(shape), rc))
		rc = real->cuArray3DCreate_v2(array, shape);
	gp_take_end(&take, rc, rc == CUDA_SUCCESS ? (uintptr_t)*array : 0);
	return rc;
}

CUresult cuArrayDestroy(CUarray array)
{
	struct gp_foreign entry;
	bool known = gp_take_out((uintptr_t)array, &entry);
	CUresult rc = gp_real()->cuArrayDestroy(array);

	gp_take_freed(known, (uintptr_t)array, &entry, rc);
	return rc;
}

static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape,
			     unsigned levels)
{
	CUDA_ARRAY3D_DESCRIPTOR level = *shape;
	uint64_t bytes = 0;

	/* More levels than the width has bits are refused. */
	for (unsigned i = 0; i < levels && i < 64; i++) {
		bytes += array_bytes(&level);
		level.Width /= 2;
		level.Height /= 2;
		level.Depth /= 2;
	}
	return bytes;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array,
				const CUDA_ARRAY3D_DESCRIPTOR *shape,
				unsigned levels)
{
	const struct gp_real *real = gp_real();
	struct gp_take take;
	CUresult rc;

	if (!gp_take_begin(&take, GP_KIND_array,
			   has_memory(shape) ? mipmap_bytes(shape, levels) : 0,
			   "cuMipmappedArrayCreate"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = real->cuMipmappedArrayCreate(array, shape, levels);
	if (gp_room_made(rc))
		rc = real->cuMipmappedArrayCreate(array, shape, levels);
	gp_take_end(&take, rc, rc == CUDA_SUCCESS ? (uintptr_t)*array : 0);
	return rc;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	struct gp_foreign entry;
	bool known = gp_take_out((uintptr_t)array, &entry);
	CUresult rc = gp_real()->cuMipmappedArrayDestroy(array);

	gp_take_freed(known, (uintptr_t)array, &entry, rc);
	return rc;
}
