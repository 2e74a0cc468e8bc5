/*
 * Virtual memory: reservations, handles, mappings, access.
 *
 * As measured: handles are multiples of 2 MiB and are mapped whole; nothing
 * here waits for work, so what still uses an unmapped range faults. A
 * released handle's memory stays until its last mapping goes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sim/bodies.h"
#include "tests/sim/oracle.h"
#include "tests/sim/pool.h"
#include "tests/sim/sim.h"

static bool aligned(uint64_t value)
{
	return value && !(value % SIM_GRANULE);
}

/* What a property structure asks for. *device NULL: host memory. */
static CUresult read_prop(const CUmemAllocationProp *prop,
			  struct sim_device **device)
{
	*device = NULL;
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes &
	    ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (prop->allocFlags.gpuDirectRDMACapable && !sim.settings.rdma)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		*device = sim_device_of(prop->location.id);
		return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	}
#if CUDA_VERSION >= 12020
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST ||
	    prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return CUDA_SUCCESS;
#endif
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_vm_granularity(size_t *out, const CUmemAllocationProp *prop,
			    CUmemAllocationGranularity_flags option)
{
	struct sim_device *device;

	if (!sim.settings.vmm)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
		     option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	*out = SIM_GRANULE;
	return read_prop(prop, &device);
}

/* ---- addresses -------------------------------------------------------------- */

CUresult sim_vm_reserve(CUdeviceptr *out, size_t bytes, size_t align,
			CUdeviceptr hint, unsigned long long flags)
{
	struct sim_region *region;
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	(void)hint; /* the driver need not follow it */
	if (!sim.settings.vmm)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out || !aligned(bytes) || flags || align & (align - 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (align < SIM_GRANULE)
		align = SIM_GRANULE;
	region = calloc(1, sizeof(*region));
	if (!region)
		return err;
	region->bytes = region->span = bytes;
	region->kind = SIM_RESERVED;
	region->flags = (unsigned)(align / SIM_GRANULE);
	sim_list_init(&region->link);
	sim_lock();
	region->id = ++sim.next_id;
	region->va = sim_va_take(bytes, align);
	if (region->va && sim_region_add(region)) {
		*out = region->va;
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	if (err)
		free(region);
	return err;
}

CUresult sim_vm_unreserve(CUdeviceptr va, size_t bytes)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_region *region;

	sim_lock();
	region = sim_region_at(va);
	if (region && region->kind == SIM_RESERVED && region->va == va &&
	    region->bytes == bytes && !sim_map_within(va, bytes)) {
		sim_va_give(va, bytes, region->flags * SIM_GRANULE);
		sim_region_remove(region);
		free(region);
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

/* ---- handles ---------------------------------------------------------------- */

static struct sim_phys *phys_of(CUmemGenericAllocationHandle handle)
{
	struct sim_phys *phys = (struct sim_phys *)(uintptr_t)handle;

	return sim_handle_is(SIM_K_HANDLE, phys) ? phys : NULL;
}

/* One more handle for the program. locked. */
static CUmemGenericAllocationHandle hand_out(struct sim_phys *phys)
{
	if (!phys->handles++)
		sim_handle_add(SIM_K_HANDLE, phys);
	return (CUmemGenericAllocationHandle)(uintptr_t)phys;
}

CUresult sim_vm_create(CUmemGenericAllocationHandle *out, size_t bytes,
		       const CUmemAllocationProp *prop,
		       unsigned long long flags)
{
	struct sim_device *device;
	struct sim_phys *phys;
	bool shareable;
	CUresult err;

	if (!sim.settings.vmm)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out || !aligned(bytes) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	err = read_prop(prop, &device);
	if (err)
		return err;
	shareable = prop->requestedHandleTypes;
	sim_lock();
	err = sim_phys_create(device, bytes, shareable, device, &phys);
	if (err == CUDA_ERROR_OUT_OF_MEMORY && device && sim_pools_trim(device))
		err = sim_phys_create(device, bytes, shareable, true, &phys);
	if (!err) {
		phys->prop = *prop;
		*out = hand_out(phys);
	}
	sim_unlock();
	return err;
}

CUresult sim_vm_release(CUmemGenericAllocationHandle handle)
{
	struct sim_phys *phys;

	sim_lock();
	phys = phys_of(handle);
	if (phys) {
		if (!--phys->handles)
			sim_handle_remove(phys);
		sim_phys_unref(phys);
	}
	sim_unlock();
	return phys ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_vm_retain(CUmemGenericAllocationHandle *out, void *address)
{
	CUdeviceptr va = (CUdeviceptr)(uintptr_t)address;
	struct sim_map *map;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	map = sim_is_device_va(va) ? sim_map_at(va) : NULL;
	if (map) {
		sim_phys_ref(map->phys);
		*out = hand_out(map->phys);
	}
	sim_unlock();
	return map ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_vm_properties(CUmemAllocationProp *prop,
			   CUmemGenericAllocationHandle handle)
{
	struct sim_phys *phys;

	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	phys = phys_of(handle);
	if (phys)
		*prop = phys->prop;
	sim_unlock();
	return phys ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- mappings --------------------------------------------------------------- */

CUresult sim_vm_map(CUdeviceptr va, size_t bytes, size_t offset,
		    CUmemGenericAllocationHandle handle,
		    unsigned long long flags)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_region *region;
	struct sim_map *map;

	if (!aligned(bytes) || va % SIM_GRANULE || offset || flags)
		return err;
	map = calloc(1, sizeof(*map));
	if (!map)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	map->va = va;
	map->bytes = bytes;
	map->phys = phys_of(handle);
	region = sim_region_at(va);
	if (region && (region->kind == SIM_PLAIN || region->kind == SIM_ASYNC))
		err = CUDA_ERROR_NOT_SUPPORTED; /* measured, driver 580 */
	if (map->phys && map->phys->bytes == bytes && region &&
	    region->kind == SIM_RESERVED &&
	    bytes <= region->va + region->bytes - va && sim_map_add(map)) {
		sim_phys_ref(map->phys);
		map = NULL;
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	free(map);
	return err;
}

/* Does [va, va + bytes) consist of whole mappings, without a gap? locked. */
static bool whole_maps(CUdeviceptr va, uint64_t bytes)
{
	if (!aligned(bytes))
		return false;
	while (bytes) {
		struct sim_map *map = sim_map_at(va);

		if (!map || map->va != va || map->bytes > bytes)
			return false;
		va += map->bytes;
		bytes -= map->bytes;
	}
	return true;
}

CUresult sim_vm_unmap(CUdeviceptr va, size_t bytes)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (whole_maps(va, bytes)) {
		for (CUdeviceptr end = va + bytes; va < end;) {
			struct sim_map *map = sim_map_at(va);

			va += map->bytes;
			if (sim_oracle_on())
				sim_oracle_unmap(map);
			sim_map_remove(map);
			sim_phys_unref(map->phys);
			free(map);
		}
		err = CUDA_SUCCESS;
	}
	sim_unlock();
	return err;
}

static bool known_access(const CUmemAccessDesc *desc)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return false;
	return desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       sim_device_of(desc->location.id);
}

/* Memory of another card needs a way there. locked. */
static bool reachable_from(CUdeviceptr va, uint64_t bytes, int device)
{
	for (CUdeviceptr end = va + bytes; va < end;) {
		struct sim_map *map = sim_map_at(va);

		if (map->phys->device && map->phys->device->ordinal != device &&
		    !sim.settings.peer)
			return false;
		va += map->bytes;
	}
	return true;
}

CUresult sim_vm_set_access(CUdeviceptr va, size_t bytes,
			   const CUmemAccessDesc *desc, size_t count)
{
	CUresult err = CUDA_SUCCESS;

	if (!desc || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (!known_access(&desc[i]))
			return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!whole_maps(va, bytes))
		err = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !err; i++) {
		int device = desc[i].location.id;

		if (!reachable_from(va, bytes, device)) {
			err = CUDA_ERROR_INVALID_DEVICE;
			break;
		}
		for (CUdeviceptr at = va; at < va + bytes;) {
			struct sim_map *map = sim_map_at(at);

			map->access[device] = (unsigned char)desc[i].flags;
			at += map->bytes;
		}
	}
	sim_unlock();
	return err;
}

CUresult sim_vm_get_access(unsigned long long *flags,
			   const CUmemLocation *location, CUdeviceptr va)
{
	struct sim_region *region;
	struct sim_map *map;
	bool known;

	if (!flags || !location ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !sim_device_of(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	map = sim_is_device_va(va) ? sim_map_at(va) : NULL;
	/* It answers of plain memory, too (measured, driver 580). */
	region = map ? NULL : sim_region_at(va);
	known = map || (region && region->kind == SIM_PLAIN);
	if (known)
		*flags = map ? map->access[location->id]
			     : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	sim_unlock();
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- sharing ---------------------------------------------------------------- */

CUresult sim_vm_export(void *out, CUmemGenericAllocationHandle handle,
		       CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_phys *phys;
	int fd;

	if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return err;
	sim_lock();
	phys = phys_of(handle);
	if (phys && phys->fd >= 0) {
		fd = fcntl(phys->fd, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0) {
			memcpy(out, &fd, sizeof(fd));
			err = CUDA_SUCCESS;
		} else {
			err = CUDA_ERROR_OPERATING_SYSTEM;
		}
	}
	sim_unlock();
	return err;
}

CUresult sim_vm_import(CUmemGenericAllocationHandle *out, void *os_handle,
		       CUmemAllocationHandleType type)
{
	int fd = (int)(intptr_t)os_handle;
	struct sim_phys *phys;
	CUresult err;

	if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	err = sim_phys_import(fd, &phys);
	if (!err)
		*out = hand_out(phys);
	sim_unlock();
	return err;
}
