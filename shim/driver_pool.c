/* Plain allocations from the driver's own pools; see driver_pool.h. */
#include "shim/driver_pool.h"

#include <stdlib.h>
#include <time.h>

#include "conf/conf.h"
#include "shim/async.h"
#include "shim/context.h"
#include "shim/driver_impl.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"
#include "shim/tracer.h"
#include "stats/log.h"

/* ---- life -------------------------------------------------------------------- */

static bool has_pools(CUdevice device)
{
	int value = 0;

	return gp_real()->cuDeviceGetAttribute(
		       &value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
		       device) == CUDA_SUCCESS &&
	       value != 0;
}

static CUresult make(struct gp_driver_pool *pool, CUdevice device)
{
	const struct gp_real *real = gp_real();
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	/* What is freed goes back to the device at the next synchronisation
	 * otherwise, that is, at every allocation and free. */
	cuuint64_t keep =
		gp_settings()->cache_policy == GP_CONF_NONE ? 0 : UINT64_MAX;
	int no = 0;
	CUresult rc = real->cuMemPoolCreate(&pool->handle, &props);

	if (rc != CUDA_SUCCESS)
		return rc;
	rc = real->cuMemPoolSetAttribute(
		pool->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
	if (rc == CUDA_SUCCESS)
		rc = real->cuMemPoolSetAttribute(
			pool->handle,
			CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no);
	if (rc == CUDA_SUCCESS)
		rc = real->cuStreamCreate(&pool->stream,
					  CU_STREAM_NON_BLOCKING);
	if (rc != CUDA_SUCCESS)
		real->cuMemPoolDestroy(pool->handle);
	return rc;
}

struct gp_driver_pool *gp_driver_pool_open(struct gp_context *context)
{
	CUdevice device = context->cuda.device;
	struct gp_driver_pool *pool;

	if (!has_pools(device))
		return NULL;
	pool = calloc(1, sizeof(*pool));
	if (pool && make(pool, device) != CUDA_SUCCESS) {
		free(pool);
		pool = NULL;
	}
	if (!pool)
		return NULL;
	pool->context = context;
	pthread_mutex_init(&pool->lock, NULL);
	pool->known = gp_async_own(pool->handle, device);
	if (!pool->known) {
		gp_driver_pool_discard(pool);
		return NULL;
	}
	gp_driver_pool_begin(pool);
	return pool;
}

void gp_driver_pool_discard(struct gp_driver_pool *pool)
{
	gp_driver_pool_gone(pool);
	gp_real()->cuStreamDestroy_v2(pool->stream);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

void gp_driver_pool_gone(struct gp_driver_pool *pool)
{
	struct gp_async_rest rest = {.pool = NULL};

	if (__atomic_exchange_n(&pool->left, true, __ATOMIC_ACQ_REL))
		return;
	if (pool->known)
		gp_async_destroys(&rest, pool->handle);
	gp_real()->cuMemPoolDestroy(pool->handle);
	gp_async_destroyed(&rest);
}

void gp_driver_pool_back(const struct gp_driver_pool *pool, uint64_t address)
{
	gp_real()->cuMemFreeAsync(address, pool->stream);
}

static CUresult leave_body(const struct gp_real *real, void *arg)
{
	struct gp_driver_pool *pool = arg;

	real->cuCtxSynchronize(); /* as destroying it does */
	gp_take_owner_goes(pool);
	real->cuStreamSynchronize(pool->stream);
	gp_driver_pool_gone(pool);
	return CUDA_SUCCESS;
}

void gp_driver_pool_leave(struct gp_driver_pool *pool)
{
	gp_cuda_in_context(&pool->context->cuda, leave_body, pool);
}

/* ---- allocations ---------------------------------------------------------------- */

static CUresult allocate(const struct gp_driver_pool *pool,
			 CUdeviceptr *address, size_t bytes)
{
	const struct gp_real *real = gp_real();
	struct gp_ease e = gp_ease();
	CUresult rc = real->cuMemAllocFromPoolAsync(address, bytes,
						    pool->handle, pool->stream);

	if (rc == CUDA_SUCCESS) {
		if (gp_settings()->zero_memory)
			rc = real->cuMemsetD8Async(*address, 0, bytes,
						   pool->stream);
		if (rc == CUDA_SUCCESS)
			rc = real->cuStreamSynchronize(pool->stream);
		if (rc != CUDA_SUCCESS)
			real->cuMemFreeAsync(*address, pool->stream);
	}
	gp_unease(&e);
	return rc;
}

CUresult gp_driver_pool_alloc(struct gp_driver_pool *pool, CUdeviceptr *address,
			      size_t bytes, const char *call)
{
	struct gp_async async;
	CUdeviceptr va = 0;
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	if (gp_async_begin(&async, pool->handle, bytes, pool->stream, call)) {
		/* The same where no limit made it ask. */
		async.device = pool->context->cuda.device;
		async.context = pool->context->cuda.context;
		async.owner = pool;
		rc = allocate(pool, &va, bytes);
		if (gp_room_made_for(bytes, rc))
			rc = allocate(pool, &va, bytes);
		rc = gp_async_end(&async, rc, va);
	}
	if (rc == CUDA_SUCCESS) {
		*address = va;
		gp_tracer_alloc(va, bytes);
	} else if (rc == CUDA_ERROR_OUT_OF_MEMORY) {
		gp_driver_pool_refused(pool, bytes);
	}
	return rc;
}

struct back {
	const struct gp_driver_pool *pool;
	CUdeviceptr address;
};

static CUresult back_body(const struct gp_real *real, void *arg)
{
	const struct back *back = arg;

	return real->cuMemFreeAsync(back->address, back->pool->stream);
}

CUresult gp_driver_pool_free(CUdeviceptr address,
			     const struct gp_foreign *entry)
{
	const struct gp_driver_pool *pool = entry->owner;
	struct back back = {pool, address};
	CUcontext current;
	struct gp_ease e;
	CUresult rc;

	/* No context need be current, as for cuMemFree (measured, driver 580). */
	if (gp_real()->cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return gp_real()->cuMemFree_v2(address); /* it says why */
	if (gp_capture_any()) {
		rc = gp_context_probe(pool->context);
		if (rc != CUDA_SUCCESS)
			return rc;
	}
	if (gp_cuda_sync(&pool->context->cuda))
		return gp_cuda_last_error();
	e = gp_ease();
	rc = gp_cuda_in_context(&pool->context->cuda, back_body, &back);
	gp_unease(&e);
	return rc;
}

/* ---- peers ---------------------------------------------------------------------- */

/* Access to a pool's memory is the pool's own: enabling it between contexts does
 * nothing for that. */
int gp_driver_pool_regrant(struct gp_driver_pool *pool)
{
	const struct gp_cuda_driver *cuda = &pool->context->cuda;
	CUmemAccessDesc access[GP_MAX_PEERS];
	size_t n = gp_cuda_peer_access(cuda, access);

	if (__atomic_load_n(&pool->left, __ATOMIC_ACQUIRE))
		return 0;
	return n ? gp_cuda_errno(gp_real()->cuMemPoolSetAccess(pool->handle,
							       access, n),
				 "cuMemPoolSetAccess")
		 : 0;
}
