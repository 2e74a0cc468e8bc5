/*
 * The driver's own pools; see async.h.
 *
 * Figures of a pool are asked without a lock and may be old when they are
 * used: every change counts up `version`, and who finds another than before
 * asks again. What other threads are about to take is in `inflight` (spans)
 * and `growing` (reserved for it on the ledger).
 */
#include "shim/async.h"

#include <stdlib.h>

#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/reporter.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"

#define PIECE      GP_LIMIT_PIECE
#define SMALL      (1ull << 20)
/* The largest step in which a pool is believed to grow. */
#define CHUNK_MAX  (64ull << 20)
#define MAX_TRIES  64
#define NUM_GRAPHS GP_CONF_DEVICES

struct gp_async_pool {
	CUmemoryPool handle; /* constant, as is the device */
	CUdevice device;
	/* Guarded by `lock`. */
	struct gp_async_pool *next;
	uint64_t charged; /* on the ledger, for what it reserves */
	uint64_t inflight, growing;
	uint64_t live; /* bytes of its allocations that are known */
	uint64_t chunk;
	uint64_t version;
	unsigned takers;
	bool dying; /* destroyed; goes with its last allocation */
};

/* Rank: above the ledgers. Not held across a driver call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gp_async_pool *pools; /* guarded by lock; never freed */

bool gp_graphs_allocate;
/* Charged for the memory of graphs. Guarded by lock. */
static uint64_t graph_charged[NUM_GRAPHS];

static uint64_t up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static struct gp_async_pool *find(CUmemoryPool handle)
{
	struct gp_async_pool *pool = pools;

	while (pool && (pool->handle != handle || pool->dying))
		pool = pool->next;
	return pool;
}

static struct gp_async_pool *learn(CUmemoryPool handle, CUdevice device)
{
	struct gp_async_pool *pool, *made = NULL;

	pthread_mutex_lock(&lock);
	pool = find(handle);
	if (!pool)
		made = calloc(1, sizeof(*made));
	if (made) {
		made->handle = handle;
		made->device = device;
		made->chunk = PIECE;
		made->next = pools;
		pools = pool = made;
	}
	pthread_mutex_unlock(&lock);
	return pool;
}

void gp_async_created(CUmemoryPool handle, CUdevice device)
{
	learn(handle, device);
}

static void charge(struct gp_async_pool *pool, uint64_t bytes)
{
	gp_limit_adjust(gp_device_limit(pool->device), GP_PART_async,
			pool->charged, bytes);
	pool->charged = bytes;
	pool->version++;
}

/* It cannot be asked any more: what it still has is what was taken of it. */
struct gp_async_pool *gp_async_destroying(CUmemoryPool handle)
{
	struct gp_async_pool *pool;

	pthread_mutex_lock(&lock);
	pool = find(handle);
	if (pool) {
		pool->dying = true;
		charge(pool,
		       pool->charged < pool->live ? pool->charged : pool->live);
	}
	pthread_mutex_unlock(&lock);
	return pool;
}

/* What it has is found when it is next asked. */
void gp_async_kept(struct gp_async_pool *pool)
{
	pthread_mutex_lock(&lock);
	if (pool)
		pool->dying = false;
	pthread_mutex_unlock(&lock);
}

void gp_async_freed(const struct gp_foreign *entry)
{
	struct gp_async_pool *pool = entry->pool;

	if (!pool)
		return;
	pthread_mutex_lock(&lock);
	pool->live -= entry->bytes;
	if (pool->dying && pool->charged > pool->live)
		charge(pool, pool->live);
	pthread_mutex_unlock(&lock);
}

/* ---- asking -------------------------------------------------------------------- */

static bool ask(const struct gp_async_pool *pool, CUmemPool_attribute which,
		uint64_t *bytes)
{
	cuuint64_t value = 0;

	if (gp_real()->cuMemPoolGetAttribute(pool->handle, which, &value) !=
	    CUDA_SUCCESS)
		return false;
	*bytes = value;
	return true;
}

static uint64_t version_of(const struct gp_async_pool *pool)
{
	uint64_t version;

	pthread_mutex_lock(&lock);
	version = pool->version;
	pthread_mutex_unlock(&lock);
	return version;
}

static void refresh(struct gp_async_pool *pool)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		uint64_t version = version_of(pool), reserved;
		bool done;

		if (!ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved))
			return;
		pthread_mutex_lock(&lock);
		/* One that grows just now has it on the ledger already. */
		done = pool->dying || pool->takers || pool->version == version;
		if (done && !pool->dying && !pool->takers &&
		    pool->charged != reserved)
			charge(pool, reserved);
		pthread_mutex_unlock(&lock);
		if (done)
			return;
	}
}

/* The next pool of the device, or of any (-1), that can be asked. */
static struct gp_async_pool *next_of(CUdevice device,
				     struct gp_async_pool *pool)
{
	pthread_mutex_lock(&lock);
	pool = pool ? pool->next : pools;
	while (pool && (pool->dying || (device >= 0 && pool->device != device)))
		pool = pool->next;
	pthread_mutex_unlock(&lock);
	return pool;
}

/* The pools a device has without the program making any. */
static void learn_current(CUdevice device)
{
	CUmemoryPool handle;

	if (gp_real()->cuDeviceGetDefaultMemPool(&handle, device) ==
	    CUDA_SUCCESS)
		learn(handle, device);
	if (gp_real()->cuDeviceGetMemPool(&handle, device) == CUDA_SUCCESS)
		learn(handle, device);
}

void gp_async_refresh(CUdevice device)
{
	struct gp_async_pool *pool = NULL;

	learn_current(device);
	while ((pool = next_of(device, pool)))
		refresh(pool);
}

static uint64_t charged_of(const struct gp_async_pool *pool)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	bytes = pool->charged;
	pthread_mutex_unlock(&lock);
	return bytes;
}

uint64_t gp_async_spare(CUdevice device)
{
	struct gp_async_pool *pool = NULL;
	uint64_t spare = 0, used, reserved;

	gp_async_refresh(device);
	while ((pool = next_of(device, pool)))
		if (ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) &&
		    ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
			&reserved) &&
		    reserved > used)
			spare += reserved - used;
	return spare;
}

uint64_t gp_async_trim(CUdevice device)
{
	struct gp_async_pool *pool = NULL;
	uint64_t given = 0;

	while ((pool = next_of(device, pool))) {
		uint64_t before = charged_of(pool), now;

		if (!before)
			continue;
		gp_real()->cuMemPoolTrimTo(pool->handle, 0);
		refresh(pool);
		now = charged_of(pool);
		given += before > now ? before - now : 0;
	}
	return given;
}

/* ---- allocations --------------------------------------------------------------- */

static bool captures(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	/* It fails for the legacy stream while another captures. */
	return gp_capture_any() && (gp_real()->cuStreamIsCapturing(
					    stream, &status) != CUDA_SUCCESS ||
				    status != CU_STREAM_CAPTURE_STATUS_NONE);
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
		return real->cuCtxGetCurrent(&async->context) == CUDA_SUCCESS &&
		       real->cuCtxGetDevice(&async->device) == CUDA_SUCCESS;
	if (real->cuCtxPushCurrent_v2(async->context) != CUDA_SUCCESS)
		return false;
	ok = real->cuCtxGetDevice(&async->device) == CUDA_SUCCESS;
	real->cuCtxPopCurrent_v2(&current);
	return ok;
}

/* Under the lock: reserve what the pool must grow by. 0, -ENOMEM, or 1: the
 * figures are old. */
static int try_reserve(struct gp_async *async, uint64_t used, uint64_t reserved,
		       uint64_t version, uint64_t *outcomes)
{
	struct gp_async_pool *pool = async->pool;
	struct gp_charge charge = {GP_PART_async, 0, false};
	uint64_t want, have;
	int rc;

	pthread_mutex_lock(&lock);
	if (pool->version != version) {
		pthread_mutex_unlock(&lock);
		return 1;
	}
	want = used + pool->inflight + async->span;
	have = reserved + pool->growing;
	charge.bytes = want > have ? up(want - have, pool->chunk) : 0;
	rc = gp_limit_reserve(gp_device_limit(pool->device), &charge, outcomes);
	if (!rc) {
		async->grows = charge.bytes;
		async->before = reserved;
		async->version = pool->takers ? 0 : version + 1;
		pool->inflight += async->span;
		pool->growing += async->grows;
		pool->takers++;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static bool reserve(struct gp_async *async)
{
	struct gp_limit *limit = gp_device_limit(async->device);
	uint64_t outcomes = 0;

	for (int i = 0; i < MAX_TRIES; i++) {
		uint64_t version = version_of(async->pool);
		uint64_t used = 0, reserved = 0;
		int rc;

		/* In this order: what another thread takes in between is in
		 * use twice, never spare twice. One that does not answer is
		 * taken for full. */
		if (!ask(async->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
			 &reserved) ||
		    !ask(async->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
			used = reserved = 0;
		rc = try_reserve(async, used, reserved, version, &outcomes);
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
		.span = bytes > SMALL ? up(bytes, PIECE) : up(bytes, 2048),
		.stream = stream,
	};
	if (!bytes || bytes > GP_NO_LIMIT / 2 || !gp_active())
		return true;
	async->device = -1;
	async->counted = true;
	if (!__atomic_load_n(&gp_devices_capped, __ATOMIC_RELAXED))
		return true;
	async->counted = whose(async);
	if (!async->counted)
		return true;
	async->captured = captures(stream);
	if (async->captured)
		return gp_graph_memory(async->device, bytes, call);
	if (!gp_device_capped(async->device))
		return true;
	if (!pool &&
	    gp_real()->cuDeviceGetMemPool(&pool, async->device) != CUDA_SUCCESS)
		return true; /* the driver knows none: it will say so itself */
	async->pool = learn(pool, async->device);
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
 * beyond all that it has grown unexpectedly. */
static uint64_t charged_now(const struct gp_async *async, uint64_t reserved,
			    bool *unexpected)
{
	const struct gp_async_pool *pool = async->pool;
	uint64_t others = pool->growing - async->grows;
	uint64_t mine = pool->charged + async->grows;

	*unexpected = reserved > mine + others;
	if (*unexpected)
		return reserved - others;
	return reserved < mine ? reserved : mine;
}

/* The reservation becomes what the pool really has. False: it has grown beyond
 * the limit. */
static bool settle(struct gp_async *async, bool kept)
{
	struct gp_limit *limit = gp_device_limit(async->device);
	struct gp_async_pool *pool = async->pool;
	struct gp_charge charge = {GP_PART_async, async->grows, false};
	bool unexpected;

	for (int i = 0;; i++) {
		uint64_t version = version_of(pool), reserved = 0, now;
		bool told = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
				&reserved);

		pthread_mutex_lock(&lock);
		if (pool->version != version && i < MAX_TRIES) {
			pthread_mutex_unlock(&lock);
			continue;
		}
		if (!told) /* no better figure than our own */
			reserved = pool->charged + (kept ? async->grows : 0);
		if (kept)
			pool->live += async->bytes;
		learn_chunk(async, reserved);
		now = charged_now(async, reserved, &unexpected);
		pool->inflight -= async->span;
		pool->growing -= async->grows;
		pool->takers--;
		gp_limit_measured(limit, &charge, pool->charged, now);
		pool->charged = now;
		pool->version++;
		pthread_mutex_unlock(&lock);
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
	};
	uint64_t excess;

	if (!async->counted)
		return rc;
	if (rc != CUDA_SUCCESS) {
		if (async->pool)
			settle(async, false);
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
					"cuMemAllocAsync");
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (!gp_take_enter(address, &entry))
		gp_async_freed(&entry);
	return rc;
}

/* ---- graphs -------------------------------------------------------------------- */

bool gp_graph_memory(CUdevice device, uint64_t bytes, const char *call)
{
	struct gp_charge charge = {GP_PART_graph, up(bytes, PIECE), false};

	if (gp_room_reserve(device, &charge, NULL)) {
		gp_take_refused(device, bytes, call);
		return false;
	}
	/* It is taken when the graph is launched. */
	gp_limit_cancel(gp_device_limit(device), &charge);
	__atomic_store_n(&gp_graphs_allocate, true, __ATOMIC_RELAXED);
	return true;
}

void gp_graph_refresh(void)
{
	cuuint64_t reserved = 0;
	CUdevice device;

	if (!gp_running() ||
	    gp_real()->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 ||
	    device >= NUM_GRAPHS ||
	    gp_real()->cuDeviceGetGraphMemAttribute(
		    device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
		    &reserved) != CUDA_SUCCESS)
		return;
	pthread_mutex_lock(&lock);
	gp_limit_adjust(gp_device_limit(device), GP_PART_graph,
			graph_charged[device], reserved);
	graph_charged[device] = reserved;
	pthread_mutex_unlock(&lock);
}
