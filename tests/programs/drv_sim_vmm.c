/*
 * Description: the simulated driver's virtual memory: reservations, handles,
 * mappings and access, contents seen through several places, the fault after
 * an unmap, and sharing by descriptor.
 */
#include <unistd.h>

#include "tests/sim/simtest.h"

#define G (2 * MIB)

static CUmemAllocationProp prop(bool shareable)
{
	CUmemAllocationProp p = {0};

	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	if (shareable)
		p.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return p;
}

static CUmemGenericAllocationHandle make(uint64_t bytes, bool shareable)
{
	CUmemAllocationProp p = prop(shareable);
	CUmemGenericAllocationHandle handle = 0;

	NEED(cuMemCreate(&handle, bytes, &p, 0));
	return handle;
}

static CUresult open_up(CUdeviceptr va, uint64_t bytes)
{
	CUmemAccessDesc desc = {0};

	desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return cuMemSetAccess(va, bytes, &desc, 1);
}

static void reservations(void)
{
	CUdeviceptr va, large;

	IS(cuMemAddressReserve(&va, G - 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemAddressReserve(&va, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemAddressReserve(&va, G, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAddressReserve(&va, 3 * G, 64 * MIB, 0, 0));
	IS(va % (64 * MIB), 0);
	NEED(cuMemAddressReserve(&large, 200 * GIB, 0, 0, 0));
	IS(cuMemAddressFree(large + G, G), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemAddressFree(large, 200 * GIB), 0);
	IS(cuMemAddressFree(large, 200 * GIB), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemAddressFree(va, G), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemAddressFree(va, 3 * G), 0);
	IS(gpusim_used_bytes(0), 0);
}

static void handles(void)
{
	CUmemAllocationProp p = prop(false), back;
	CUmemGenericAllocationHandle h;
	size_t granularity;

	IS(cuMemGetAllocationGranularity(&granularity, &p,
					 CU_MEM_ALLOC_GRANULARITY_MINIMUM),
	   0);
	IS(granularity, G);
	IS(cuMemCreate(&h, MIB, &p, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemCreate(&h, G, &p, 1), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemCreate(&h, 64 * GIB, &p, 0), CUDA_ERROR_OUT_OF_MEMORY);
	p.location.id = 7;
	IS(cuMemCreate(&h, G, &p, 0), CUDA_ERROR_INVALID_DEVICE);
	h = make(4 * G, false);
	IS(gpusim_used_bytes(0), 4 * G);
	IS(cuMemGetAllocationPropertiesFromHandle(&back, h), 0);
	IS(back.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
	IS(cuMemRelease(h), 0);
	IS(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
	IS(gpusim_used_bytes(0), 0);
}

/* Memory stays until its last mapping goes. */
static void lifetime(void)
{
	CUmemGenericAllocationHandle h = make(G, false), again;
	CUdeviceptr va;

	NEED(cuMemAddressReserve(&va, 4 * G, 0, 0, 0));
	IS(cuMemMap(va, G, 0, h, 0), 0);
	IS(cuMemRelease(h), 0);
	IS(gpusim_used_bytes(0), G);
	IS(cuMemMap(va + G, G, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(va + 100)),
	   0);
	IS(cuMemMap(va + G, G, 0, again, 0), 0);
	IS(cuMemAddressFree(va, 4 * G), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemUnmap(va, G), 0);
	IS(gpusim_used_bytes(0), G);
	IS(cuMemUnmap(va + G, G), 0);
	IS(gpusim_used_bytes(0), G); /* `again` */
	IS(cuMemRelease(again), 0);
	IS(gpusim_used_bytes(0), 0);
	IS(cuMemAddressFree(va, 4 * G), 0);
}

static void mappings(void)
{
	CUmemGenericAllocationHandle a = make(G, false), b = make(2 * G, false);
	unsigned long long access = 9;
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUdeviceptr va, base;
	size_t size;

	NEED(cuMemAddressReserve(&va, 4 * G, 0, 0, 0));
	IS(cuMemMap(va, G, G, b, 0), CUDA_ERROR_INVALID_VALUE); /* offset */
	IS(cuMemMap(va, G, 0, b, 0), CUDA_ERROR_INVALID_VALUE); /* a part */
	IS(cuMemMap(va + 100, G, 0, a, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemMap(va + 3 * G, 2 * G, 0, b, 0), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemMap(va, G, 0, a, 0));
	IS(cuMemMap(va, G, 0, a, 0), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemMap(va + G, 2 * G, 0, b, 0));
	NEED(cuMemMap(va + 3 * G, G, 0, a, 0));             /* a second place */
	IS(cuMemsetD8(va, 1, G), CUDA_ERROR_INVALID_VALUE); /* no access */
	IS(open_up(va, 2 * G), CUDA_ERROR_INVALID_VALUE);   /* half of b */
	IS(open_up(va, 4 * G), 0);
	IS(cuMemGetAccess(&access, &here, va), 0);
	IS(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	/* one set over all mappings; the last is the first's memory */
	IS(cuMemsetD32(va, 7, 3 * G / 4), 0);
	IS(sim_test_word(va + 3 * G - 4), 7);
	IS(sim_test_word(va + 3 * G), 7);
	IS(cuMemsetD32(va + 4 * G - 4, 8, 1), 0);
	IS(sim_test_word(va + G - 4), 8);
	IS(cuMemGetAddressRange(&base, &size, va + 2 * G), 0);
	IS(base, va + G);
	IS(size, 2 * G);
	IS(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
				 va + 2 * G),
	   0);
	IS(size, 4 * G);
	IS(cuMemUnmap(va, 2 * G), CUDA_ERROR_INVALID_VALUE); /* half of b */
	IS(cuMemUnmap(va, 3 * G), 0);
	IS(cuMemUnmap(va, G), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD8(va, 1, 1), CUDA_ERROR_INVALID_VALUE);
	IS(sim_test_word(va + 4 * G - 4), 8);
	NEED(cuMemUnmap(va + 3 * G, G));
	NEED(cuMemRelease(a));
	NEED(cuMemRelease(b));
	NEED(cuMemAddressFree(va, 4 * G));
	IS(gpusim_used_bytes(0), 0);
}

static void sharing(void)
{
	CUmemGenericAllocationHandle a = make(G, true), b, plain;
	CUdeviceptr va;
	int fd = -1;

	plain = make(G, false);
	IS(cuMemExportToShareableHandle(
		   &fd, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	   CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemRelease(plain));
	NEED(cuMemExportToShareableHandle(
		&fd, a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	NEED(cuMemImportFromShareableHandle(
		&b, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	IS(gpusim_used_bytes(0), G); /* the same memory */
	NEED(cuMemAddressReserve(&va, 2 * G, 0, 0, 0));
	NEED(cuMemMap(va, G, 0, a, 0));
	NEED(cuMemMap(va + G, G, 0, b, 0));
	NEED(open_up(va, 2 * G));
	NEED(cuMemsetD32(va, 99, 1));
	IS(sim_test_word(va + G), 99);
	NEED(cuMemUnmap(va, 2 * G));
	NEED(cuMemRelease(a));
	NEED(cuMemRelease(b));
	NEED(cuMemAddressFree(va, 2 * G));
	IS(gpusim_used_bytes(0), 0);
}

/* Unmapping does not wait; what still uses the range is an error that every
 * later call in the context returns. */
static void fault(void)
{
	CUmemGenericAllocationHandle h = make(G, false);
	CUdeviceptr va, p;
	CUstream stream;

	NEED(cuMemAddressReserve(&va, G, 0, 0, 0));
	NEED(cuMemMap(va, G, 0, h, 0));
	NEED(open_up(va, G));
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(sim_test_close(0, stream));
	NEED(cuMemsetD8Async(va, 1, G, stream));
	NEED(cuMemUnmap(va, G));
	sim_test_open(0);
	IS(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	IS(cuMemAlloc(&p, 512), CUDA_ERROR_ILLEGAL_ADDRESS);
	IS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	/* not of the context: these still work */
	IS(cuMemRelease(h), 0);
	IS(cuMemAddressFree(va, G), 0);
	IS(gpusim_used_bytes(0), 0);
	IS(cuDevicePrimaryCtxReset(0), 0);
}

int main(void)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;

	sim_test_begin("memory:1GiB");
	reservations();
	handles();
	lifetime();
	mappings();
	sharing();
	/* virtual memory outlives a reset of the device */
	h = make(G, false);
	NEED(cuMemAddressReserve(&va, G, 0, 0, 0));
	NEED(cuMemMap(va, G, 0, h, 0));
	NEED(cuDevicePrimaryCtxReset(0));
	IS(gpusim_used_bytes(0), G);
	IS(cuMemUnmap(va, G), 0);
	IS(cuMemRelease(h), 0);
	IS(cuMemAddressFree(va, G), 0);
	sim_test_begin("memory:1GiB");
	fault();
	return sim_test_end();
}
