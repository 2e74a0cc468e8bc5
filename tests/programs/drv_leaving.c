/*
 * Description: what was memory of a context is mapped anew by another thread
 * while the context is being destroyed, or the device's reset. The simulator's
 * destroy_us keeps the call from returning meanwhile.
 *
 *   drv_leaving destroy|reset
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#define BYTES ((size_t)20 << 20) /* a segment of their own */
#define TRIES 1000

static CUcontext leaving;

static void must(CUresult rc)
{
	if (rc == CUDA_SUCCESS)
		return;
	printf("setup failed: %d\n", (int)rc);
	exit(1);
}

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
	must(cuCtxDestroy(leaving));
	return NULL;
}

static void *reset(void *arg)
{
	(void)arg;
	must(cuDevicePrimaryCtxReset(1));
	return NULL;
}

/* The driver gives out first what it got back last. */
static void reserve(CUdeviceptr wanted)
{
	CUdeviceptr at;

	for (int i = 0; i < TRIES; i++) {
		must(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
		if (at == wanted)
			return;
		must(cuMemAddressFree(at, BYTES));
		usleep(1000);
	}
	printf("the address does not come back\n");
	exit(1);
}

int main(int argc, char **argv)
{
	int resets = argc == 2 && strcmp(argv[1], "reset") == 0;
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemGenericAllocationHandle handle;
	CUcontext stays;
	pthread_t thread;
	CUdeviceptr p;

	if (argc != 2)
		return 77; /* test_segments.py runs it */
	must(cuInit(0));
	if (resets)
		must(cuDevicePrimaryCtxRetain(&leaving, 1));
	else
		must(create(&leaving, 0));
	must(cuCtxSetCurrent(leaving));
	must(cuMemAlloc(&p, BYTES));
	must(cuDevicePrimaryCtxRetain(&stays, 0));
	must(cuCtxSetCurrent(stays));
	must(cuMemCreate(&handle, BYTES, &prop, 0));
	if (pthread_create(&thread, NULL, resets ? reset : destroy, NULL))
		return 1;
	reserve(p);
	printf("map: %d\n", (int)cuMemMap(p, BYTES, 0, handle, 0));
	printf("unmap: %d\n", (int)cuMemUnmap(p, BYTES));
	pthread_join(thread, NULL);
	must(cuMemRelease(handle));
	must(cuMemAddressFree(p, BYTES));
	return 0;
}
