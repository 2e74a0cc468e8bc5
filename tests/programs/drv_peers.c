/*
 * Description: memory of one card in another's kernels and copies, before and
 * after peer access is enabled and disabled, one line a step: the same with and
 * without the preload. Needs two simulated cards.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#define MIB ((size_t)1 << 20)

static CUcontext contexts[2];
static CUfunction expect[2];

static void on(int device)
{
	if (cuCtxSetCurrent(contexts[device]))
		exit(1);
}

static CUdeviceptr make(int device, size_t bytes, unsigned word)
{
	CUdeviceptr at = 0;

	on(device);
	if (cuMemAlloc(&at, bytes) || cuMemsetD32(at, word, bytes / 4) ||
	    cuCtxSynchronize())
		exit(1);
	return at;
}

/* Card `device` reads it. */
static void look(const char *what, int device, CUdeviceptr at, size_t bytes,
		 unsigned word)
{
	size_t words = bytes / 4;
	void *args[] = {&at, &word, &words};
	CUresult launched, done;

	on(device);
	launched = cuLaunchKernel(expect[device], 1, 1, 1, 1, 1, 1, 0, NULL,
				  args, NULL);
	done = cuCtxSynchronize();
	printf("%s: card %d reads: %d %d\n", what, device, (int)launched,
	       (int)done);
}

static void copy(const char *what, CUdeviceptr to, CUdeviceptr from,
		 size_t bytes)
{
	printf("%s: copy: %d", what, (int)cuMemcpy(to, from, bytes));
	printf(" %d", (int)cuMemcpyDtoD(to, from, bytes));
	printf(" %d\n", (int)cuCtxSynchronize());
}

static void access_flags(const char *what, int device, CUdeviceptr at)
{
	unsigned long long flags = 0;
	CUresult rc;

	on(device);
	rc = cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
				   at);
	printf("%s: card %d may: %d %llu\n", what, device, (int)rc, flags);
}

int main(void)
{
	CUdeviceptr before, after, large, here, old;
	CUmodule module;
	int count = 0;

	if (cuInit(0) || cuDeviceGetCount(&count) || count < 2)
		return 77;
	for (int i = 0; i < 2; i++)
		if (cuDevicePrimaryCtxRetain(&contexts[i], i) ||
		    cuCtxSetCurrent(contexts[i]) ||
		    cuModuleLoadData(&module, "any image will do") ||
		    cuModuleGetFunction(&expect[i], module, "expect32"))
			return 77;
	here = make(0, 3 * MIB, 1);
	before = make(1, 3 * MIB, 2);
	old = make(1, 100 << 10, 9);
	access_flags("at first", 0, before);
	on(0);
	printf("enable: %d\n", (int)cuCtxEnablePeerAccess(contexts[1], 0));
	printf("enable: %d\n", (int)cuCtxEnablePeerAccess(contexts[1], 0));
	printf("enable, flags: %d\n",
	       (int)cuCtxEnablePeerAccess(contexts[1], 1));
	look("before", 0, before, 3 * MIB, 2);
	look("before, small", 0, old, 100 << 10, 9);
	after = make(1, 5 * MIB, 3);
	large = make(1, 200 * MIB, 4);
	look("after", 0, after, 5 * MIB, 3);
	look("after, large", 0, large, 200 * MIB, 4);
	access_flags("enabled", 0, before);
	access_flags("enabled", 1, here);
	on(0);
	copy("to here", here, before, 3 * MIB);
	look("to here", 0, here, 3 * MIB, 2);
	/* Memory that is used again, and moved. */
	on(1);
	cuMemFree(before);
	cuMemFree(large);
	large = make(1, 230 * MIB, 5);
	look("again", 0, large, 230 * MIB, 5);
	on(0);
	printf("disable: %d\n", (int)cuCtxDisablePeerAccess(contexts[1]));
	printf("disable: %d\n", (int)cuCtxDisablePeerAccess(contexts[1]));
	access_flags("disabled", 0, large);
	look("disabled", 1, large, 230 * MIB, 5);
	on(0);
	printf("enable: %d\n", (int)cuCtxEnablePeerAccess(contexts[1], 0));
	look("enabled again", 0, large, 230 * MIB, 5);
	printf("disable: %d\n", (int)cuCtxDisablePeerAccess(contexts[1]));
	/* The last: the context does not survive it. */
	look("disabled", 0, large, 230 * MIB, 5);
	return 0;
}
