/*
 * Stream-ordered memory.
 *
 * A pool takes memory from the device when it must and keeps what comes back;
 * at a synchronisation it gives back what is above its release threshold. A
 * block's memory is in use from the call that allocates it until the free has
 * been reached in its stream.
 */
#include "tests/sim/pool.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/engine.h"

/* Guarded by sim.lock. */
struct sim_pool {
	struct sim_device *device;
	uint64_t used, used_high, reserved, reserved_high, threshold;
	int reuse_event, reuse_opportunistic, reuse_internal;
	bool dying; /* destroyed by the program, still in use */
	CUmemAllocationHandleType exported_as;
	unsigned access; /* devices that may use it, a bit each */
	struct sim_list link;
};

static struct sim_list pools = {&pools, &pools};

static struct sim_pool *pool_new(struct sim_device *device)
{
	struct sim_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->reuse_event = pool->reuse_opportunistic = 1;
	pool->reuse_internal = 1;
	pool->access = 1u << device->ordinal;
	sim_list_add(&pools, &pool->link);
	sim_handle_add(SIM_K_POOL, pool);
	return pool;
}

void sim_pool_start(struct sim_device *device)
{
	device->default_pool = device->pool = pool_new(device);
}

/* Keep at most `keep` bytes beyond what is in use. True: some were given. */
static bool give_back(struct sim_pool *pool, uint64_t keep)
{
	uint64_t target = keep > pool->used ? keep : pool->used;

	if (pool->reserved <= target)
		return false;
	sim_uncharge(pool->device, pool->reserved - target);
	pool->reserved = target;
	return true;
}

static void bury(struct sim_pool *pool)
{
	give_back(pool, 0);
	sim_list_del(&pool->link);
	free(pool);
}

void sim_pool_returned(struct sim_pool *pool, uint64_t bytes)
{
	pool->used -= bytes;
	if (pool->dying && !pool->used)
		bury(pool);
}

void sim_pools_settle(void)
{
	struct sim_list *l;

	for (l = pools.next; l != &pools; l = l->next) {
		struct sim_pool *pool = sim_entry(l, struct sim_pool, link);

		give_back(pool, pool->threshold);
	}
}

bool sim_pools_trim(struct sim_device *device)
{
	struct sim_list *l;
	bool some = false;

	for (l = pools.next; l != &pools; l = l->next) {
		struct sim_pool *pool = sim_entry(l, struct sim_pool, link);

		if (pool->device == device)
			some |= give_back(pool, 0);
	}
	return some;
}

/* ---- allocation ------------------------------------------------------------- */

/* Memory for `bytes` more, from what the pool has or from the device. */
static CUresult provide(struct sim_pool *pool, uint64_t bytes)
{
	uint64_t spare = pool->reserved - pool->used;
	CUresult err = CUDA_SUCCESS;

	if (bytes > spare) {
		uint64_t more = (bytes - spare + SIM_GRANULE - 1) /
				SIM_GRANULE * SIM_GRANULE;

		err = sim_charge(pool->device, more);
		if (!err)
			pool->reserved += more;
	}
	if (err)
		return err;
	pool->used += bytes;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	return CUDA_SUCCESS;
}

static CUresult take(struct sim_pool *pool, struct sim_ctx *ctx, uint64_t bytes,
		     struct sim_region **region)
{
	CUresult err = sim_region_new(ctx, SIM_ASYNC, bytes, region);

	if (err)
		return err;
	(*region)->pool = pool;
	err = provide(pool, (*region)->span);
	if (err && sim_pools_trim(pool->device))
		err = provide(pool, (*region)->span);
	if (!err)
		return CUDA_SUCCESS;
	pool->used += (*region)->span; /* which destroying takes off again */
	sim_region_destroy(*region);
	return err;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, struct sim_pool *pool,
			 CUstream handle)
{
	struct sim_stream *stream = sim_stream_of(handle);
	struct sim_region *region;
	CUresult err;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pool)
		pool = stream->ctx->device->pool;
	err = take(pool, stream->ctx, bytes, &region);
	if (err == CUDA_ERROR_OUT_OF_MEMORY && !stream->capture) {
		/* Frees that have not been reached yet may help. */
		sim_drain(stream->ctx);
		err = take(pool, stream->ctx, bytes, &region);
	}
	if (err)
		return err;
	region->by_graph = stream->capture;
	if (region->by_graph && !sim_capture_keep(stream, region)) {
		sim_region_destroy(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = region->va;
	return CUDA_SUCCESS;
}

CUresult sim_mem_alloc_async(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	CUresult err;

	if (!sim.settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	err = allocate(out, bytes, NULL, stream);
	sim_unlock();
	return err;
}

CUresult sim_mem_alloc_from_pool(CUdeviceptr *out, size_t bytes,
				 CUmemoryPool handle, CUstream stream)
{
	struct sim_pool *pool = (struct sim_pool *)(void *)handle;
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	if (!out || !bytes)
		return err;
	sim_lock();
	if (sim_handle_is(SIM_K_POOL, pool))
		err = allocate(out, bytes, pool, stream);
	sim_unlock();
	return err;
}

CUresult sim_mem_free_async(CUdeviceptr va, CUstream handle)
{
	struct sim_work work = {.kind = SIM_W_FREE};
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *stream;
	struct sim_region *region;

	if (!va)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	region = sim_region_at(va);
	if (!stream) {
		err = CUDA_ERROR_INVALID_HANDLE;
	} else if (region && region->va == va && !region->dying &&
		   (region->kind == SIM_PLAIN || region->kind == SIM_ASYNC)) {
		/* Plain memory may be given back this way too. */
		if (stream->capture) {
			/* The graph's memory stays while it may be launched. */
			err = region->by_graph ? CUDA_SUCCESS
					       : CUDA_ERROR_INVALID_VALUE;
		} else {
			region->dying = true;
			work.region = region;
			err = sim_submit(stream, &work, NULL);
			if (err)
				region->dying = false;
		}
	}
	sim_unlock();
	return err;
}

/* ---- pools ------------------------------------------------------------------ */

static CUresult pool_of_device(CUmemoryPool *out, CUdevice dev, bool initial)
{
	struct sim_device *device = sim_device_of(dev);

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!sim.settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_lock();
	*out = (CUmemoryPool)(void *)(initial ? device->default_pool
					      : device->pool);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_pool_default(CUmemoryPool *out, CUdevice dev)
{
	return pool_of_device(out, dev, true);
}

CUresult sim_pool_current(CUmemoryPool *out, CUdevice dev)
{
	return pool_of_device(out, dev, false);
}

/* The pool behind a handle, else NULL. */
static struct sim_pool *pool_of(CUmemoryPool handle)
{
	struct sim_pool *pool = (struct sim_pool *)(void *)handle;

	return sim_handle_is(SIM_K_POOL, pool) ? pool : NULL;
}

CUresult sim_pool_set_current(CUdevice dev, CUmemoryPool handle)
{
	struct sim_device *device = sim_device_of(dev);
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_pool *pool;

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	pool = pool_of(handle);
	if (pool && pool->device == device) {
		device->pool = pool;
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

CUresult sim_pool_create(CUmemoryPool *out, const CUmemPoolProps *props)
{
	struct sim_device *device;
	struct sim_pool *pool;

	if (!out || !props ||
	    props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = sim_device_of(props->location.id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	pool = pool_new(device);
	if (pool) {
		pool->exported_as = props->handleTypes;
		*out = (CUmemoryPool)(void *)pool;
	}
	sim_unlock();
	return pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_pool_destroy(CUmemoryPool handle)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_pool *pool;

	sim_lock();
	pool = pool_of(handle);
	if (pool && pool != pool->device->default_pool) {
		sim_handle_remove(pool);
		if (pool->device->pool == pool)
			pool->device->pool = pool->device->default_pool;
		pool->dying = true;
		if (!pool->used)
			bury(pool);
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

CUresult sim_pool_trim_to(CUmemoryPool handle, size_t keep)
{
	struct sim_pool *pool;

	sim_lock();
	pool = pool_of(handle);
	if (pool)
		give_back(pool, keep);
	sim_unlock();
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Where an attribute is kept, and whether as 64 bits or as an int. */
static void *field(struct sim_pool *pool, CUmemPool_attribute attribute,
		   size_t *size)
{
	*size = sizeof(uint64_t);
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	default:
		break;
	}
	*size = sizeof(int);
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		return &pool->reuse_event;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		return &pool->reuse_opportunistic;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return &pool->reuse_internal;
	default:
		return NULL;
	}
}

CUresult sim_pool_get_attribute(CUmemoryPool handle,
				CUmemPool_attribute attribute, void *value)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_pool *pool;
	size_t size;
	void *from;

	sim_lock();
	pool = pool_of(handle);
	from = pool ? field(pool, attribute, &size) : NULL;
	if (from && value) {
		memcpy(value, from, size);
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

CUresult sim_pool_set_attribute(CUmemoryPool handle,
				CUmemPool_attribute attribute, void *value)
{
	bool high = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
		    attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_pool *pool;
	size_t size;
	void *to;

	if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ||
	    attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || !value)
		return err;
	sim_lock();
	pool = pool_of(handle);
	to = pool ? field(pool, attribute, &size) : NULL;
	if (to && high) { /* a high mark can only be taken back */
		uint64_t zero;

		memcpy(&zero, value, sizeof(zero));
		if (!zero) {
			pool->used_high = pool->used;
			pool->reserved_high = pool->reserved;
			err = CUDA_SUCCESS;
		}
	} else if (to) {
		memcpy(to, value, size);
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

CUresult sim_pool_set_access(CUmemoryPool handle, const CUmemAccessDesc *map,
			     size_t count)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_pool *pool;

	sim_lock();
	pool = pool_of(handle);
	for (size_t i = 0; pool && map && i < count; i++) {
		if (!sim_device_of(map[i].location.id))
			break;
		if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
			pool->access &= ~(1u << map[i].location.id);
		else
			pool->access |= 1u << map[i].location.id;
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

CUresult sim_pool_get_access(CUmemAccess_flags *flags, CUmemoryPool handle,
			     CUmemLocation *location)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_pool *pool;

	sim_lock();
	pool = pool_of(handle);
	if (pool && flags && location && sim_device_of(location->id)) {
		*flags = pool->access >> location->id & 1
				 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}
