/*
 * Pointer queries; see pointers.h.
 *
 * The driver sees a mapping of virtual memory that is part of one reservation.
 * It is asked all the same, for what holds of the memory itself (where it is,
 * who has access) and because it knows how wide each answer is; what tells the
 * mapping from an allocation is put right afterwards. An address of the pool
 * that is no live allocation's is asked about as one that nobody has.
 */
#include "shim/pointers.h"

#include <string.h>

#include "pool/notes.h"
#include "pool/pool.h"
#include "shim/context.h"
#include "shim/driver_impl.h"
#include "shim/ipc.h"
#include "shim/state.h"

/* In the first pages, where nothing ever is. */
#define NOBODYS ((CUdeviceptr)4096)

/* One of gpupool's allocations, or another process's that was opened here. */
struct range {
	struct gp_pool *pool; /* NULL: another process's */
	CUcontext context;
	uint64_t base, bytes;
	uint64_t id; /* of the latter */
};

enum whose {
	OTHERS, /* not gpupool's */
	LIVE,   /* an allocation */
	DEAD,   /* the pool's, and nothing there */
};

static enum whose look_opened(CUdeviceptr address, struct range *range)
{
	struct gp_ipc_range opened;

	if (!gp_ipc_find(address, &opened))
		return gp_ipc_is_mapped(address) ? DEAD : OTHERS;
	range->pool = NULL;
	range->context = opened.context;
	range->base = opened.base;
	range->bytes = opened.bytes;
	range->id = opened.id;
	return LIVE;
}

static enum whose look(CUdeviceptr address, struct range *range)
{
	struct gp_pool *pool = gp_pool_of(address);
	const struct gp_context *context;

	if (!gp_running())
		return OTHERS;
	if (!pool)
		return look_opened(address, range);
	if (gp_pool_find(pool, address, &range->base, &range->bytes))
		return DEAD;
	context = gp_context_of_pool(pool);
	if (!context)
		return DEAD;
	range->pool = pool;
	range->context = context->cuda.context;
	return LIVE;
}

static bool has_context(void)
{
	CUcontext current = NULL;

	return gp_real()->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current;
}

bool gp_is_our_memory(CUdeviceptr address, size_t bytes)
{
	CUdeviceptr last = bytes ? address + bytes - 1 : address;

	return gp_running() &&
	       (gp_pool_of(address) || gp_pool_of(last) ||
		gp_ipc_is_mapped(address) || gp_ipc_is_mapped(last));
}

/* ---- ranges ------------------------------------------------------------------- */

/* The driver would answer with the whole handle behind the block. */
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
				 CUdeviceptr address)
{
	struct range range;
	enum whose whose = look(address, &range);

	if (whose == OTHERS || !has_context())
		return gp_real()->cuMemGetAddressRange_v2(base, bytes, address);
	if (whose == DEAD)
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = range.base;
	if (bytes)
		*bytes = range.bytes;
	return CUDA_SUCCESS;
}

/* ---- attributes ----------------------------------------------------------------- */

/* Truths are one byte or four wide; the driver has written them. */
static void put_truth(void *data, bool value)
{
	*(unsigned char *)data = value;
}

static void put_word(void *data, uint64_t value)
{
	memcpy(data, &value, sizeof(value));
}

/* Does the driver's answer tell of the mapping rather than the memory? */
static bool is_told_by_us(CUpointer_attribute attribute)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return true;
	default:
		return false;
	}
}

/* Puts the driver's answer right. */
static CUresult tell(CUpointer_attribute attribute, void *data,
		     const struct range *range)
{
	uint64_t id = 0;
	bool sync = false;

	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		put_word(data, (uintptr_t)range->context);
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		if (range->pool &&
		    gp_pool_sync_memops(range->pool, range->base, &sync))
			return CUDA_ERROR_INVALID_VALUE;
		put_truth(data, sync);
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		id = range->id;
		if (range->pool && gp_pool_id(range->pool, range->base, &id))
			return CUDA_ERROR_INVALID_VALUE;
		put_word(data, id);
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		put_truth(data, range->pool != NULL);
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		put_word(data, range->base);
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		put_word(data, range->bytes);
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		put_truth(data, false); /* all of its flags are in that byte */
		break;
	default:
		break;
	}
	return CUDA_SUCCESS;
}

/* The driver may know no such thing of virtual memory. */
static bool may_tell(CUresult rc)
{
	return rc == CUDA_SUCCESS || rc == CUDA_ERROR_INVALID_VALUE ||
	       rc == CUDA_ERROR_NOT_SUPPORTED ||
	       rc == CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
			       CUdeviceptr address)
{
	struct range range;
	enum whose whose = look(address, &range);
	CUresult rc = gp_real()->cuPointerGetAttribute(
		data, attribute, whose == DEAD ? NOBODYS : address);

	if (whose != LIVE || !data || !is_told_by_us(attribute) ||
	    !may_tell(rc) || !has_context())
		return rc;
	return tell(attribute, data, &range);
}

CUresult cuPointerGetAttributes(unsigned number,
				CUpointer_attribute *attributes, void **data,
				CUdeviceptr address)
{
	struct range range;
	enum whose whose = look(address, &range);
	CUresult rc = gp_real()->cuPointerGetAttributes(
		number, attributes, data, whose == DEAD ? NOBODYS : address);

	if (whose == OTHERS || rc != CUDA_SUCCESS)
		return rc;
	for (unsigned i = 0; i < number; i++) {
		if (!data[i])
			continue;
		if (whose == LIVE && is_told_by_us(attributes[i]))
			tell(attributes[i], data[i], &range);
		/* What is nobody's it takes for the host's. */
		if (whose == DEAD &&
		    attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			put_word(data[i], address);
	}
	return rc;
}

/* It takes virtual memory for the host's. */
CUresult cuMemHostGetFlags(unsigned *flags, void *p)
{
	if (gp_is_our_memory((uintptr_t)p, 1))
		return CUDA_ERROR_INVALID_VALUE;
	return gp_real()->cuMemHostGetFlags(flags, p);
}

/* ---- synchronous copies ------------------------------------------------------------ */

/* All copies and sets of the context, then: more than was asked for, but not
 * less. */
static CUresult sync_all(const struct gp_real *real, void *arg)
{
	unsigned flags = 0;
	CUresult rc = real->cuCtxGetFlags(&flags);

	(void)arg;
#if CUDA_VERSION >= 12010
	if (rc == CUDA_SUCCESS && !(flags & CU_CTX_SYNC_MEMOPS))
		rc = real->cuCtxSetFlags(flags | CU_CTX_SYNC_MEMOPS);
#else
	if (rc == CUDA_SUCCESS)
		rc = CUDA_ERROR_NOT_SUPPORTED;
#endif
	return rc;
}

/* What the driver notes of a mapping it notes of all blocks there: it is never
 * told to forget it again. */
static CUresult set_sync(CUdeviceptr address, const struct range *range,
			 bool sync)
{
	const unsigned on = 1;
	const struct gp_context *context;
	CUresult rc = CUDA_SUCCESS;

	if (sync)
		rc = gp_real()->cuPointerSetAttribute(
			&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
	if (rc == CUDA_ERROR_INVALID_VALUE || rc == CUDA_ERROR_NOT_SUPPORTED) {
		context = gp_context_of_pool(range->pool);
		rc = context ? gp_cuda_in_context(&context->cuda, sync_all,
						  NULL)
			     : CUDA_ERROR_INVALID_VALUE;
	}
	if (rc == CUDA_SUCCESS &&
	    gp_pool_set_sync_memops(range->pool, range->base, sync))
		rc = CUDA_ERROR_INVALID_VALUE;
	return rc;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			       CUdeviceptr address)
{
	struct range range;
	enum whose whose = look(address, &range);

	if (whose == LIVE && range.pool && value &&
	    attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && has_context())
		return set_sync(address, &range, *(const unsigned *)value != 0);
	/* Of virtual memory it would say 801. */
	return gp_real()->cuPointerSetAttribute(
		value, attribute, whose == OTHERS ? address : NOBODYS);
}

/* ---- the block's bytes, for other devices ------------------------------------------ */

/* A buffer that others (network cards) reach: never more of it than the
 * program's. The block does not move as long as it is not freed, and what was
 * exported keeps the memory behind it. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address,
				       size_t bytes, CUmemRangeHandleType type,
				       unsigned long long flags)
{
	uint64_t base, whole, held;
	struct gp_pool *pool = gp_pool_of(address);

	if (pool && gp_running() &&
	    (gp_pool_span(pool, address, &base, &whole, &held) ||
	     bytes > held - (address - base)))
		return CUDA_ERROR_INVALID_VALUE;
	return gp_real()->cuMemGetHandleForAddressRange(handle, address, bytes,
							type, flags);
}

/* It answers of plain memory, too (measured, driver 580); not of freed one. */
CUresult cuMemGetAccess(unsigned long long *flags,
			const CUmemLocation *location, CUdeviceptr address)
{
	struct gp_pool *pool = gp_pool_of(address);
	uint64_t base, whole;

	if (pool && gp_running() && gp_pool_find(pool, address, &base, &whole))
		return CUDA_ERROR_INVALID_VALUE;
	return gp_real()->cuMemGetAccess(flags, location, address);
}
