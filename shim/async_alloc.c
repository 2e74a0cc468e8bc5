/*
 * Allocations from the driver's own pools; see async.h.
 */
#include "shim/async_impl.h"
#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/graphs.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"

#define SMALL     (1ull << 20)
/* The largest step in which a pool is believed to grow. */
#define CHUNK_MAX (64ull << 20)

static uint64_t up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static bool current_one(struct gp_async *async)
{
	const struct gp_real *real = gp_real();

	return real->cuCtxGetCurrent(&async->context) == CUDA_SUCCESS &&
	       real->cuCtxGetDevice(&async->device) == CUDA_SUCCESS;
}

/* The device and context of a stream. */
static bool whose(struct gp_async *async)
{
	const struct gp_real *real = gp_real();
	CUcontext current = NULL;
	bool ok;

	if (async->stream == CU_STREAM_LEGACY ||
	    async->stream == CU_STREAM_PER_THREAD ||
	    real->cuStreamGetCtx(async->stream, &async->context) !=
		    CUDA_SUCCESS)
		return current_one(async);
	if (real->cuCtxPushCurrent_v2(async->context) != CUDA_SUCCESS)
		return false;
	ok = real->cuCtxGetDevice(&async->device) == CUDA_SUCCESS;
	real->cuCtxPopCurrent_v2(&current);
	return ok;
}

/* What a pool says of itself. */
struct figures {
	bool told;
	uint64_t used, reserved;
};

/* In this order: what another thread takes in between is in use twice, never
 * spare twice. */
static struct figures ask(const struct gp_async_pool *pool)
{
	struct figures f = {false, 0, 0};

	f.told = gp_async_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
			      &f.reserved) &&
		 gp_async_ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &f.used);
	return f;
}

/* Under the lock: reserve what the pool must grow by. 0, -ENOMEM, or 1: the
 * figures are old. It may have what is on the ledger, which is not less than it
 * has: what another thread is growing it by may be in its own figures by now, or
 * not. One that does not answer is taken for full. */
static int try_reserve(struct gp_async *async, const struct figures *f,
		       uint64_t version, uint64_t *outcomes)
{
	struct gp_async_pool *pool = async->pool;
	struct gp_charge charge = {pool->part, 0, NULL};
	uint64_t want, have;
	int rc;

	pthread_mutex_lock(&gp_async_lock);
	if (pool->version != version) {
		pthread_mutex_unlock(&gp_async_lock);
		return 1;
	}
	want = (f->told ? f->used : pool->charged) + pool->inflight +
	       async->span;
	have = pool->charged + pool->growing;
	charge.bytes = want > have ? up(want - have, pool->chunk) : 0;
	rc = gp_limit_reserve(pool->limit, &charge, outcomes);
	if (!rc) {
		async->grows = charge.bytes;
		async->before = f->reserved;
		async->version = pool->takers || pool->charged != f->reserved
					 ? 0
					 : version + 1;
		pool->inflight += async->span;
		pool->growing += async->grows;
		pool->takers++;
	}
	pthread_mutex_unlock(&gp_async_lock);
	return rc;
}

static bool reserve(struct gp_async *async)
{
	struct gp_limit *limit = gp_device_limit(async->device);
	uint64_t outcomes = 0;

	for (int i = 0; i < GP_ASYNC_TRIES; i++) {
		uint64_t version = gp_async_version(async->pool);
		struct figures f = ask(async->pool);
		int rc = try_reserve(async, &f, version, &outcomes);

		if (!rc)
			return true;
		if (rc > 0)
			continue;
		if (!gp_limit_allows(limit, async->span))
			break;
		if (!gp_limit_wait(limit, outcomes) &&
		    !gp_room_make(async->device, async->span, NULL))
			break;
	}
	return false;
}

bool gp_async_begin(struct gp_async *async, CUmemoryPool pool, uint64_t bytes,
		    CUstream stream, const char *call)
{
	*async = (struct gp_async){
		.bytes = bytes,
		.span = bytes > SMALL ? up(bytes, GP_LIMIT_PIECE)
				      : up(bytes, 2048),
		.stream = stream,
		.call = call,
	};
	if (!bytes || bytes > GP_NO_LIMIT / 2 || !gp_active())
		return true;
	async->device = -1;
	async->counted = true;
	if (!__atomic_load_n(&gp_devices_capped, __ATOMIC_RELAXED)) {
		/* So that it is known to go with the context. The stream is
		 * not asked: almost always it is of the same one. */
		if (!current_one(async))
			async->device = -1;
		/* There may be a limit by the time that it is launched. */
		if (gp_capture_any())
			__atomic_store_n(&gp_graphs_allocate, true,
					 __ATOMIC_RELAXED);
		return true;
	}
	async->counted = whose(async);
	if (!async->counted)
		return true;
	async->captured = gp_capture_of(stream);
	if (async->captured)
		return gp_graph_memory(async->device, bytes, call);
	if (!gp_device_capped(async->device))
		return true;
	if (!pool &&
	    gp_real()->cuDeviceGetMemPool(&pool, async->device) != CUDA_SUCCESS)
		return true; /* the driver knows none: it will say so itself */
	async->pool = gp_async_learn(pool, async->device, GP_PART_async);
	if (async->pool && reserve(async))
		return true;
	gp_take_refused(async->device, bytes, call);
	return false;
}

/* A pool that grew by more than it had to, and for nobody else, grows in
 * steps. */
static void learn_chunk(struct gp_async *async, uint64_t reserved)
{
	struct gp_async_pool *pool = async->pool;
	uint64_t grown =
		reserved > async->before ? reserved - async->before : 0;

	if (async->version == pool->version + 1 && pool->takers == 1 &&
	    grown <= CHUNK_MAX && grown > async->grows && async->grows)
		pool->chunk = grown;
}

/* What the pool is charged for, once this allocation is done. What others are
 * growing it by is on the ledger, whether it has grown by that yet or not;
 * beyond all that it has grown unexpectedly. Those may also have counted on spare
 * memory that has gone back since: the pool will have it again. */
static uint64_t charged_now(const struct gp_async *async,
			    const struct figures *f, bool *unexpected)
{
	const struct gp_async_pool *pool = async->pool;
	uint64_t others = pool->growing - async->grows;
	uint64_t mine = pool->charged + async->grows;
	uint64_t coming = pool->inflight - async->span;
	uint64_t needs = coming ? up(f->used + coming, pool->chunk) : 0;
	uint64_t now = f->reserved;

	*unexpected = now > mine + others;
	if (*unexpected)
		return now - others;
	needs = needs > others ? needs - others : 0;
	if (now < needs)
		now = needs;
	return now < mine ? now : mine;
}

/* The reservation becomes what the pool really has. False: it has grown beyond
 * the limit. */
static bool settle(struct gp_async *async, bool kept)
{
	struct gp_limit *limit = gp_device_limit(async->device);
	struct gp_async_pool *pool = async->pool;
	struct gp_charge charge = {pool->part, async->grows, NULL};
	bool unexpected;

	for (int i = 0;; i++) {
		uint64_t version = gp_async_version(pool);
		struct figures f = ask(pool);
		uint64_t now;

		pthread_mutex_lock(&gp_async_lock);
		if (pool->version != version && i < GP_ASYNC_TRIES) {
			pthread_mutex_unlock(&gp_async_lock);
			continue;
		}
		/* No better figure than our own; what has the handle now may
		 * be another one. */
		if (!f.told || pool->dying)
			f.used = f.reserved =
				pool->charged + (kept ? async->grows : 0);
		if (kept)
			pool->live += async->bytes;
		learn_chunk(async, f.reserved);
		now = charged_now(async, &f, &unexpected);
		pool->inflight -= async->span;
		pool->growing -= async->grows;
		pool->takers--;
		if (gp_async_is_over(pool))
			now = 0;
		gp_limit_measured(limit, &charge, pool->charged, now);
		pool->charged = now;
		pool->version++;
		pthread_mutex_unlock(&gp_async_lock);
		break;
	}
	return !kept || !unexpected || !gp_limit_excess(limit);
}

CUresult gp_async_end(struct gp_async *async, CUresult rc, CUdeviceptr address)
{
	struct gp_foreign entry = {
		.kind = async->captured ? GP_KIND_graph : GP_KIND_async,
		.bytes = async->bytes,
		.refs = 1,
		.device = async->device,
		.context = (uintptr_t)async->context,
		.pool = async->pool,
		.owner = async->owner,
	};
	uint64_t excess;

	if (!async->counted)
		return rc;
	if (rc != CUDA_SUCCESS) {
		if (async->pool)
			settle(async, false);
		if (rc == CUDA_ERROR_OUT_OF_MEMORY &&
		    (async->device >= 0 || whose(async)))
			gp_take_lacked(async->device, async->bytes,
				       async->call);
		return rc;
	}
	if (async->pool && !settle(async, true)) {
		excess = gp_limit_excess(gp_device_limit(async->device));
		gp_room_make(async->device, excess, NULL);
		if (gp_limit_excess(gp_device_limit(async->device)) &&
		    gp_real()->cuMemFreeAsync(address, async->stream) ==
			    CUDA_SUCCESS) {
			gp_async_freed(&entry);
			gp_take_refused(async->device, async->bytes,
					async->call);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (!gp_take_enter(address, &entry))
		gp_async_freed(&entry);
	return rc;
}
