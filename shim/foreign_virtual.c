/*
 * The program's own virtual memory. It counts from its creation until the last
 * of: the program's handle, its retained copies, its mappings. The device is
 * the one that the properties name; memory on the host is no device memory.
 */
#include "shim/hooks.h"
#include "shim/pointers.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	const struct gp_real *real = gp_real();
	struct gp_take take;
	CUdevice device;
	CUresult rc;

	if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return real->cuMemCreate(handle, bytes, prop, flags);
	device = prop->location.id;
	if (!gp_take_begin_on(&take, device, GP_KIND_virtual, bytes,
			      "cuMemCreate"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = real->cuMemCreate(handle, bytes, prop, flags);
	if (gp_room_made_on(device, bytes, rc))
		rc = real->cuMemCreate(handle, bytes, prop, flags);
	gp_take_end(&take, rc, rc == CUDA_SUCCESS ? *handle : 0);
	return rc;
}

/* The call failed: the reference is still there. */
static void ref_again(CUmemGenericAllocationHandle handle, bool last,
		      struct gp_foreign *entry)
{
	if (last) {
		entry->refs = 1;
		gp_take_freed(true, handle, entry, CUDA_ERROR_UNKNOWN);
	} else {
		gp_foreign_ref(handle);
	}
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	bool running = gp_running();
	struct gp_foreign entry;
	bool last = running && gp_foreign_unref(handle, &entry);
	CUresult rc = gp_real()->cuMemRelease(handle);

	if (rc == CUDA_SUCCESS)
		gp_take_freed(last, handle, &entry, rc);
	else if (running)
		ref_again(handle, last, &entry);
	return rc;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
				     void *address)
{
	CUresult rc;

	if (gp_is_our_memory((uintptr_t)address, 1))
		return CUDA_ERROR_INVALID_VALUE;
	rc = gp_real()->cuMemRetainAllocationHandle(handle, address);
	if (rc == CUDA_SUCCESS && gp_running())
		gp_foreign_ref(*handle);
	return rc;
}

/* Referred to before it is mapped: another thread may release it meanwhile. */
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	const struct gp_real *real = gp_real();
	bool counted;
	struct gp_foreign entry = {.kind = GP_KIND_virtual,
				   .handle = handle,
				   .refs = 1,
				   .device = -1,
				   .mapped = bytes};
	struct gp_foreign last;
	CUresult rc;

	if (gp_is_our_memory(address, bytes)) /* as over plain memory */
		return CUDA_ERROR_NOT_SUPPORTED;
	counted = gp_running() && gp_foreign_ref(handle);
	rc = real->cuMemMap(address, bytes, offset, handle, flags);
	if (gp_room_made(rc))
		rc = real->cuMemMap(address, bytes, offset, handle, flags);
	if (!counted)
		return rc;
	/* Without an entry it would count for ever: rather not at all. */
	if (rc != CUDA_SUCCESS || !gp_take_enter(address, &entry))
		gp_take_freed(gp_foreign_unref(handle, &last), handle, &last,
			      CUDA_SUCCESS);
	return rc;
}

/* One call may unmap several mappings; it unmaps all or none. The entries go
 * first: the addresses may be mapped again at once. */
#define BATCH 64

struct unmapped {
	CUdeviceptr address;
	struct gp_foreign entry;
};

static size_t take_out(struct unmapped *batch, CUdeviceptr *address,
		       CUdeviceptr end)
{
	size_t n = 0;

	while (n < BATCH && *address < end &&
	       gp_foreign_take(*address, &batch[n].entry)) {
		batch[n].address = *address;
		*address += batch[n].entry.mapped;
		n++;
		if (!batch[n - 1].entry.mapped)
			break; /* no mapping, and not ours to take */
	}
	return n;
}

static void let_go(const struct unmapped *batch, size_t n)
{
	struct gp_foreign last;

	for (size_t i = 0; i < n; i++)
		gp_take_freed(gp_foreign_unref(batch[i].entry.handle, &last),
			      batch[i].entry.handle, &last, CUDA_SUCCESS);
}

static void put_back(const struct unmapped *batch, size_t n)
{
	for (size_t i = 0; i < n; i++)
		gp_take_enter(batch[i].address, &batch[i].entry);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	CUdeviceptr at = address, end = address + bytes;
	struct unmapped batch[BATCH];
	bool running = gp_running();
	CUresult rc;
	size_t n;

	if (gp_is_our_memory(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	n = running ? take_out(batch, &at, end) : 0;
	rc = gp_real()->cuMemUnmap(address, bytes);
	if (rc != CUDA_SUCCESS) {
		put_back(batch, n);
		return rc;
	}
	let_go(batch, n);
	while (n == BATCH && at < end) {
		n = take_out(batch, &at, end);
		let_go(batch, n);
	}
	return rc;
}
