/*
 * Device and pinned memory that the pool does not serve: forwarded, counted by
 * kind, and held to the limit. A failure for lack of memory gives cached memory
 * back and tries once more, whoever asked.
 */
#include "shim/follow.h"
#include "shim/hooks.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"

/* ---- managed and host ------------------------------------------------------- */

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
	const struct gp_real *real = gp_real();
	struct gp_take take;
	CUresult rc;

	if (!gp_take_begin(&take, GP_KIND_managed, bytes, "cuMemAllocManaged"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = real->cuMemAllocManaged(address, bytes, flags);
	if (gp_room_made_for(bytes, rc))
		rc = real->cuMemAllocManaged(address, bytes, flags);
	gp_take_end(&take, rc, rc == CUDA_SUCCESS ? *address : 0);
	if (rc == CUDA_SUCCESS)
		gp_follow_managed();
	return rc;
}

CUresult cuMemAllocHost_v2(void **address, size_t bytes)
{
	struct gp_take take;
	CUresult rc;

	if (!gp_take_begin(&take, GP_KIND_pinned, bytes, "cuMemAllocHost_v2"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = gp_real()->cuMemAllocHost_v2(address, bytes);
	gp_take_end(&take, rc, rc == CUDA_SUCCESS ? (uintptr_t)*address : 0);
	return rc;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
	struct gp_take take;
	CUresult rc;

	if (!gp_take_begin(&take, GP_KIND_pinned, bytes, "cuMemHostAlloc"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = gp_real()->cuMemHostAlloc(address, bytes, flags);
	gp_take_end(&take, rc, rc == CUDA_SUCCESS ? (uintptr_t)*address : 0);
	return rc;
}

CUresult cuMemFreeHost(void *address)
{
	struct gp_foreign entry;
	bool known = gp_take_out((uintptr_t)address, &entry);
	CUresult rc = gp_real()->cuMemFreeHost(address);

	gp_take_freed(known, (uintptr_t)address, &entry, rc);
	return rc;
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
	struct gp_take take;
	CUresult rc;

	if (!gp_take_begin(&take, GP_KIND_registered, bytes,
			   "cuMemHostRegister_v2"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = gp_real()->cuMemHostRegister_v2(address, bytes, flags);
	gp_take_end(&take, rc, (uintptr_t)address);
	return rc;
}

CUresult cuMemHostUnregister(void *address)
{
	struct gp_foreign entry;
	bool known = gp_take_out((uintptr_t)address, &entry);
	CUresult rc = gp_real()->cuMemHostUnregister(address);

	gp_take_freed(known, (uintptr_t)address, &entry, rc);
	return rc;
}

/* ---- imported ----------------------------------------------------------------- */

/* Memory of another API of this process, as far as the limit knows. */
CUresult cuImportExternalMemory(CUexternalMemory *memory,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	const struct gp_real *real = gp_real();
	struct gp_take take;
	CUresult rc;

	if (!gp_take_begin(&take, GP_KIND_external, desc ? desc->size : 0,
			   "cuImportExternalMemory"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = real->cuImportExternalMemory(memory, desc);
	if (gp_room_made(rc))
		rc = real->cuImportExternalMemory(memory, desc);
	gp_take_end(&take, rc, rc == CUDA_SUCCESS ? (uintptr_t)*memory : 0);
	return rc;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	struct gp_foreign entry;
	bool known = gp_take_out((uintptr_t)memory, &entry);
	CUresult rc = gp_real()->cuDestroyExternalMemory(memory);

	gp_take_freed(known, (uintptr_t)memory, &entry, rc);
	return rc;
}
