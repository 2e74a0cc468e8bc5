/*
 * Description: the simulated driver's devices and contexts: several devices,
 * primary and own contexts, peers, per-thread default streams, what a reset
 * ends, use before cuInit, and fork.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/simtest.h"

static void before_init(void)
{
	CUdeviceptr p;
	int version = 0, count;

	IS(cuDriverGetVersion(&version), 0);
	IS(version, CUDA_VERSION);
	IS(cuMemAlloc(&p, 512), CUDA_ERROR_NOT_INITIALIZED);
	IS(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	IS(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	IS(gpusim_self_lookup(), -1);
	NEED(cuInit(0));
	IS(gpusim_self_lookup(), 1);
	IS(cuInit(0), 0);
	IS(cuMemAlloc(&p, 512), CUDA_ERROR_INVALID_CONTEXT);
	IS(cuMemFree(16), CUDA_ERROR_INVALID_VALUE);
}

static void devices(void)
{
	CUuuid a, b;
	CUdevice dev;
	char name[64], id[16];
	size_t total;
	int n, can;

	IS(cuDeviceGetCount(&n), 0);
	IS(n, 2);
	IS(cuDeviceGet(&dev, 2), CUDA_ERROR_INVALID_DEVICE);
	IS(cuDeviceGetName(name, sizeof(name), 0), 0);
	IS(cuDeviceTotalMem(&total, 1), 0);
	IS(total, GIB);
	IS(cuDeviceGetUuid(&a, 0), 0);
	IS(cuDeviceGetUuid(&b, 1), 0);
	HOLDS(memcmp(&a, &b, sizeof(a)));
	IS(cuDeviceGetPCIBusId(id, sizeof(id), 1), 0);
	IS(cuDeviceGetByPCIBusId(&dev, id), 0);
	IS(dev, 1);
	IS(cuDeviceCanAccessPeer(&can, 0, 1), 0);
	IS(can, 1);
	IS(cuDeviceGetAttribute(
		   &can,
		   CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
	   0);
	IS(can, 1);
}

static void primary(void)
{
	CUcontext a, b;
	CUdeviceptr p;
	unsigned flags;
	int active;

	IS(cuDevicePrimaryCtxGetState(0, &flags, &active), 0);
	IS(active, 0);
	NEED(cuDevicePrimaryCtxRetain(&a, 0));
	NEED(cuDevicePrimaryCtxRetain(&b, 0));
	HOLDS(a == b);
	HOLDS(gpusim_context_bytes(0) > 0);
	IS(gpusim_context_bytes(1), 0);
	NEED(cuCtxSetCurrent(a));
	NEED(cuMemAlloc(&p, 4 * MIB));
	NEED(cuDevicePrimaryCtxRelease(0));
	IS(gpusim_used_bytes(0), 4 * MIB);
	NEED(cuDevicePrimaryCtxRelease(0)); /* the last one frees all */
	IS(gpusim_used_bytes(0), 0);
	IS(gpusim_context_bytes(0), 0);
	IS(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
	IS(cuMemAlloc(&p, 512), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	NEED(cuDevicePrimaryCtxRetain(&a, 0));
	HOLDS(a == b); /* current again */
	IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAlloc(&p, 512));
	NEED(cuDevicePrimaryCtxReset(0));
	NEED(cuDevicePrimaryCtxRetain(&a, 0));
	IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}

static void own_contexts(void)
{
	CUcontext primary_ctx, ctx, now;
	CUstream stream;
	CUdeviceptr p;
	CUevent event;
	CUdevice dev;

	NEED(cuDevicePrimaryCtxRetain(&primary_ctx, 0));
	NEED(cuCtxSetCurrent(primary_ctx));
	IS(cuCtxDestroy(primary_ctx), CUDA_ERROR_INVALID_CONTEXT);
#if CUDA_VERSION >= 13000
	NEED(cuCtxCreate(&ctx, NULL, 0, 1));
#else
	NEED(cuCtxCreate(&ctx, 0, 1));
#endif
	NEED(cuCtxGetCurrent(&now));
	HOLDS(now == ctx);
	IS(cuCtxGetDevice(&dev), 0);
	IS(dev, 1);
	NEED(cuStreamCreate(&stream, 0));
	NEED(cuEventCreate(&event, 0));
	NEED(cuMemAlloc(&p, MIB));
	NEED(cuCtxPopCurrent(&now));
	IS(cuCtxGetDevice(&dev), 0);
	IS(dev, 0);
	IS(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE);
	NEED(cuCtxPushCurrent(ctx));
	NEED(sim_test_spin(stream, 20000));
	NEED(cuCtxDestroy(ctx)); /* waits, frees, and is current no more */
	IS(gpusim_used_bytes(1), 0);
	IS(gpusim_pending(), 0);
	NEED(cuCtxGetCurrent(&now));
	HOLDS(now == primary_ctx);
	IS(cuCtxDestroy(ctx), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	IS(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
	IS(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
	IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	IS(cuCtxSetCurrent((CUcontext)&ctx), CUDA_ERROR_INVALID_CONTEXT);
}

static void peers(void)
{
	CUcontext c0, c1;
	CUfunction fill;
	CUdeviceptr p0, p1;
	unsigned value = 4;
	size_t n = 1;
	void *args[] = {&p1, &value, &n};

	NEED(cuDevicePrimaryCtxRetain(&c0, 0));
	NEED(cuDevicePrimaryCtxRetain(&c1, 1));
	NEED(cuCtxSetCurrent(c1));
	NEED(cuMemAlloc(&p1, 512));
	NEED(cuCtxSetCurrent(c0));
	NEED(cuMemAlloc(&p0, 512));
	NEED(cuMemsetD32(p0, 3, 1));
	IS(cuMemcpyPeer(p1, c1, p0, c0, 4), 0);
	IS(sim_test_word(p1), 3);
	IS(cuMemcpyDtoD(p0 + 8, p1, 4), 0); /* plain memory, both ways */
	IS(sim_test_word(p0 + 8), 3);
	IS(cuCtxEnablePeerAccess(c0, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	IS(cuCtxDisablePeerAccess(c1), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	NEED(cuCtxEnablePeerAccess(c1, 0));
	IS(cuCtxEnablePeerAccess(c1, 0),
	   CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	fill = sim_test_kernel("fill32");
	NEED(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	IS(sim_test_word(p1), 4);
	NEED(cuMemFree(p1)); /* of another device, from here */
	IS(gpusim_used_bytes(1), 0);
	NEED(cuMemFree(p0));
}

/* Virtual memory of one card is no other's without access. */
static void peer_vmm(void)
{
	CUmemAllocationProp prop = {0};
	CUmemAccessDesc desc[2] = {{{0}, 0}};
	CUmemGenericAllocationHandle h;
	CUdeviceptr va, p0;
	CUcontext c0, c1;

	NEED(cuDevicePrimaryCtxRetain(&c0, 0));
	NEED(cuDevicePrimaryCtxRetain(&c1, 1));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = 1;
	for (int i = 0; i < 2; i++) {
		desc[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		desc[i].location.id = i;
		desc[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	}
	NEED(cuMemAlloc(&p0, 512));
	NEED(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
	NEED(cuMemCreate(&h, 2 * MIB, &prop, 0));
	IS(gpusim_used_bytes(1), 2 * MIB);
	NEED(cuMemMap(va, 2 * MIB, 0, h, 0));
	NEED(cuMemSetAccess(va, 2 * MIB, &desc[1], 1));
	IS(cuMemcpy(p0, va, 4), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemcpyPeer(p0, c0, va, c1, 4), 0);
	NEED(cuMemSetAccess(va, 2 * MIB, desc, 2));
	IS(cuMemcpy(p0, va, 4), 0);
	NEED(cuMemUnmap(va, 2 * MIB));
	NEED(cuMemRelease(h));
	NEED(cuMemAddressFree(va, 2 * MIB));
	NEED(cuMemFree(p0));
}

static void *own_default(void *arg)
{
	CUdeviceptr p = *(CUdeviceptr *)arg;
	CUcontext ctx;

	NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
	NEED(cuCtxSetCurrent(ctx));
	/* not behind the other thread's default stream */
	NEED(cuMemsetD32Async(p, 5, 1, CU_STREAM_PER_THREAD));
	NEED(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	return NULL;
}

static void per_thread(void)
{
	pthread_t thread;
	CUdeviceptr p;

	NEED(cuMemAlloc(&p, 512));
	NEED(sim_test_close(0, CU_STREAM_PER_THREAD));
	NEED(pthread_create(&thread, NULL, own_default, &p));
	NEED(pthread_join(thread, NULL));
	IS(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
	/* the legacy stream waits for it */
	NEED(cuMemsetD32Async(p, 6, 1, CU_STREAM_LEGACY));
	IS(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
	sim_test_open(0);
	NEED(cuStreamSynchronize(CU_STREAM_LEGACY));
	IS(cuStreamQuery(CU_STREAM_PER_THREAD), 0);
	IS(sim_test_word(p), 6);
	NEED(cuMemFree(p));
}

/* The child of a process that used the driver gets nothing from it. */
static void forked(void)
{
	int status = 0, version;
	CUdeviceptr p;
	CUcontext ctx;
	pid_t pid = fork();

	if (!pid) {
		bool good =
			cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
			cuMemAlloc(&p, 512) == CUDA_ERROR_NOT_INITIALIZED &&
			cuCtxGetCurrent(&ctx) == CUDA_ERROR_NOT_INITIALIZED &&
			cuDriverGetVersion(&version) == CUDA_SUCCESS;

		_exit(good ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	IS(status, 0);
	IS(cuCtxSynchronize(), 0);
}

static void errors(void)
{
	const char *text = NULL;

	IS(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text), 0);
	HOLDS(!strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY"));
	IS(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text), 0);
	HOLDS(!strcmp(text, "out of memory"));
	IS(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	HOLDS(!text);
}

int main(void)
{
	setenv("GPUPOOL_SIM", "devices:2,memory:1GiB", 1);
	before_init();
	devices();
	primary();
	own_contexts();
	peers();
	peer_vmm();
	per_thread();
	forked();
	errors();
	return sim_test_end();
}
