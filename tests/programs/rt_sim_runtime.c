/*
 * Description: the simulated runtime: it starts by itself, keeps the last
 * error, follows cudaSetDevice and cudaDeviceReset, and passes memory, copies,
 * streams, events and graphs on to the driver.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

static int failures;

static void is(long got, long want, const char *what, int line)
{
	if (got == want)
		return;
	printf("line %d: %s is %ld, not %ld\n", line, what, got, want);
	failures++;
}

#define IS(expr, want) is((long)(expr), (long)(want), #expr, __LINE__)

static void last_error(void)
{
	void *p;

	IS(cudaGetLastError(), cudaSuccess);
	IS(cudaMalloc(&p, (size_t)1 << 46), cudaErrorMemoryAllocation);
	IS(cudaMalloc(&p, 512), cudaSuccess);
	IS(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
	IS(cudaGetLastError(), cudaErrorMemoryAllocation);
	IS(cudaGetLastError(), cudaSuccess);
	IS(cudaFree((char *)p + 1), cudaErrorInvalidValue);
	IS(cudaFree(p), cudaSuccess);
	IS(cudaGetLastError(), cudaErrorInvalidValue);
	IS(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation),
		  "cudaErrorMemoryAllocation"),
	   0);
	IS(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation),
		  "out of memory"),
	   0);
}

static void memory(void)
{
	struct cudaPointerAttributes attr;
	size_t free_bytes, total, pitch;
	unsigned char host[64], *pinned;
	char *p, *q;

	IS(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
	IS(total, 1 << 30);
	p = (char *)host;
	IS(cudaMalloc((void **)&p, 0), cudaSuccess);
	IS(p == NULL, 1);
	IS(cudaFree(NULL), cudaSuccess);
	IS(cudaMallocPitch((void **)&p, &pitch, 10, 4), cudaSuccess);
	IS(cudaMemset2D(p, pitch, 3, 10, 4), cudaSuccess);
	IS(cudaMemcpy2D(host, 16, p, pitch, 10, 4, cudaMemcpyDeviceToHost),
	   cudaSuccess);
	IS(host[3 * 16 + 9], 3);
	IS(cudaMemcpy2D(host, 8, p, pitch, 10, 4, cudaMemcpyDeviceToHost),
	   cudaErrorInvalidPitchValue);
	IS(cudaFree(p), cudaSuccess);
	IS(cudaMallocHost((void **)&pinned, 4096), cudaSuccess);
	IS(cudaMalloc((void **)&p, 4096), cudaSuccess);
	IS(cudaMemset(p, 7, 4096), cudaSuccess);
	IS(cudaMemcpyAsync(pinned, p, 4096, cudaMemcpyDefault, 0), cudaSuccess);
	IS(cudaDeviceSynchronize(), cudaSuccess);
	IS(pinned[4095], 7);
	IS(cudaMemcpy(p, p, 1, (enum cudaMemcpyKind)9),
	   cudaErrorInvalidMemcpyDirection);
	IS(cudaPointerGetAttributes(&attr, p), cudaSuccess);
	IS(attr.type, cudaMemoryTypeDevice);
	IS(attr.devicePointer == p, 1);
	IS(cudaPointerGetAttributes(&attr, pinned), cudaSuccess);
	IS(attr.type, cudaMemoryTypeHost);
	IS(cudaPointerGetAttributes(&attr, host), cudaSuccess);
	IS(attr.type, cudaMemoryTypeUnregistered);
	IS(cudaFreeHost(pinned), cudaSuccess);
	IS(cudaMallocAsync((void **)&q, 4096, 0), cudaSuccess);
	IS(cudaFree(q), cudaSuccess);
	IS(cudaFreeAsync(p, 0), cudaSuccess);
	IS(cudaDeviceSynchronize(), cudaSuccess);
	IS(cudaFree(p), cudaErrorInvalidValue);
	IS(cudaMallocManaged((void **)&p, 4096, cudaMemAttachGlobal),
	   cudaSuccess);
	IS(cudaMemset(p, 9, 4096), cudaSuccess);
	IS(cudaDeviceSynchronize(), cudaSuccess);
	IS(p[4095], 9);
	IS(cudaPointerGetAttributes(&attr, p), cudaSuccess);
	IS(attr.type, cudaMemoryTypeManaged);
	IS(cudaFree(p), cudaSuccess);
}

static void arrays(void)
{
	struct cudaChannelFormatDesc desc = {32, 0, 0, 0,
					     cudaChannelFormatKindFloat};
	struct cudaExtent extent = {8, 8, 8};
	struct cudaPitchedPtr pitched;
	cudaArray_t array;

	IS(cudaMallocArray(&array, &desc, 100, 100, 0), cudaSuccess);
	IS(cudaFreeArray(array), cudaSuccess);
	IS(cudaMalloc3DArray(&array, &desc, extent, 0), cudaSuccess);
	IS(cudaFreeArray(array), cudaSuccess);
	IS(cudaMalloc3D(&pitched, extent), cudaSuccess);
	IS(pitched.pitch % 512, 0);
	IS(cudaFree(pitched.ptr), cudaSuccess);
}

static void graphs(void)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	enum cudaStreamCaptureStatus status;
	cudaGraphExec_t exec;
	unsigned char host = 0;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaEvent_t event;
	char *p, *q;

	IS(cudaStreamCreate(&stream), cudaSuccess);
	IS(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
	   cudaSuccess);
	IS(cudaMalloc((void **)&p, 512), cudaSuccess);
	IS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
	   cudaSuccess);
	IS(cudaStreamIsCapturing(stream, &status), cudaSuccess);
	IS(status, cudaStreamCaptureStatusActive);
	IS(cudaMemsetAsync(p, 5, 512, stream), cudaSuccess);
	IS(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
	IS(mode, cudaStreamCaptureModeGlobal);
	IS(cudaMalloc((void **)&q, 512), cudaSuccess);
	IS(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
	IS(cudaStreamEndCapture(stream, &graph), cudaSuccess);
	IS(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
	IS(cudaGraphLaunch(exec, stream), cudaSuccess);
	IS(cudaEventRecord(event, stream), cudaSuccess);
	IS(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
	IS(cudaEventSynchronize(event), cudaSuccess);
	IS(cudaMemcpy(&host, p + 511, 1, cudaMemcpyDeviceToHost), cudaSuccess);
	IS(host, 5);
	IS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
	   cudaSuccess);
	IS(cudaFree(q), cudaErrorStreamCaptureUnsupported);
	IS(cudaStreamEndCapture(stream, &graph),
	   cudaErrorStreamCaptureInvalidated);
	IS(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
	IS(cudaGraphExecDestroy(exec), cudaSuccess);
	IS(cudaFree(q), cudaSuccess);
	IS(cudaFree(p), cudaSuccess);
	IS(cudaEventDestroy(event), cudaSuccess);
	IS(cudaStreamDestroy(stream), cudaSuccess);
}

static void *other_thread(void *arg)
{
	int device = -1;
	void *p;

	(void)arg;
	IS(cudaGetLastError(), cudaSuccess); /* not this thread's */
	IS(cudaGetDevice(&device), cudaSuccess);
	IS(device, 0); /* nor is the other's device */
	IS(cudaMalloc(&p, 512), cudaSuccess);
	IS(cudaFree(p), cudaSuccess);
	return NULL;
}

static void devices(void)
{
	struct cudaDeviceProp prop;
	pthread_t thread;
	int n = 0, device;
	char *a, *b;

	IS(cudaGetDeviceCount(&n), cudaSuccess);
	IS(n, 2);
	IS(cudaSetDevice(2), cudaErrorInvalidDevice);
	IS(cudaGetDeviceProperties(&prop, 1), cudaSuccess);
	IS(prop.totalGlobalMem, 1 << 30);
	IS(prop.major, 9);
	IS(cudaMalloc((void **)&a, 512), cudaSuccess);
	IS(cudaMemset(a, 1, 512), cudaSuccess);
	IS(cudaSetDevice(1), cudaSuccess);
	IS(cudaMalloc((void **)&b, 512), cudaSuccess);
	IS(cudaMemcpyPeer(b, 1, a, 0, 512), cudaSuccess);
	IS(pthread_create(&thread, NULL, other_thread, NULL), 0);
	IS(pthread_join(thread, NULL), 0);
	IS(cudaGetDevice(&device), cudaSuccess);
	IS(device, 1);
	IS(cudaDeviceReset(), cudaSuccess);
	IS(cudaFree(b), cudaErrorInvalidValue);
	IS(cudaFree(a), cudaSuccess); /* device 0 was not reset */
	IS(cudaMalloc((void **)&b, 512), cudaSuccess);
	IS(cudaFree(b), cudaSuccess);
	IS(cudaGetDevice(&device), cudaSuccess);
	IS(device, 1);
}

/* The runtime works in the context that is current, whatever device it would
 * have chosen. */
static void others_context(void)
{
	CUcontext context, current = NULL;
	unsigned flags;
	int active = 1;
	void *p;

	IS(cuInit(0), CUDA_SUCCESS);
#if CUDA_VERSION >= 13000
	IS(cuCtxCreate(&context, NULL, 0, 1), CUDA_SUCCESS);
#else
	IS(cuCtxCreate(&context, 0, 1), CUDA_SUCCESS);
#endif
	IS(cudaMalloc(&p, 512), cudaSuccess);
	IS(cudaMemset(p, 1, 512), cudaSuccess);
	IS(cuCtxGetCurrent(&current), CUDA_SUCCESS);
	IS(current == context, 1);
	IS(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
	IS(active, 0);
	IS(cudaFree(p), cudaSuccess);
	IS(cuCtxDestroy(context), CUDA_SUCCESS);
}

int main(void)
{
	int version = 0;

	setenv("GPUPOOL_SIM", "memory:1GiB,devices:2", 1);
	IS(cudaRuntimeGetVersion(&version), cudaSuccess);
	IS(version, CUDART_VERSION);
	IS(cudaDriverGetVersion(&version), cudaSuccess);
	IS(version >= 11000, 1);
	others_context();
	last_error();
	memory();
	arrays();
	graphs();
	devices();
	return failures ? 1 : 0;
}
