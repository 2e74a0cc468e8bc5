/* See work_across.h. */
#include "shim/work_across.h"

#include "pool/order.h"
#include "pool/pool.h"
#include "pool/registry.h"
#include "shim/capture.h"
#include "shim/context.h"
#include "shim/follow.h"
#include "shim/room.h"
#include "shim/state.h"

/* Host memory goes in rows no longer than this: the driver limits them. */
#define MAX_ROW ((size_t)1 << 30)

bool gp_across_on;

void gp_across_pool_made(CUdevice device)
{
	static int first = -1; /* the device of the first pool; atomic */
	int none = -1;

	if (!__atomic_compare_exchange_n(&first, &none, device, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
	    none != device)
		__atomic_store_n(&gp_across_on, true, __ATOMIC_RELAXED);
}

/* ---- is it one? ------------------------------------------------------------- */

/* The device whose access counts: that of the stream. -1: not known. */
static CUdevice copying_device(enum gp_work_id id, CUstream stream)
{
	CUstream named = stream ? stream : gp_work_rows[id].default_stream;
	const struct gp_slot *slot = gp_follow_slot(named);
	CUcontext handle = NULL;
	const struct gp_context *context;
	CUdevice device;

	if (slot)
		return (CUdevice)slot->stream->order->driver->device;
	/* A stream that captures is not to be asked. */
	if (stream && stream != CU_STREAM_LEGACY &&
	    stream != CU_STREAM_PER_THREAD && !gp_capture_any() &&
	    gp_real()->cuStreamGetCtx(stream, &handle) == CUDA_SUCCESS) {
		context = gp_context_known(handle);
		if (context)
			return context->cuda.device;
	}
	return gp_real()->cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

static bool reaches(CUdevice device, const struct gp_pool *pool)
{
	const struct gp_context *context;

	if (!pool || gp_pool_device(pool) == (uint32_t)device)
		return true;
	context = gp_context_of_pool(pool);
	return !context ||
	       (device < GP_MAX_PEERS &&
		__atomic_load_n(&context->cuda.peers, __ATOMIC_ACQUIRE) >>
				device &
			1);
}

/* The pool of an address that is virtual memory of ours. */
static const struct gp_pool *pool_at(CUdeviceptr at)
{
	return gp_registry_near(at) ? gp_pool_of(at) : NULL;
}

bool gp_across_look(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
		    CUstream stream)
{
	const struct gp_pool *to = pool_at(dst), *from = pool_at(src);
	CUdevice device;

	if ((!to && !from) || !gp_running())
		return false;
	device = copying_device(id, stream);
	if (device < 0 || (reaches(device, to) && reaches(device, from)))
		return false;
	/* A capture takes no copies between peers, and would end. */
	return !gp_capture_of(stream ? stream
				     : gp_work_rows[id].default_stream);
}

static bool has_address(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

/* 0, which lies in no pool, where it is no address. */
static CUdeviceptr address_of(CUmemorytype type, CUdeviceptr at)
{
	return has_address(type) ? at : 0;
}

bool gp_across_look_2d(enum gp_work_id id, const CUDA_MEMCPY2D *c,
		       CUstream stream)
{
	return c && gp_across_look(
			    id, address_of(c->dstMemoryType, c->dstDevice),
			    address_of(c->srcMemoryType, c->srcDevice), stream);
}

bool gp_across_look_3d(enum gp_work_id id, const CUDA_MEMCPY3D *c,
		       CUstream stream)
{
	return c && gp_across_look(
			    id, address_of(c->dstMemoryType, c->dstDevice),
			    address_of(c->srcMemoryType, c->srcDevice), stream);
}

/* ---- the sides -------------------------------------------------------------- */

/* What an address is, and whose. */
struct side {
	CUmemorytype type; /* HOST or DEVICE */
	CUcontext context; /* of DEVICE */
};

static struct side side_of(CUdeviceptr at)
{
	const struct gp_real *real = gp_real();
	const struct gp_pool *pool = pool_at(at);
	const struct gp_context *context =
		pool ? gp_context_of_pool(pool) : NULL;
	struct side side = {.type = CU_MEMORYTYPE_DEVICE};
	unsigned type = 0;

	if (context) {
		side.context = context->cuda.context;
		return side;
	}
	if (real->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					at) != CUDA_SUCCESS ||
	    type == CU_MEMORYTYPE_HOST) {
		side.type = CU_MEMORYTYPE_HOST;
		return side;
	}
	/* Memory of the driver's pools belongs to no context. */
	if (real->cuPointerGetAttribute(&side.context,
					CU_POINTER_ATTRIBUTE_CONTEXT,
					at) != CUDA_SUCCESS ||
	    !side.context)
		real->cuCtxGetCurrent(&side.context);
	return side;
}

/* ---- the copy --------------------------------------------------------------- */

/* Which of the peer copies stands for an entry point. */
static bool per_thread(enum gp_work_id id)
{
	return gp_work_rows[id].default_stream == CU_STREAM_PER_THREAD;
}

static bool waits(enum gp_work_id id)
{
	return gp_work_rows[id].class == GP_WORK_SYNC_COPY;
}

static CUresult put_box(enum gp_work_id id, const CUDA_MEMCPY3D_PEER *box,
			CUstream stream)
{
	const struct gp_real *real = gp_real();

	if (waits(id))
		return per_thread(id) ? real->cuMemcpy3DPeer_ptds(box)
				      : real->cuMemcpy3DPeer(box);
	return per_thread(id) ? real->cuMemcpy3DPeerAsync_ptsz(box, stream)
			      : real->cuMemcpy3DPeerAsync(box, stream);
}

static CUresult put_line(enum gp_work_id id, CUdeviceptr dst, CUcontext to,
			 CUdeviceptr src, CUcontext from, size_t bytes,
			 CUstream stream)
{
	const struct gp_real *real = gp_real();

	if (waits(id))
		return per_thread(id)
			       ? real->cuMemcpyPeer_ptds(dst, to, src, from,
							 bytes)
			       : real->cuMemcpyPeer(dst, to, src, from, bytes);
	return per_thread(id) ? real->cuMemcpyPeerAsync_ptsz(dst, to, src, from,
							     bytes, stream)
			      : real->cuMemcpyPeerAsync(dst, to, src, from,
							bytes, stream);
}

/* Between a card and the host: a box one row high. */
static CUresult put_rows(enum gp_work_id id, CUdeviceptr dst, struct side to,
			 CUdeviceptr src, struct side from, size_t bytes,
			 CUstream stream)
{
	CUresult rc = CUDA_SUCCESS;
	size_t row;

	for (size_t at = 0; at < bytes && rc == CUDA_SUCCESS; at += row) {
		row = bytes - at < MAX_ROW ? bytes - at : MAX_ROW;
		CUDA_MEMCPY3D_PEER box = {
			.srcMemoryType = from.type,
			.srcHost = (const void *)(uintptr_t)(src + at),
			.srcDevice = src + at,
			.srcContext = from.context,
			.srcPitch = row,
			.srcHeight = 1,
			.dstMemoryType = to.type,
			.dstHost = (void *)(uintptr_t)(dst + at),
			.dstDevice = dst + at,
			.dstContext = to.context,
			.dstPitch = row,
			.dstHeight = 1,
			.WidthInBytes = row,
			.Height = 1,
			.Depth = 1,
		};
		rc = put_box(id, &box, stream);
	}
	return rc;
}

static CUresult put(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
		    size_t bytes, CUstream stream)
{
	struct side to = side_of(dst), from = side_of(src);

	if (to.type == CU_MEMORYTYPE_HOST || from.type == CU_MEMORYTYPE_HOST)
		return put_rows(id, dst, to, src, from, bytes, stream);
	return put_line(id, dst, to.context, src, from.context, bytes, stream);
}

CUresult gp_copy_across(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
			size_t bytes, CUstream stream)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, id, stream, NULL, NULL);
	rc = put(id, dst, src, bytes, stream);
	if (gp_room_made(rc))
		rc = put(id, dst, src, bytes, stream);
	gp_work_end(&work, rc);
	return rc;
}

/* Addresses get the type and the context that the driver wants to be told. */
static CUresult copy_box(enum gp_work_id id, CUDA_MEMCPY3D_PEER *box,
			 CUstream stream)
{
	struct gp_work work;
	struct side side;
	CUresult rc;

	if (has_address(box->srcMemoryType)) {
		side = side_of(box->srcDevice);
		box->srcMemoryType = side.type;
		box->srcContext = side.context;
		if (side.type == CU_MEMORYTYPE_HOST)
			box->srcHost = (const void *)(uintptr_t)box->srcDevice;
	}
	if (has_address(box->dstMemoryType)) {
		side = side_of(box->dstDevice);
		box->dstMemoryType = side.type;
		box->dstContext = side.context;
		if (side.type == CU_MEMORYTYPE_HOST)
			box->dstHost = (void *)(uintptr_t)box->dstDevice;
	}
	gp_work_begin(&work, id, stream, NULL, NULL);
	rc = put_box(id, box, stream);
	if (gp_room_made(rc))
		rc = put_box(id, box, stream);
	gp_work_end(&work, rc);
	return rc;
}

/* The fields of either structure that mean the same. */
#define COMMON(c)                                                     \
	.srcXInBytes = (c)->srcXInBytes, .srcY = (c)->srcY,           \
	.srcMemoryType = (c)->srcMemoryType, .srcHost = (c)->srcHost, \
	.srcDevice = (c)->srcDevice, .srcArray = (c)->srcArray,       \
	.srcPitch = (c)->srcPitch, .dstXInBytes = (c)->dstXInBytes,   \
	.dstY = (c)->dstY, .dstMemoryType = (c)->dstMemoryType,       \
	.dstHost = (c)->dstHost, .dstDevice = (c)->dstDevice,         \
	.dstArray = (c)->dstArray, .dstPitch = (c)->dstPitch,         \
	.WidthInBytes = (c)->WidthInBytes, .Height = (c)->Height

CUresult gp_copy_across_2d(enum gp_work_id id, const CUDA_MEMCPY2D *c,
			   CUstream stream)
{
	CUDA_MEMCPY3D_PEER box = {COMMON(c), .Depth = 1};

	return copy_box(id, &box, stream);
}

CUresult gp_copy_across_3d(enum gp_work_id id, const CUDA_MEMCPY3D *c,
			   CUstream stream)
{
	CUDA_MEMCPY3D_PEER box = {
		COMMON(c),
		.srcZ = c->srcZ,
		.srcLOD = c->srcLOD,
		.srcHeight = c->srcHeight,
		.dstZ = c->dstZ,
		.dstLOD = c->dstLOD,
		.dstHeight = c->dstHeight,
		.Depth = c->Depth,
	};

	return copy_box(id, &box, stream);
}
