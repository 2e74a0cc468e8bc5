/*
 * Description: zero-size, NULL, interior, foreign and double frees answer as
 * the driver answers them, whoever serves the memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>

#include <cuda.h>

#include "tests/support/must.h"

#define MIB (1ull << 20)

static void tell(const char *what, CUresult rc)
{
	printf("%s: %d\n", what, (int)rc);
}

static void zero_and_null(void)
{
	CUdeviceptr p = 77;

	tell("alloc 0", cuMemAlloc(&p, 0));
	printf("untouched: %d\n", p == 77);
	tell("alloc to NULL", cuMemAlloc(NULL, 512));
	tell("free NULL", cuMemFree(0));
	tell("free 1", cuMemFree(1));
	tell("free UINT64_MAX", cuMemFree(~0ull));
	tell("alloc everything", cuMemAlloc(&p, 1ull << 46));
	tell("alloc SIZE_MAX", cuMemAlloc(&p, ~0ull));
	tell("alloc SIZE_MAX - 511", cuMemAlloc(&p, ~0ull - 511));
	printf("untouched: %d\n", p == 77);
}

/* Everything that is not the start of a live allocation. */
static void wrong_places(uint64_t bytes)
{
	CUdeviceptr p, q;

	printf("-- %llu bytes\n", (unsigned long long)bytes);
	MUST(cuMemAlloc(&p, bytes));
	MUST(cuMemAlloc(&q, bytes));
	tell("interior + 1", cuMemFree(p + 1));
	tell("interior + 512", cuMemFree(p + 512));
	tell("last byte", cuMemFree(p + bytes - 1));
	tell("right", cuMemFree(p));
	tell("again", cuMemFree(p));
	tell("the other", cuMemFree(q));
	tell("the other again", cuMemFree(q));
	tell("the first, a third time", cuMemFree(p));
}

/* A freed block that is somebody's again can be freed again, once. */
static void reissued(void)
{
	CUdeviceptr p[64];
	int failed = 0;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 64; i++)
			failed += cuMemAlloc(&p[i], 4096) != CUDA_SUCCESS;
		for (int i = 63; i >= 0; i--)
			failed += cuMemFree(p[i]) != CUDA_SUCCESS;
	}
	printf("reissued, failures: %d\n", failed);
	for (int i = 0, accepted = 0; i < 64; i++) {
		accepted += cuMemFree(p[i]) == CUDA_SUCCESS;
		if (i == 63)
			printf("second frees accepted: %d\n", accepted);
	}
}

/* Memory that never was cuMemAlloc's. */
static void foreign(CUstream stream)
{
	CUdeviceptr p, pool_block;
	void *host;
	int local;

	tell("stack address", cuMemFree((CUdeviceptr)(uintptr_t)&local));
	MUST(cuMemAllocHost(&host, 4096));
	tell("pinned memory", cuMemFree((CUdeviceptr)(uintptr_t)host));
	tell("pinned memory, rightly", cuMemFreeHost(host));
	MUST(cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
	tell("managed", cuMemFree(p));
	tell("managed again", cuMemFree(p));
	MUST(cuMemAllocAsync(&p, MIB, stream));
	MUST(cuStreamSynchronize(stream));
	tell("async memory by cuMemFree", cuMemFree(p));
	tell("async memory again", cuMemFree(p));
	MUST(cuMemAlloc(&pool_block, 3 * MIB));
	tell("our memory by cuMemFreeAsync",
	     cuMemFreeAsync(pool_block, stream));
	MUST(cuStreamSynchronize(stream));
	tell("our memory again", cuMemFree(pool_block));
	MUST(cuMemAlloc(&pool_block, 3 * MIB));
	tell("interior by cuMemFreeAsync",
	     cuMemFreeAsync(pool_block + 4096, stream));
	tell("still live", cuMemsetD8(pool_block, 1, 3 * MIB));
	tell("freed", cuMemFree(pool_block));
}

static void *without_context(void *arg)
{
	CUdeviceptr p = 0;
	CUcontext context;

	MUST(cuCtxGetCurrent(&context));
	printf("thread has a context: %d\n", context != NULL);
	tell("alloc without a context", cuMemAlloc(&p, 4096));
	tell("free without a context", cuMemFree(*(CUdeviceptr *)arg));
	return NULL;
}

static void other_thread(void)
{
	CUdeviceptr p;
	pthread_t thread;

	MUST(cuMemAlloc(&p, MIB));
	pthread_create(&thread, NULL, without_context, &p);
	pthread_join(thread, NULL);
	tell("back in the first thread", cuMemFree(p));
}

static void address_range(uint64_t bytes)
{
	CUdeviceptr p, base = 0;
	size_t size = 0;

	MUST(cuMemAlloc(&p, bytes));
	tell("range of the start", cuMemGetAddressRange(&base, &size, p));
	printf("base %d, size %zu\n", base == p, size);
	tell("range of the inside",
	     cuMemGetAddressRange(&base, &size, p + bytes / 2));
	printf("base %d, size %zu\n", base == p, size);
	tell("only the size", cuMemGetAddressRange(NULL, &size, p));
	MUST(cuMemFree(p));
	tell("range of freed memory", cuMemGetAddressRange(&base, &size, p));
}

int main(void)
{
	CUdeviceptr p;
	CUcontext context;
	CUstream stream;
	CUdevice device;

	tell("before cuInit, alloc", cuMemAlloc(&p, 4096));
	tell("before cuInit, free", cuMemFree(4096));
	if (cuInit(0) != CUDA_SUCCESS)
		return 77;
	tell("before a context, alloc", cuMemAlloc(&p, 4096));
	tell("before a context, alloc 0", cuMemAlloc(&p, 0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

	zero_and_null();
	wrong_places(4096);
	wrong_places(MIB);
	wrong_places(100 * MIB);
	reissued();
	foreign(stream);
	other_thread();
	address_range(4096);
	address_range(64 * MIB);

	MUST(cuMemAlloc(&p, MIB));
	MUST(cuStreamDestroy(stream));
	MUST(cuCtxSetCurrent(NULL));
	MUST(cuDevicePrimaryCtxReset(device));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	tell("free from before the reset", cuMemFree(p));
	tell("alloc after the reset", cuMemAlloc(&p, MIB));
	tell("set after the reset", cuMemsetD8(p, 1, MIB));
	tell("free after the reset", cuMemFree(p));
	return 0;
}
