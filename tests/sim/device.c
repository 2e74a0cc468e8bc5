/*
 * Devices and what they say of themselves: an H200's answers where programs
 * look at them.
 */
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/sim.h"

CUresult sim_device_get(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_device_count(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim.devices;
	return CUDA_SUCCESS;
}

CUresult sim_device_name(char *name, int size, CUdevice dev)
{
	if (!name || size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)size, "Simulated GPU");
	return CUDA_SUCCESS;
}

CUresult sim_device_uuid(CUuuid *uuid, CUdevice dev)
{
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_card_uuid(sim.device[dev].card, sim.device[dev].instance,
		      (unsigned char *)uuid->bytes);
	return CUDA_SUCCESS;
}

CUresult sim_device_pci_id(char *id, int size, CUdevice dev)
{
	if (!id || size < 13)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(id, (size_t)size, "0000:%02X:00.0",
		 ((unsigned)sim.device[dev].card + 1) & 0xff);
	return CUDA_SUCCESS;
}

CUresult sim_device_by_pci_id(CUdevice *device, const char *id)
{
	char own[32];

	if (!device || !id)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sim.devices; i++) {
		sim_device_pci_id(own, sizeof(own), i);
		if (!strcmp(own, id)) {
			*device = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_device_total(size_t *bytes, CUdevice dev)
{
	struct sim_device *device = sim_device_of(dev);

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = device->total;
	return CUDA_SUCCESS;
}

CUresult sim_device_capability(int *major, int *minor, CUdevice dev)
{
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

static const struct {
	CUdevice_attribute attribute;
	int value;
} attributes[] = {
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
	{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
	{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
	{CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
	{CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
	{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 1},
};

CUresult sim_device_attribute(int *value, CUdevice_attribute attribute,
			      CUdevice dev)
{
	if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*value = 0;
	switch ((int)attribute) {
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		*value = sim.device[dev].card + 1;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
		*value = (int)sim.settings.vmm;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
		*value = (int)sim.settings.pools;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
		*value = (int)sim.settings.rdma;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
		*value = sim.settings.rdma && sim.settings.vmm;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
		*value = (int)sim.settings.pageable;
		return CUDA_SUCCESS;
	}
	for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
		if (attributes[i].attribute == attribute)
			*value = attributes[i].value;
	return CUDA_SUCCESS;
}

/* ---- peers ------------------------------------------------------------------ */

static bool peers(CUdevice a, CUdevice b)
{
	return sim.settings.peer && a != b;
}

CUresult sim_can_access_peer(int *can, CUdevice a, CUdevice b)
{
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(a) || !sim_device_of(b))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = peers(a, b);
	return CUDA_SUCCESS;
}

CUresult sim_p2p_attribute(int *value, CUdevice_P2PAttribute attribute,
			   CUdevice a, CUdevice b)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_of(a) || !sim_device_of(b) || a == b)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK
			 ? 0
			 : peers(a, b);
	return CUDA_SUCCESS;
}

CUresult sim_peer_enable(CUcontext handle, unsigned flags)
{
	struct sim_ctx *ctx = sim_current();
	struct sim_ctx *other = (struct sim_ctx *)(void *)handle;
	CUresult err = CUDA_SUCCESS;
	unsigned bit;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!sim_handle_is(SIM_K_CTX, other) || !other->alive) {
		err = CUDA_ERROR_INVALID_CONTEXT;
	} else if (!peers(ctx->device->ordinal, other->device->ordinal)) {
		err = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	} else {
		bit = 1u << other->device->ordinal;
		if (ctx->peers & bit)
			err = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
		ctx->peers |= bit;
	}
	sim_unlock();
	return err;
}

CUresult sim_peer_disable(CUcontext handle)
{
	struct sim_ctx *ctx = sim_current();
	struct sim_ctx *other = (struct sim_ctx *)(void *)handle;
	CUresult err = CUDA_SUCCESS;
	unsigned bit;

	sim_lock();
	if (!sim_handle_is(SIM_K_CTX, other)) {
		err = CUDA_ERROR_INVALID_CONTEXT;
	} else {
		bit = 1u << other->device->ordinal;
		if (!(ctx->peers & bit))
			err = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
		ctx->peers &= ~bit;
	}
	sim_unlock();
	return err;
}
