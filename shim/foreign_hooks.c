/*
 * Device and pinned memory that the pool does not serve: forwarded, counted by
 * kind. A failure for lack of memory gives cached memory back and tries once
 * more, whoever asked.
 */
#include "shim/context.h"
#include "shim/follow.h"
#include "shim/foreign.h"
#include "shim/hooks.h"
#include "shim/state.h"

static void count(enum gp_kind kind, uint64_t key, uint64_t bytes)
{
	struct gp_foreign entry = {.kind = kind, .bytes = bytes, .refs = 1};

	if (gp_active())
		gp_foreign_add(key, &entry);
}

/* Stops counting `key`, before the real free: the address may come back at
 * once on another thread. Where the free then fails the entry goes back. */
static bool uncount(uint64_t key, struct gp_foreign *entry)
{
	return gp_running() && gp_foreign_take(key, entry);
}

/* ---- stream-ordered ------------------------------------------------------- */

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	const struct gp_real *real = gp_real();
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemAllocAsync, stream, NULL, NULL);
	rc = real->cuMemAllocAsync(address, bytes, stream);
	if (gp_context_made_room(rc))
		rc = real->cuMemAllocAsync(address, bytes, stream);
	gp_work_end(&work, rc);
	if (rc == CUDA_SUCCESS)
		count(GP_KIND_async, *address, bytes);
	return rc;
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes,
			      CUstream stream)
{
	const struct gp_real *real = gp_real();
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemAllocAsync_ptsz, stream, NULL,
		      NULL);
	rc = real->cuMemAllocAsync_ptsz(address, bytes, stream);
	if (gp_context_made_room(rc))
		rc = real->cuMemAllocAsync_ptsz(address, bytes, stream);
	gp_work_end(&work, rc);
	if (rc == CUDA_SUCCESS)
		count(GP_KIND_async, *address, bytes);
	return rc;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes,
				 CUmemoryPool pool, CUstream stream)
{
	const struct gp_real *real = gp_real();
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemAllocFromPoolAsync, stream, NULL,
		      NULL);
	rc = real->cuMemAllocFromPoolAsync(address, bytes, pool, stream);
	if (gp_context_made_room(rc))
		rc = real->cuMemAllocFromPoolAsync(address, bytes, pool,
						   stream);
	gp_work_end(&work, rc);
	if (rc == CUDA_SUCCESS)
		count(GP_KIND_async, *address, bytes);
	return rc;
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes,
				      CUmemoryPool pool, CUstream stream)
{
	const struct gp_real *real = gp_real();
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemAllocFromPoolAsync_ptsz, stream,
		      NULL, NULL);
	rc = real->cuMemAllocFromPoolAsync_ptsz(address, bytes, pool, stream);
	if (gp_context_made_room(rc))
		rc = real->cuMemAllocFromPoolAsync_ptsz(address, bytes, pool,
							stream);
	gp_work_end(&work, rc);
	if (rc == CUDA_SUCCESS)
		count(GP_KIND_async, *address, bytes);
	return rc;
}

/* ---- managed and host ------------------------------------------------------- */

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuMemAllocManaged(address, bytes, flags);

	if (gp_context_made_room(rc))
		rc = real->cuMemAllocManaged(address, bytes, flags);
	if (rc == CUDA_SUCCESS) {
		count(GP_KIND_managed, *address, bytes);
		gp_follow_managed();
	}
	return rc;
}

CUresult cuMemAllocHost_v2(void **address, size_t bytes)
{
	CUresult rc = gp_real()->cuMemAllocHost_v2(address, bytes);

	if (rc == CUDA_SUCCESS)
		count(GP_KIND_pinned, (uintptr_t)*address, bytes);
	return rc;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
	CUresult rc = gp_real()->cuMemHostAlloc(address, bytes, flags);

	if (rc == CUDA_SUCCESS)
		count(GP_KIND_pinned, (uintptr_t)*address, bytes);
	return rc;
}

CUresult cuMemFreeHost(void *address)
{
	struct gp_foreign entry;
	bool known = uncount((uintptr_t)address, &entry);
	CUresult rc = gp_real()->cuMemFreeHost(address);

	if (known && rc != CUDA_SUCCESS)
		gp_foreign_add((uintptr_t)address, &entry);
	return rc;
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
	CUresult rc = gp_real()->cuMemHostRegister_v2(address, bytes, flags);

	if (rc == CUDA_SUCCESS)
		count(GP_KIND_registered, (uintptr_t)address, bytes);
	return rc;
}

CUresult cuMemHostUnregister(void *address)
{
	struct gp_foreign entry;
	bool known = uncount((uintptr_t)address, &entry);
	CUresult rc = gp_real()->cuMemHostUnregister(address);

	if (known && rc != CUDA_SUCCESS)
		gp_foreign_add((uintptr_t)address, &entry);
	return rc;
}

/* ---- arrays ----------------------------------------------------------------- */

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

/* The texels; the driver's padding is not asked for. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return at_least_one(shape->Width) * at_least_one(shape->Height) *
	       at_least_one(shape->Depth) * shape->NumChannels *
	       channel_bytes(shape->Format);
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuArrayCreate_v2(array, shape);

	if (gp_context_made_room(rc))
		rc = real->cuArrayCreate_v2(array, shape);
	if (rc == CUDA_SUCCESS) {
		CUDA_ARRAY3D_DESCRIPTOR full = {
			.Width = shape->Width,
			.Height = shape->Height,
			.Format = shape->Format,
			.NumChannels = shape->NumChannels,
		};

		count(GP_KIND_array, (uintptr_t)*array, array_bytes(&full));
	}
	return rc;
}

CUresult cuArray3DCreate_v2(CUarray *array,
			    const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuArray3DCreate_v2(array, shape);

	if (gp_context_made_room(rc))
		rc = real->cuArray3DCreate_v2(array, shape);
	if (rc == CUDA_SUCCESS)
		count(GP_KIND_array, (uintptr_t)*array, array_bytes(shape));
	return rc;
}

CUresult cuArrayDestroy(CUarray array)
{
	struct gp_foreign entry;
	bool known = uncount((uintptr_t)array, &entry);
	CUresult rc = gp_real()->cuArrayDestroy(array);

	if (known && rc != CUDA_SUCCESS)
		gp_foreign_add((uintptr_t)array, &entry);
	return rc;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array,
				const CUDA_ARRAY3D_DESCRIPTOR *shape,
				unsigned levels)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuMipmappedArrayCreate(array, shape, levels);

	if (gp_context_made_room(rc))
		rc = real->cuMipmappedArrayCreate(array, shape, levels);
	if (rc == CUDA_SUCCESS) {
		CUDA_ARRAY3D_DESCRIPTOR level = *shape;
		uint64_t bytes = 0;

		for (unsigned i = 0; i < levels; i++) {
			bytes += array_bytes(&level);
			level.Width /= 2;
			level.Height /= 2;
			level.Depth /= 2;
		}
		count(GP_KIND_array, (uintptr_t)*array, bytes);
	}
	return rc;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	struct gp_foreign entry;
	bool known = uncount((uintptr_t)array, &entry);
	CUresult rc = gp_real()->cuMipmappedArrayDestroy(array);

	if (known && rc != CUDA_SUCCESS)
		gp_foreign_add((uintptr_t)array, &entry);
	return rc;
}

/* ---- the program's own virtual memory ---------------------------------------- */

/* Counts from creation until the last of: the program's handle, its retained
 * copies, its mappings. Handles on the host are no device memory. */
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuMemCreate(handle, bytes, prop, flags);

	if (gp_context_made_room(rc))
		rc = real->cuMemCreate(handle, bytes, prop, flags);
	if (rc == CUDA_SUCCESS &&
	    prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		count(GP_KIND_virtual, *handle, bytes);
	return rc;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	bool active = gp_running();
	CUresult rc;

	if (active)
		gp_foreign_unref(handle);
	rc = gp_real()->cuMemRelease(handle);
	if (active && rc != CUDA_SUCCESS)
		gp_foreign_ref(handle);
	return rc;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
				     void *address)
{
	CUresult rc = gp_real()->cuMemRetainAllocationHandle(handle, address);

	if (rc == CUDA_SUCCESS && gp_running())
		gp_foreign_ref(*handle);
	return rc;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult rc =
		gp_real()->cuMemMap(address, bytes, offset, handle, flags);

	if (rc == CUDA_SUCCESS && gp_running() && gp_foreign_bytes(handle)) {
		struct gp_foreign entry = {.kind = GP_KIND_virtual,
					   .handle = handle,
					   .refs = 1,
					   .mapped = bytes};

		gp_foreign_ref(handle);
		gp_foreign_add(address, &entry);
	}
	return rc;
}

/* One call may unmap several mappings. */
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	CUresult rc = gp_real()->cuMemUnmap(address, bytes);
	CUdeviceptr end = address + bytes;
	struct gp_foreign entry;

	if (rc != CUDA_SUCCESS || !gp_running())
		return rc;
	while (address < end && gp_foreign_take(address, &entry) &&
	       entry.mapped) {
		gp_foreign_unref(entry.handle);
		address += entry.mapped;
	}
	return rc;
}

/* ---- imported ----------------------------------------------------------------- */

CUresult cuImportExternalMemory(CUexternalMemory *memory,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	CUresult rc = gp_real()->cuImportExternalMemory(memory, desc);

	if (rc == CUDA_SUCCESS)
		count(GP_KIND_external, (uintptr_t)*memory, desc->size);
	return rc;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	struct gp_foreign entry;
	bool known = uncount((uintptr_t)memory, &entry);
	CUresult rc = gp_real()->cuDestroyExternalMemory(memory);

	if (known && rc != CUDA_SUCCESS)
		gp_foreign_add((uintptr_t)memory, &entry);
	return rc;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
			       unsigned flags)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuIpcOpenMemHandle_v2(address, handle, flags);
	CUdeviceptr base;
	size_t bytes;

	if (rc == CUDA_SUCCESS && gp_active() &&
	    real->cuMemGetAddressRange_v2(&base, &bytes, *address) ==
		    CUDA_SUCCESS)
		count(GP_KIND_external, *address, bytes);
	return rc;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct gp_foreign entry;
	bool known = uncount(address, &entry);
	CUresult rc = gp_real()->cuIpcCloseMemHandle(address);

	if (known && rc != CUDA_SUCCESS)
		gp_foreign_add(address, &entry);
	return rc;
}

/* ---- graphs -------------------------------------------------------------------- */

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph,
				const CUgraphNode *dependencies, size_t number,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult rc = gp_real()->cuGraphAddMemAllocNode(
		node, graph, dependencies, number, params);

	if (rc == CUDA_SUCCESS)
		count(GP_KIND_graph, params->dptr, params->bytesize);
	return rc;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph,
			       const CUgraphNode *dependencies, size_t number,
			       CUdeviceptr address)
{
	CUresult rc = gp_real()->cuGraphAddMemFreeNode(
		node, graph, dependencies, number, address);
	struct gp_foreign entry;

	if (rc == CUDA_SUCCESS)
		uncount(address, &entry);
	return rc;
}
