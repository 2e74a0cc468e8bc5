/*
 * Description: several contexts and devices. Memory belongs to the context
 * that was current when it was allocated, may be freed under another, and
 * goes with its own.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include "tests/support/must.h"

#define MIB (1u << 20)

static void tell(const char *what, CUresult rc)
{
	printf("%s: %d\n", what, (int)rc);
}

static CUcontext create(CUdevice device)
{
	CUcontext context;

#if CUDA_VERSION >= 13000
	MUST(cuCtxCreate(&context, NULL, 0, device));
#else
	MUST(cuCtxCreate(&context, 0, device));
#endif
	return context;
}

/* The device that an allocation is on, as the driver sees it. */
static int device_of(CUdeviceptr p)
{
	int ordinal = -1;

	cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
	return ordinal;
}

static void contents(CUdeviceptr p, unsigned char value)
{
	unsigned char host[64];
	int same = 0;

	MUST(cuMemcpyDtoH(host, p, sizeof(host)));
	for (size_t i = 0; i < sizeof(host); i++)
		same += host[i] == value;
	printf("contents: %d of 64\n", same);
}

static void two_contexts(CUdevice device)
{
	CUcontext a, b, current;
	CUdeviceptr p, q, r;

	a = create(device);
	MUST(cuMemAlloc(&p, MIB));
	MUST(cuMemsetD8(p, 1, MIB));
	b = create(device);
	MUST(cuMemAlloc(&q, MIB));
	MUST(cuMemsetD8(q, 2, MIB));
	printf("apart: %d\n", p + MIB <= q || q + MIB <= p);
	contents(p, 1);
	contents(q, 2);
	tell("free the other context's", cuMemFree(p));
	MUST(cuCtxGetCurrent(&current));
	printf("current context kept: %d\n", current == b);
	tell("again", cuMemFree(p));
	MUST(cuCtxSetCurrent(a));
	MUST(cuMemAlloc(&r, 20 * MIB));
	tell("destroy the context under live memory", cuCtxDestroy(a));
	MUST(cuCtxSetCurrent(b));
	tell("its memory afterwards", cuMemFree(r));
	contents(q, 2);
	tell("free", cuMemFree(q));
	tell("destroy", cuCtxDestroy(b));
	tell("nobody's context", cuMemAlloc(&p, MIB));
}

static void many_contexts(CUdevice device)
{
	int failed = 0;

	for (int i = 0; i < 100; i++) {
		CUcontext context = create(device);
		CUdeviceptr p;

		failed += cuMemAlloc(&p, 4 * MIB) != CUDA_SUCCESS;
		failed += cuMemsetD8(p, 9, 4 * MIB) != CUDA_SUCCESS;
		failed += i % 2 && cuMemFree(p) != CUDA_SUCCESS;
		failed += cuCtxDestroy(context) != CUDA_SUCCESS;
	}
	printf("a hundred contexts, failures: %d\n", failed);
}

static void primary_twice(CUdevice device)
{
	CUcontext one, two;
	CUdeviceptr p;

	MUST(cuDevicePrimaryCtxRetain(&one, device));
	MUST(cuDevicePrimaryCtxRetain(&two, device));
	MUST(cuCtxSetCurrent(one));
	MUST(cuMemAlloc(&p, MIB));
	tell("release once", cuDevicePrimaryCtxRelease(device));
	tell("memory is still there", cuMemsetD8(p, 1, MIB));
	tell("release twice", cuDevicePrimaryCtxRelease(device));
	MUST(cuDevicePrimaryCtxRetain(&one, device));
	MUST(cuCtxSetCurrent(one));
	tell("memory from before", cuMemFree(p));
	tell("new memory", cuMemAlloc(&p, MIB));
	tell("freed", cuMemFree(p));
}

static void two_devices(void)
{
	CUcontext zero, one;
	CUdeviceptr p, q;

	MUST(cuDevicePrimaryCtxRetain(&zero, 0));
	MUST(cuDevicePrimaryCtxRetain(&one, 1));
	MUST(cuCtxSetCurrent(zero));
	MUST(cuMemAlloc(&p, MIB));
	MUST(cuCtxPushCurrent(one));
	MUST(cuMemAlloc(&q, MIB));
	printf("devices %d %d\n", device_of(p), device_of(q));
	tell("free the other device's", cuMemFree(p));
	MUST(cuCtxPopCurrent(NULL));
	tell("and the other way", cuMemFree(q));
	tell("again", cuMemFree(q));
}

int main(void)
{
	int count = 0;

	/* Only the simulated driver reads it, at its first call. */
	setenv("GPUPOOL_SIM", "devices:2", 0);
	if (cuInit(0) != CUDA_SUCCESS)
		return 77;
	MUST(cuDeviceGetCount(&count));
	two_contexts(0);
	many_contexts(0);
	primary_twice(0);
	if (count > 1)
		two_devices();
	return 0;
}
