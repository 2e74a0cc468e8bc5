/*
 * Description: the simulated driver's green contexts: streams apart from the
 * primary context's, memory and events in common, what waits for them, what they
 * retain, and what is left when one is destroyed.
 */
#include "tests/sim/simtest.h"

#if CUDA_VERSION >= 12050
static CUcontext primary;

static CUgreenCtx create(CUcontext *context)
{
	CUdevResourceDesc desc;
	CUdevResource sms;
	CUgreenCtx green;

	NEED(cuDeviceGetDevResource(0, &sms, CU_DEV_RESOURCE_TYPE_SM));
	NEED(cuDevResourceGenerateDesc(&desc, &sms, 1));
	IS(cuGreenCtxCreate(&green, desc, 0, 0), CUDA_ERROR_INVALID_VALUE);
	NEED(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	NEED(cuCtxFromGreenCtx(context, green));
	return green;
}

static void handles(void)
{
	CUstream named, made;
	CUcontext context, got;
	CUgreenCtx green = create(&context), of;
	CUdevice dev = 9;

	HOLDS(context != primary);
	IS(cuGreenCtxStreamCreate(&named, green, 0, 0),
	   CUDA_ERROR_INVALID_VALUE);
	NEED(cuGreenCtxStreamCreate(&named, green, CU_STREAM_NON_BLOCKING, 0));
	NEED(cuCtxPushCurrent(context));
	NEED(cuCtxGetCurrent(&got));
	HOLDS(got == context);
	NEED(cuCtxGetDevice(&dev));
	IS(dev, 0);
	NEED(cuStreamCreate(&made, 0));
	IS(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
	NEED(cuCtxPopCurrent(&got));
	NEED(cuStreamGetCtx(named, &got));
	HOLDS(got == context);
	NEED(cuStreamGetCtx_v2(made, &got, &of));
	HOLDS(got == primary && of == green);
	IS(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
	NEED(cuStreamDestroy(named));
	NEED(cuStreamDestroy(made));
	NEED(cuGreenCtxDestroy(green));
	IS(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
	NEED(cuCtxPushCurrent(context));
	IS(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	NEED(cuCtxPopCurrent(&got));
}

/* Its streams and the default ones are in no order, but by events. */
static void order(void)
{
	CUcontext context, popped;
	CUgreenCtx green = create(&context);
	CUdeviceptr p;
	CUstream s;
	CUevent e;

	NEED(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
	NEED(cuMemAlloc(&p, 512));
	NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	NEED(sim_test_close(0, s));
	NEED(cuEventRecord(e, s));
	NEED(cuMemsetD32Async(p, 5, 1, NULL)); /* the primary one's */
	NEED(cuStreamSynchronize(NULL));
	NEED(cuCtxPushCurrent(context));
	NEED(cuMemsetD32Async(p, 6, 1, NULL)); /* its own */
	NEED(cuStreamSynchronize(NULL));
	IS(sim_test_word(p), 6);
	NEED(cuStreamWaitEvent(NULL, e, 0));
	IS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	NEED(cuCtxPopCurrent(&popped));
	NEED(cuStreamQuery(NULL));
	sim_test_open(0);
	NEED(cuCtxSynchronize()); /* waits for green ones, too */
	NEED(cuStreamQuery(s));
	/* The other way round it does not. */
	NEED(sim_test_close(0, NULL));
	NEED(cuCtxPushCurrent(context));
	NEED(cuCtxSynchronize());
	NEED(cuCtxPopCurrent(&popped));
	IS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	sim_test_open(0);
	NEED(cuMemFree(p));
	NEED(cuEventDestroy(e));
	NEED(cuStreamDestroy(s));
	NEED(cuGreenCtxDestroy(green));
}

/* A stream that is left behind goes on, and nobody reaches it. */
static void left_behind(void)
{
	CUcontext context;
	CUgreenCtx green = create(&context);
	CUdeviceptr p;
	CUstream s;

	NEED(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
	NEED(cuMemAlloc(&p, 512));
	NEED(cuMemsetD32(p, 1, 1));
	NEED(sim_test_close(0, s));
	NEED(cuMemsetD32Async(p, 2, 1, s));
	NEED(cuGreenCtxDestroy(green));
	HOLDS(cuStreamQuery(s) != CUDA_SUCCESS);
	HOLDS(cuMemsetD32Async(p, 3, 1, s) != CUDA_SUCCESS);
	IS(cuStreamDestroy(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	IS(sim_test_word(p), 1);
	sim_test_open(0);
	NEED(cuCtxSynchronize());
	IS(sim_test_word(p), 2);
	NEED(cuMemFree(p));
}

static void retained(void)
{
	CUcontext context;
	CUgreenCtx green = create(&context);
	unsigned flags;
	int active;

	NEED(cuDevicePrimaryCtxRelease(0));
	NEED(cuDevicePrimaryCtxGetState(0, &flags, &active));
	IS(active, 1);
	NEED(cuGreenCtxDestroy(green));
	NEED(cuDevicePrimaryCtxGetState(0, &flags, &active));
	IS(active, 0);
	green = create(&context); /* makes it anew */
	NEED(cuDevicePrimaryCtxReset(0));
	NEED(cuCtxSetCurrent(context));
	IS(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	NEED(cuGreenCtxDestroy(green));
}

int main(void)
{
	primary = sim_test_begin("memory:1GiB");
	handles();
	order();
	left_behind();
	retained();
	return sim_test_end();
}
#else
int main(void)
{
	return 77;
}
#endif
