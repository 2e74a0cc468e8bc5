/*
 * Description: threads with the smallest stack that Python gives a thread
 * allocate, are refused, and free; the first of them is the first that asks
 * for memory at all.
 */
#include <pthread.h>
#include <stdio.h>

#include <cuda.h>

#define STACK (32u << 10)

static CUcontext context;

static void *ask(void *arg)
{
	CUdeviceptr small, large;
	int *failed = arg;

	*failed = cuCtxSetCurrent(context) != CUDA_SUCCESS ||
		  cuMemAlloc(&small, 3u << 20) != CUDA_SUCCESS ||
		  cuMemAlloc(&large, (size_t)1 << 45) !=
			  CUDA_ERROR_OUT_OF_MEMORY ||
		  cuMemFree(small) != CUDA_SUCCESS;
	return NULL;
}

int main(void)
{
	pthread_attr_t attr;
	CUdevice device;
	int failed = 0;

	if (cuInit(0) || cuDeviceGet(&device, 0) ||
	    cuDevicePrimaryCtxRetain(&context, device) ||
	    pthread_attr_init(&attr) || pthread_attr_setstacksize(&attr, STACK))
		return 2;
	for (int i = 0; i < 3 && !failed; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attr, ask, &failed))
			return 2;
		pthread_join(thread, NULL);
	}
	printf("%s\n", failed ? "wrong" : "done");
	return failed;
}
