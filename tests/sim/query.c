/*
 * Questions about an address.
 */
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/sim.h"

/* The range for cuMemGetAddressRange: of virtual memory the mapping, else
 * the allocation. locked. */
static bool range_of(CUdeviceptr va, CUdeviceptr *base, uint64_t *bytes)
{
	struct sim_region *region = sim_region_at(va);
	struct sim_map *map;

	if (!region || region->dying)
		return false;
	if (region->kind != SIM_RESERVED) {
		*base = region->va;
		*bytes = region->bytes;
		return va < region->va + region->bytes;
	}
	map = sim_map_at(va);
	if (!map)
		return false;
	*base = map->va;
	*bytes = map->bytes;
	return true;
}

CUresult sim_mem_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr va)
{
	CUdeviceptr start;
	uint64_t size;
	bool found;

	sim_lock();
	found = range_of(va, &start, &size);
	sim_unlock();
	if (!found)
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = start;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

static bool is_host(const struct sim_region *region)
{
	return region->kind == SIM_PINNED || region->kind == SIM_REGISTERED;
}

static struct sim_device *device_of(const struct sim_region *region,
				    CUdeviceptr va)
{
	struct sim_map *map;

	if (region->kind != SIM_RESERVED)
		return region->device;
	map = sim_map_at(va);
	return map ? map->phys->device : NULL;
}

/* What the current context's device may do there. locked. */
static unsigned access_of(const struct sim_region *region, CUdeviceptr va)
{
	const struct sim_ctx *ctx = sim_current();
	const struct sim_map *map;

	if (region->kind == SIM_RESERVED) {
		map = sim_map_at(va);
		return map ? map->access[ctx->device->ordinal] : 0;
	}
	if (region->device && region->device != ctx->device &&
	    !(ctx->peers >> region->device->ordinal & 1))
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
	return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
}

/* Plain memory is; virtual memory where its handle was made so (measured).
 * locked. */
static bool reached_by_network(const struct sim_region *region, CUdeviceptr va)
{
	const struct sim_map *map;

	if (region->kind != SIM_RESERVED)
		return region->kind == SIM_PLAIN && sim.settings.rdma;
	map = sim_map_at(va);
	return map && map->phys->prop.allocFlags.gpuDirectRDMACapable;
}

/* The answer for a known address as a number. locked. */
static CUresult answer(CUpointer_attribute attribute, CUdeviceptr va,
		       const struct sim_region *region, uint64_t *value,
		       size_t *size)
{
	struct sim_device *device = device_of(region, va);

	*size = sizeof(uint64_t);
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*value = (uint64_t)(uintptr_t)region->ctx;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*value = va;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (sim_is_device_va(va))
			return CUDA_ERROR_INVALID_VALUE;
		*value = va;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*value = region->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*value = region->va;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*value = region->bytes;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*value = (uint64_t)(uintptr_t)region->pool;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*value = 0;
		if (region->kind == SIM_RESERVED && sim_map_at(va))
			*value =
				sim_map_at(va)->phys->prop.requestedHandleTypes;
		return CUDA_SUCCESS;
	}
	*size = sizeof(uint32_t);
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*value = is_host(region) || !device ? CU_MEMORYTYPE_HOST
						    : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = device ? (uint64_t)device->ordinal : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*value = access_of(region, va);
		return CUDA_SUCCESS;
	}
	*size = sizeof(char);
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*value = region->kind == SIM_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*value = region->kind != SIM_RESERVED || sim_map_at(va);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*value = region->sync_memops;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*value = region->kind == SIM_PLAIN;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*value = reached_by_network(region, va);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static struct sim_region *known(CUdeviceptr va)
{
	struct sim_region *region = sim_region_at(va);

	return region && !region->dying ? region : NULL;
}

CUresult sim_pointer_attribute(void *out, CUpointer_attribute attribute,
			       CUdeviceptr va)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_region *region;
	uint64_t value;
	size_t size;

	if (!out)
		return err;
	sim_lock();
	region = known(va);
	if (region)
		err = answer(attribute, va, region, &value, &size);
	sim_unlock();
	if (!err)
		memcpy(out, &value, size);
	return err;
}

/* Of an address it does not know this one tells zeros, and an invalid
 * device. */
CUresult sim_pointer_attributes(unsigned count, CUpointer_attribute *attributes,
				void **out, CUdeviceptr va)
{
	struct sim_region *region, nobody = {0};

	if (!count || !attributes || !out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	region = known(va);
	for (unsigned i = 0; i < count; i++) {
		uint64_t value = 0;
		size_t size = 0;
		CUresult err;

		err = answer(attributes[i], va, region ? region : &nobody,
			     &value, &size);
		if (err || !region)
			value = 0;
		if (!region &&
		    attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			value = (uint32_t)CU_DEVICE_INVALID;
		/* What is nobody's is the host's (measured, driver 580). */
		if (!region &&
		    attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			value = va;
		memcpy(out[i], &value, size);
	}
	sim_unlock();
	return CUDA_SUCCESS;
}

/* SYNC_MEMOPS is the only one there is; every simulated copy obeys it. Of
 * virtual memory it is refused: the context has a flag for that. */
CUresult sim_pointer_set_attribute(const void *value,
				   CUpointer_attribute attribute,
				   CUdeviceptr va)
{
	struct sim_region *region;

	bool sync = attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	if (!value)
		return err;
	sim_lock();
	region = known(va);
	if (region && region->kind == SIM_RESERVED) {
		/* Measured, driver 580. */
		err = sync ? err : CUDA_ERROR_NOT_SUPPORTED;
	} else if (region && sync) {
		region->sync_memops = *(const unsigned *)value != 0;
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}
