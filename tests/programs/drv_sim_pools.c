/*
 * Description: the simulated driver's stream-ordered memory: reserved and
 * used figures, what a synchronisation gives back, frees in stream order, and
 * the two ways of freeing mixed.
 */
#include "tests/sim/simtest.h"

static CUstream stream;
static CUmemoryPool pool;

static uint64_t figure(CUmemPool_attribute attribute)
{
	uint64_t value = ~0ull;

	NEED(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

#define USED     figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
#define RESERVED figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)

static void order(void)
{
	CUdeviceptr p, q;

	NEED(cuMemAllocAsync(&p, MIB, stream));
	IS(USED, MIB);
	IS(RESERVED, 2 * MIB);
	IS(gpusim_used_bytes(0), 2 * MIB);
	NEED(sim_test_close(0, stream));
	NEED(cuMemsetD32Async(p, 1, MIB / 4, stream));
	NEED(cuMemFreeAsync(p, stream));
	IS(USED, MIB); /* not reached yet */
	IS(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD8(p, 1, 1), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAllocAsync(&q, MIB, stream));
	HOLDS(q != p);
	NEED(cuMemFreeAsync(q, stream));
	sim_test_open(0);
	NEED(cuStreamSynchronize(stream));
	IS(USED, 0);
	IS(RESERVED, 0);
	IS(gpusim_used_bytes(0), 0);
}

static void threshold(void)
{
	uint64_t keep = 4 * MIB, none = 0;
	CUdeviceptr p, q;

	NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				   &keep));
	NEED(cuMemAllocAsync(&p, 8 * MIB, stream));
	NEED(cuMemFreeAsync(p, stream));
	IS(RESERVED, 8 * MIB);
	NEED(cuStreamSynchronize(stream));
	IS(RESERVED, 4 * MIB);
	/* somebody who goes without gets it */
	NEED(cuMemAlloc(&q, 1022 * MIB - gpusim_context_bytes(0)));
	IS(RESERVED, 0);
	IS(cuMemAllocAsync(&p, 8 * MIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
	NEED(cuMemFree(q));
	NEED(cuMemAllocAsync(&p, 2 * MIB, stream));
	NEED(cuMemFreeAsync(p, stream));
	NEED(cuStreamSynchronize(stream));
	IS(RESERVED, 2 * MIB);
	IS(cuMemPoolTrimTo(pool, 0), 0);
	IS(RESERVED, 0);
	NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				   &none));
}

/* Neither waits. */
static void mixed(void)
{
	CUdeviceptr async, plain;

	NEED(cuMemAlloc(&plain, MIB));
	NEED(cuMemAllocAsync(&async, MIB, stream));
	NEED(sim_test_close(0, stream));
	NEED(cuMemsetD8Async(async, 1, MIB, stream));
	NEED(cuMemsetD8Async(plain, 1, MIB, stream));
	IS(cuMemFree(async), 0);
	IS(cuMemFreeAsync(plain, stream), 0);
	IS(cuMemFree(async), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemFree(plain), CUDA_ERROR_INVALID_VALUE);
	IS(gpusim_used_bytes(0), 4 * MIB);
	sim_test_open(0);
	NEED(cuCtxSynchronize());
	IS(gpusim_used_bytes(0), 0);
}

static void own_pool(void)
{
	CUmemPoolProps props = {0};
	CUmemoryPool own, current;
	CUdeviceptr p;

	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	NEED(cuMemPoolCreate(&own, &props));
	NEED(cuMemAllocFromPoolAsync(&p, MIB, own, stream));
	IS(USED, 0); /* of the default pool */
	IS(cuMemPoolDestroy(own), 0);
	IS(cuMemPoolDestroy(own), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD8Async(p, 1, MIB, stream), 0); /* lives on */
	NEED(cuMemFreeAsync(p, stream));
	NEED(cuStreamSynchronize(stream));
	IS(gpusim_used_bytes(0), 0);
	NEED(cuMemPoolCreate(&own, &props));
	NEED(cuDeviceSetMemPool(0, own));
	NEED(cuDeviceGetMemPool(&current, 0));
	HOLDS(current == own);
	IS(cuMemPoolDestroy(own), 0);
	NEED(cuDeviceGetMemPool(&current, 0));
	HOLDS(current == pool);
	IS(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	sim_test_begin("memory:1GiB");
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuDeviceGetDefaultMemPool(&pool, 0));
	order();
	threshold();
	mixed();
	own_pool();
	return sim_test_end();
}
