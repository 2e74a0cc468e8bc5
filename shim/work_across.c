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

void gp_across_pool_made(void)
{
	static unsigned pools; /* atomic */

	if (__atomic_fetch_add(&pools, 1, __ATOMIC_RELAXED))
		__atomic_store_n(&gp_across_on, true, __ATOMIC_RELAXED);
}

/* ---- is it one? ------------------------------------------------------------- */

static struct gp_pool *pool_at(CUdeviceptr at)
{
	return gp_registry_near(at) ? gp_pool_of(at) : NULL;
}

static CUstream named(enum gp_work_id id, CUstream stream)
{
	return stream ? stream : gp_work_rows[id].default_stream;
}

/* Is the pool that of another context than the current one, or than the
 * stream's? */
static bool is_elsewhere(struct gp_pool *pool, const struct gp_context *context,
			 const struct gp_slot *slot)
{
	return pool && (pool != context->pool ||
			(slot && gp_pool_order(pool) != slot->stream->order));
}

bool gp_across_look(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
		    CUstream stream)
{
	struct gp_pool *to = pool_at(dst), *from = pool_at(src);
	const struct gp_context *context;
	const struct gp_slot *slot;

	if ((!to && !from) || !gp_running())
		return false;
	context = gp_context_current();
	if (!context)
		return false;
	slot = gp_follow_slot(named(id, stream));
	if (!is_elsewhere(to, context, slot) &&
	    !is_elsewhere(from, context, slot))
		return false;
	/* A capture takes no copies between peers, and would end. */
	return !gp_capture_of(named(id, stream));
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

/* A side with the context that the program named. */
static struct side side_in(CUcontext context)
{
	return (struct side){.type = CU_MEMORYTYPE_DEVICE, .context = context};
}

/* ---- whose work it is ---------------------------------------------------------- */

static struct gp_order *order_of(struct side side)
{
	const struct gp_context *context =
		side.type == CU_MEMORYTYPE_DEVICE && side.context
			? gp_context_known(side.context)
			: NULL;

	return context && context->pool ? gp_pool_order(context->pool) : NULL;
}

/* Is the memory of that context within reach of the device? */
static bool reaches(uint32_t device, CUcontext other)
{
	const struct gp_context *context = gp_context_known(other);

	if (!context || device >= GP_MAX_PEERS)
		return false;
	return (uint32_t)context->cuda.device == device ||
	       __atomic_load_n(&context->cuda.peers, __ATOMIC_ACQUIRE) >>
			       device &
		       1;
}

struct crossing {
	enum gp_work_id id;
	bool submits;        /* and no more */
	struct gp_work work; /* else */
	struct gp_slot *slot;
	struct gp_order *at[2]; /* whose memory it reaches, but the stream's */
	bool covered[2];
	unsigned n;
};

static void visit(struct crossing *c, struct gp_order *order, bool covered)
{
	if (!order || (c->slot && order == c->slot->stream->order) ||
	    (c->n && order == c->at[0]))
		return;
	c->at[c->n] = order;
	c->covered[c->n++] = covered;
	gp_order_visit_begin(order, c->slot);
}

/* Whether the driver's free of the destination would wait for it: not where the
 * stream's device writes to a peer, or to itself. */
static bool is_kept(const struct crossing *c, struct side to, struct side from)
{
	const struct gp_order *home = c->slot ? c->slot->stream->order : NULL;

	return !home || order_of(from) != home ||
	       c->slot->stream->key == GP_STREAM_LEGACY ||
	       !reaches(home->driver->device, to.context);
}

static void begin(struct crossing *c, enum gp_work_id id, CUstream stream,
		  struct side to, struct side from)
{
	const struct gp_work_row *row = &gp_work_rows[id];

	c->id = id;
	c->n = 0;
	c->submits = row->class == GP_WORK_SUBMIT;
	if (c->submits) {
		c->slot = gp_work_submit(stream, row->default_stream);
	} else {
		gp_work_begin(&c->work, id, stream, NULL, NULL);
		c->slot = c->work.on ? c->work.slot : NULL;
	}
	if (!gp_running() || gp_capture_of(named(id, stream)))
		return;
	visit(c, order_of(from), true);
	visit(c, order_of(to), is_kept(c, to, from));
}

static void end(struct crossing *c, CUresult rc)
{
	unsigned flags = gp_work_rows[c->id].flags;
	/* Through the other context's work, which is in no order with what
	 * follows a free in this one, the program sees any of them. */
	bool shows = rc == CUDA_SUCCESS && !(flags & GP_WORK_DRAINS) &&
		     (flags & GP_WORK_HOST || (c->n && GP_HOLDS(VISIT_SHOWS)));

	for (unsigned i = c->n; i--;)
		gp_order_visit_end(c->at[i], c->slot, c->covered[i], shows);
	if (!c->submits) {
		gp_work_end(&c->work, rc);
		if (shows && c->slot)
			gp_order_shows(c->slot);
	} else if (shows)
		gp_work_shown(c->slot, rc);
	else
		gp_work_submitted(c->slot, rc);
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

static CUresult put(enum gp_work_id id, CUdeviceptr dst, struct side to,
		    CUdeviceptr src, struct side from, size_t bytes,
		    CUstream stream)
{
	if (to.type == CU_MEMORYTYPE_HOST || from.type == CU_MEMORYTYPE_HOST)
		return put_rows(id, dst, to, src, from, bytes, stream);
	return put_line(id, dst, to.context, src, from.context, bytes, stream);
}

static CUresult copy_line(enum gp_work_id id, CUdeviceptr dst, struct side to,
			  CUdeviceptr src, struct side from, size_t bytes,
			  CUstream stream)
{
	struct crossing c;
	CUresult rc;

	begin(&c, id, stream, to, from);
	rc = put(id, dst, to, src, from, bytes, stream);
	if (gp_room_made(rc))
		rc = put(id, dst, to, src, from, bytes, stream);
	end(&c, rc);
	return rc;
}

CUresult gp_copy_across(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
			size_t bytes, CUstream stream)
{
	return copy_line(id, dst, side_of(dst), src, side_of(src), bytes,
			 stream);
}

CUresult gp_copy_peer(enum gp_work_id id, CUdeviceptr dst, CUcontext to,
		      CUdeviceptr src, CUcontext from, size_t bytes,
		      CUstream stream)
{
	return copy_line(id, dst, side_in(to), src, side_in(from), bytes,
			 stream);
}

static CUresult copy_box(enum gp_work_id id, const CUDA_MEMCPY3D_PEER *box,
			 struct side to, struct side from, CUstream stream)
{
	struct crossing c;
	CUresult rc;

	begin(&c, id, stream, to, from);
	rc = put_box(id, box, stream);
	if (gp_room_made(rc))
		rc = put_box(id, box, stream);
	end(&c, rc);
	return rc;
}

/* Addresses get the type and the context that the driver wants to be told. */
static CUresult copy_told_box(enum gp_work_id id, CUDA_MEMCPY3D_PEER *box,
			      CUstream stream)
{
	struct side to = {.type = CU_MEMORYTYPE_HOST}, from = to;

	if (has_address(box->srcMemoryType)) {
		from = side_of(box->srcDevice);
		box->srcMemoryType = from.type;
		box->srcContext = from.context;
		if (from.type == CU_MEMORYTYPE_HOST)
			box->srcHost = (const void *)(uintptr_t)box->srcDevice;
	}
	if (has_address(box->dstMemoryType)) {
		to = side_of(box->dstDevice);
		box->dstMemoryType = to.type;
		box->dstContext = to.context;
		if (to.type == CU_MEMORYTYPE_HOST)
			box->dstHost = (void *)(uintptr_t)box->dstDevice;
	}
	return copy_box(id, box, to, from, stream);
}

static struct side side_of_box(CUmemorytype type, CUcontext context)
{
	struct side side = side_in(context);

	if (type == CU_MEMORYTYPE_HOST)
		side.type = CU_MEMORYTYPE_HOST;
	return side;
}

CUresult gp_copy_3d_peer(enum gp_work_id id, const CUDA_MEMCPY3D_PEER *box,
			 CUstream stream)
{
	struct side host = {.type = CU_MEMORYTYPE_HOST};

	if (!box)
		return copy_box(id, NULL, host, host, stream);
	return copy_box(
		id, box, side_of_box(box->dstMemoryType, box->dstContext),
		side_of_box(box->srcMemoryType, box->srcContext), stream);
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

	return copy_told_box(id, &box, stream);
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

	return copy_told_box(id, &box, stream);
}
