/*
 * Stream-ordered memory: forwarded, counted, and held to the limit by what the
 * driver reserves for it.
 */
#include "shim/async.h"
#include "shim/hooks.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"
#include "shim/work.h"

typedef __typeof__(cuMemAllocAsync) alloc_fn;
typedef __typeof__(cuMemAllocFromPoolAsync) alloc_from_fn;

/* The stream that NULL means for this entry point. */
static CUstream named(CUstream stream, enum gp_work_id id)
{
	return stream ? stream : gp_work_rows[id].default_stream;
}

static CUresult allocate(alloc_fn *real, CUdeviceptr *address, size_t bytes,
			 CUstream stream, enum gp_work_id id)
{
	struct gp_async async;
	struct gp_slot *slot;
	CUresult rc;

	if (!gp_async_begin(&async, NULL, bytes, named(stream, id),
			    "cuMemAllocAsync"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	slot = gp_work_submit(stream, gp_work_rows[id].default_stream);
	rc = real(address, bytes, stream);
	if (gp_room_made_for(bytes, rc))
		rc = real(address, bytes, stream);
	gp_work_submitted(slot, rc);
	return gp_async_end(&async, rc, rc == CUDA_SUCCESS ? *address : 0);
}

static CUresult allocate_from(alloc_from_fn *real, CUdeviceptr *address,
			      size_t bytes, CUmemoryPool pool, CUstream stream,
			      enum gp_work_id id)
{
	struct gp_async async;
	struct gp_slot *slot;
	CUresult rc;

	if (!gp_async_begin(&async, pool, bytes, named(stream, id),
			    "cuMemAllocFromPoolAsync"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	slot = gp_work_submit(stream, gp_work_rows[id].default_stream);
	rc = real(address, bytes, pool, stream);
	if (gp_room_made_for(bytes, rc))
		rc = real(address, bytes, pool, stream);
	gp_work_submitted(slot, rc);
	return gp_async_end(&async, rc, rc == CUDA_SUCCESS ? *address : 0);
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	return allocate(gp_real()->cuMemAllocAsync, address, bytes, stream,
			GP_WORK_ID_cuMemAllocAsync);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes,
			      CUstream stream)
{
	return allocate(gp_real()->cuMemAllocAsync_ptsz, address, bytes, stream,
			GP_WORK_ID_cuMemAllocAsync_ptsz);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes,
				 CUmemoryPool pool, CUstream stream)
{
	return allocate_from(gp_real()->cuMemAllocFromPoolAsync, address, bytes,
			     pool, stream, GP_WORK_ID_cuMemAllocFromPoolAsync);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes,
				      CUmemoryPool pool, CUstream stream)
{
	return allocate_from(gp_real()->cuMemAllocFromPoolAsync_ptsz, address,
			     bytes, pool, stream,
			     GP_WORK_ID_cuMemAllocFromPoolAsync_ptsz);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUresult rc = gp_real()->cuMemPoolCreate(pool, props);

	if (rc == CUDA_SUCCESS && gp_active() &&
	    props->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		gp_async_created(*pool, props->location.id);
	return rc;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	struct gp_async_rest rest = {.pool = NULL};
	CUresult rc;

	if (gp_running())
		gp_async_destroys(&rest, handle);
	rc = gp_real()->cuMemPoolDestroy(handle);
	if (rc == CUDA_SUCCESS)
		gp_async_destroyed(&rest);
	else
		gp_async_kept(&rest);
	return rc;
}
