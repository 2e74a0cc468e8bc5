/*
 * What a device can, as the seam over it tells the pool.
 */
#include <string.h>

#include "shim/devices.h"
#include "shim/driver_impl.h"

static bool attribute(CUdevice device, CUdevice_attribute which)
{
	int value = 0;

	return gp_real()->cuDeviceGetAttribute(&value, which, device) ==
		       CUDA_SUCCESS &&
	       value != 0;
}

int gp_cuda_driver_init(struct gp_cuda_driver *cuda, CUcontext context,
			CUdevice device)
{
	const struct gp_real *real = gp_real();
	size_t total = 0, granularity = 0;
	struct gp_limit_stats limit;
	int rc;

	memset(cuda, 0, sizeof(*cuda));
	cuda->context = context;
	cuda->device = device;
	cuda->driver.ops = &gp_cuda_ops;
	cuda->driver.streams = &gp_cuda_streams;
	cuda->driver.dev = cuda;
	cuda->driver.device = (uint32_t)device;
	rc = gp_cuda_errno(real->cuDeviceTotalMem_v2(&total, device),
			   "cuDeviceTotalMem_v2");
	if (rc)
		return rc;
	cuda->driver.total_bytes = total;
	if (real->cuDeviceGetUuid_v2(&cuda->uuid, device) != CUDA_SUCCESS)
		memset(&cuda->uuid, 0, sizeof(cuda->uuid));
	cuda->limit = gp_device_limit(device);
	gp_limit_get(cuda->limit, &limit);
	if (limit.cap < total)
		cuda->driver.limit_bytes = limit.cap;
	cuda->host_sees_all = attribute(
		device,
		CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
	cuda->driver.granularity = 2u << 20;
	cuda->driver.has_vmm = attribute(
		device,
		CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	if (!cuda->driver.has_vmm)
		return 0;

	cuda->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	cuda->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	cuda->prop.location.id = device;
	/* Exportable, so that a block can be shared between processes. */
	if (attribute(
		    device,
		    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		cuda->prop.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (attribute(
		    device,
		    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)) {
		cuda->prop.allocFlags.gpuDirectRDMACapable = 1;
		cuda->rdma = GP_RDMA_SAID;
	}
	if (real->cuMemGetAllocationGranularity(
		    &granularity, &cuda->prop,
		    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS &&
	    granularity)
		cuda->driver.granularity = granularity;
	return 0;
}
