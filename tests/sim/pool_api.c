/*
 * Memory pools as the program handles them: made, asked, trimmed.
 */
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/pool.h"

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

	if (!sim.settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out || !props ||
	    props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = sim_device_of(props->location.id);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	pool = sim_pool_new(device);
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
			sim_pool_bury(pool);
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
		sim_pool_give_back(pool, keep);
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
