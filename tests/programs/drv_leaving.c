/*
 * Description: another thread goes on while a context is being destroyed, or the
 * device reset. The simulator's destroy_us keeps the call from returning
 * meanwhile. What was memory of the context is mapped anew, or there is another
 * context with the same handle.
 *
 *   drv_leaving destroy|reset
 *   drv_leaving again destroy|reset|release
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "tests/support/must.h"

#define BYTES ((size_t)20 << 20) /* a segment of their own */
#define TRIES 1000

static CUcontext leaving;

static CUresult create(CUcontext *context, CUdevice device)
{
#if CUDA_VERSION >= 13000
	return cuCtxCreate(context, NULL, 0, device);
#else
	return cuCtxCreate(context, 0, device);
#endif
}

static void *destroy(void *arg)
{
	(void)arg;
	MUST(cuCtxDestroy(leaving));
	return NULL;
}

static void *reset(void *arg)
{
	(void)arg;
	MUST(cuDevicePrimaryCtxReset(1));
	return NULL;
}

static void *release(void *arg)
{
	(void)arg;
	MUST(cuDevicePrimaryCtxRelease(1));
	return NULL;
}

/* The driver gives out first what it got back last. */
static void reserve(CUdeviceptr wanted)
{
	CUdeviceptr at;

	for (int i = 0; i < TRIES; i++) {
		MUST(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
		if (at == wanted)
			return;
		MUST(cuMemAddressFree(at, BYTES));
		usleep(1000);
	}
	printf("the address does not come back\n");
	exit(1);
}

static void map_there(void *(*leave)(void *))
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemGenericAllocationHandle handle;
	CUcontext stays;
	pthread_t thread;
	CUdeviceptr p;

	MUST(cuMemAlloc(&p, BYTES));
	MUST(cuDevicePrimaryCtxRetain(&stays, 0));
	MUST(cuCtxSetCurrent(stays));
	MUST(cuMemCreate(&handle, BYTES, &prop, 0));
	if (pthread_create(&thread, NULL, leave, NULL))
		exit(1);
	reserve(p);
	printf("map: %d\n", (int)cuMemMap(p, BYTES, 0, handle, 0));
	printf("unmap: %d\n", (int)cuMemUnmap(p, BYTES));
	pthread_join(thread, NULL);
	MUST(cuMemRelease(handle));
	MUST(cuMemAddressFree(p, BYTES));
}

/* A context of that handle, once the driver has destroyed the one that was. */
static CUcontext same_handle(bool primary)
{
	CUcontext context, popped;

	for (int i = 0; i < TRIES; i++) {
		if (primary)
			MUST(cuDevicePrimaryCtxRetain(&context, 1));
		else
			MUST(create(&context, 0));
		if (!primary)
			MUST(cuCtxPopCurrent(&popped));
		if (context == leaving)
			return context;
		usleep(1000);
	}
	printf("the handle does not come back\n");
	exit(1);
}

/* The driver is through with the primary one. */
static void await_gone(void)
{
	unsigned flags;
	int active = 1;

	for (int i = 0; i < TRIES && active; i++) {
		MUST(cuDevicePrimaryCtxGetState(1, &flags, &active));
		usleep(1000);
	}
}

/* Work in two streams, the other's behind a free. */
static void use(CUdeviceptr p)
{
	CUstream streams[2];

	for (int i = 0; i < 2; i++)
		MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	printf("set: %d\n", (int)cuMemsetD8Async(p, 1, BYTES, streams[0]));
	printf("free: %d\n", (int)cuMemFree(p));
	MUST(cuMemAlloc(&p, BYTES));
	printf("set: %d\n", (int)cuMemsetD8Async(p, 1, BYTES, streams[1]));
}

/* Memory of the new context stays, and its pool has nothing of the old one. */
static void go_on(void *(*leave)(void *), bool primary)
{
	long (*calls)(const char *) = (long (*)(const char *))dlsym(
		dlopen("libcuda.so.1", RTLD_LAZY), "gpusim_calls");
	pthread_t thread;
	CUdeviceptr p;
	long plain, waits;

	MUST(cuMemAlloc(&p, BYTES));
	use(p);
	plain = calls("cuMemAlloc_v2");
	MUST(cuCtxSetCurrent(NULL));
	if (pthread_create(&thread, NULL, leave, NULL))
		exit(1);
	if (primary)
		await_gone();
	MUST(cuCtxSetCurrent(same_handle(primary)));
	MUST(cuMemAlloc(&p, BYTES));
	pthread_join(thread, NULL);
	waits = calls("cuCtxSynchronize");
	use(p);
	printf("waits: %ld\n", calls("cuCtxSynchronize") - waits);
	printf("by the driver: %ld\n", calls("cuMemAlloc_v2") - plain);
}

int main(int argc, char **argv)
{
	bool again = argc == 3 && !strcmp(argv[1], "again");
	bool primary = argc > 1 && strcmp(argv[argc - 1], "destroy");

	if (argc < 2)
		return 77; /* test_segments.py runs it */
	MUST(cuInit(0));
	if (primary)
		MUST(cuDevicePrimaryCtxRetain(&leaving, 1));
	else
		MUST(create(&leaving, 0));
	MUST(cuCtxSetCurrent(leaving));
	if (again)
		go_on(!primary                   ? destroy
		      : strcmp(argv[2], "reset") ? release
						 : reset,
		      primary);
	else
		map_there(primary ? reset : destroy);
	return 0;
}
