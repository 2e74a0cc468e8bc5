/*
 * Arrays. An array's memory is a region of its own kind; rows lie one behind
 * the other.
 */
#include <stdlib.h>

#include "tests/sim/bodies.h"
#include "tests/sim/engine.h"
#include "tests/sim/pool.h"

struct sim_array {
	CUDA_ARRAY3D_DESCRIPTOR desc;
	struct sim_region *region;
	uint64_t pitch, rows; /* bytes a row, rows a slice */
	bool of_mipmap;
	struct sim_list link; /* in ctx->arrays */
};

#define SIM_LEVELS_MAX 32

struct sim_mipmap {
	unsigned levels;
	struct sim_array *level[SIM_LEVELS_MAX];
};

static unsigned element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	switch (desc->Format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return desc->NumChannels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return desc->NumChannels * 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return desc->NumChannels * 4;
	default:
		return 0;
	}
}

static bool sensible(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	return element_bytes(desc) && desc->Width && desc->Width <= 1u << 20 &&
	       desc->Height <= 1u << 20 && desc->Depth <= 1u << 16 &&
	       (desc->NumChannels == 1 || desc->NumChannels == 2 ||
		desc->NumChannels == 4);
}

/* locked */
static CUresult array_new(struct sim_ctx *ctx,
			  const CUDA_ARRAY3D_DESCRIPTOR *desc,
			  struct sim_array **out)
{
	uint64_t depth = desc->Depth ? desc->Depth : 1;
	struct sim_array *array = calloc(1, sizeof(*array));
	uint64_t bytes;
	CUresult err;

	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->desc = *desc;
	array->pitch = desc->Width * element_bytes(desc);
	array->rows = desc->Height ? desc->Height : 1;
	/* Arrays are tiled: the card takes at least a page of 64 KiB. */
	bytes = (array->pitch * array->rows * depth + 65535) & ~65535ull;
	err = sim_region_new(ctx, SIM_ARRAY, bytes, &array->region);
	if (err == CUDA_ERROR_OUT_OF_MEMORY && sim_pools_trim(ctx->device))
		err = sim_region_new(ctx, SIM_ARRAY, bytes, &array->region);
	if (err) {
		free(array);
		return err;
	}
	sim_list_add(&ctx->arrays, &array->link);
	sim_handle_add(SIM_K_ARRAY, array);
	*out = array;
	return CUDA_SUCCESS;
}

static void array_free(struct sim_array *array)
{
	sim_handle_remove(array);
	sim_list_del(&array->link);
	sim_region_destroy(array->region);
	free(array);
}

void sim_arrays_destroy(struct sim_ctx *ctx)
{
	while (!sim_list_empty(&ctx->arrays))
		array_free(sim_entry(ctx->arrays.next, struct sim_array, link));
}

static struct sim_array *array_of(CUarray handle)
{
	struct sim_array *array = (struct sim_array *)(void *)handle;

	return sim_handle_is(SIM_K_ARRAY, array) ? array : NULL;
}

bool sim_array_layout(CUarray handle, CUdeviceptr *va, size_t *pitch,
		      size_t *rows)
{
	struct sim_array *array = array_of(handle);

	if (!array)
		return false;
	*va = array->region->va;
	*pitch = array->pitch;
	*rows = array->rows;
	return true;
}

CUresult sim_array3d_create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct sim_array *array;
	CUresult err;

	if (!out || !desc || !sensible(desc))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	err = array_new(sim_current(), desc, &array);
	sim_unlock();
	if (!err)
		*out = (CUarray)(void *)array;
	return err;
}

CUresult sim_array_create(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR full = {0};

	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	full.Width = desc->Width;
	full.Height = desc->Height;
	full.Format = desc->Format;
	full.NumChannels = desc->NumChannels;
	return sim_array3d_create(out, &full);
}

CUresult sim_array3d_descriptor(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray handle)
{
	struct sim_array *array;

	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	array = array_of(handle);
	if (array)
		*desc = array->desc;
	sim_unlock();
	return array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_array_destroy(CUarray handle)
{
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct sim_array *array;
	struct sim_ctx *ctx;

	sim_lock();
	array = array_of(handle);
	if (array && !array->of_mipmap) {
		ctx = array->region->ctx;
		sim_barrier_begin(ctx);
		array = array_of(handle); /* a reset may have been faster */
		if (array)
			array_free(array);
		err = ctx->sticky;
		sim_barrier_end(ctx);
	}
	sim_unlock();
	return err;
}

/* ---- mipmapped arrays -------------------------------------------------------- */

static unsigned halved(size_t size, unsigned level)
{
	size_t now = size >> level;

	return size && !now ? 1 : (unsigned)now;
}

CUresult sim_mipmap_create(CUmipmappedArray *out,
			   const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
	struct sim_mipmap *mipmap;
	CUresult err = CUDA_SUCCESS;

	if (!out || !desc || !sensible(desc) || !levels ||
	    levels > SIM_LEVELS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	mipmap = calloc(1, sizeof(*mipmap));
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	for (unsigned i = 0; i < levels && !err; i++) {
		CUDA_ARRAY3D_DESCRIPTOR level = *desc;

		level.Width = halved(desc->Width, i);
		level.Height = halved(desc->Height, i);
		level.Depth = halved(desc->Depth, i);
		err = array_new(sim_current(), &level, &mipmap->level[i]);
		if (!err) {
			mipmap->level[i]->of_mipmap = true;
			mipmap->levels++;
		}
	}
	if (err) {
		while (mipmap->levels)
			array_free(mipmap->level[--mipmap->levels]);
		free(mipmap);
	} else {
		sim_handle_add(SIM_K_MIPMAP, mipmap);
		*out = (CUmipmappedArray)(void *)mipmap;
	}
	sim_unlock();
	return err;
}

static struct sim_mipmap *mipmap_of(CUmipmappedArray handle)
{
	struct sim_mipmap *mipmap = (struct sim_mipmap *)(void *)handle;

	return sim_handle_is(SIM_K_MIPMAP, mipmap) ? mipmap : NULL;
}

CUresult sim_mipmap_level(CUarray *out, CUmipmappedArray handle, unsigned level)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_mipmap *mipmap;

	sim_lock();
	mipmap = mipmap_of(handle);
	if (mipmap && out && level < mipmap->levels) {
		*out = (CUarray)(void *)mipmap->level[level];
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

CUresult sim_mipmap_destroy(CUmipmappedArray handle)
{
	struct sim_ctx *ctx = sim_current();
	struct sim_mipmap *mipmap;

	sim_lock();
	mipmap = mipmap_of(handle);
	if (mipmap) {
		sim_handle_remove(mipmap);
		sim_barrier_begin(ctx);
		for (unsigned i = 0; i < mipmap->levels; i++)
			if (sim_handle_is(SIM_K_ARRAY, mipmap->level[i]))
				array_free(mipmap->level[i]);
		sim_barrier_end(ctx);
		free(mipmap);
	}
	sim_unlock();
	return mipmap ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
