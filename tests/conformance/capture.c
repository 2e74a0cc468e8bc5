/* What may be called while a stream captures, in each mode; and whether the
 * capture lives on. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "conformance.h"

static cudaStream_t stream, other; /* the first captures */
static char *held, *spare;         /* of 64 KiB, 40 MiB */
static cudaEvent_t event;

static cudaError_t alloc_hit(void)
{
	void *p;
	cudaError_t rc = cudaMalloc(&p, 64 * KIB);

	return rc ? rc : cudaFree(p);
}

static cudaError_t alloc_miss(void)
{
	void *p;
	cudaError_t rc = cudaMalloc(&p, 96 * MIB);

	return rc ? rc : cudaFree(p);
}

static cudaError_t alloc_nothing(void)
{
	void *p;

	return cudaMalloc(&p, 0);
}

static cudaError_t alloc_too_much(void)
{
	void *p;

	return cudaMalloc(&p, (size_t)1 << 46);
}

static cudaError_t alloc_pitch(void)
{
	size_t step;
	void *p;
	cudaError_t rc = cudaMallocPitch(&p, &step, 100, 3);

	return rc ? rc : cudaFree(p);
}

static cudaError_t alloc_managed(void)
{
	void *p;
	cudaError_t rc = cudaMallocManaged(&p, 4 * KIB, cudaMemAttachGlobal);

	return rc ? rc : cudaFree(p);
}

static cudaError_t alloc_host(void)
{
	void *p;
	cudaError_t rc = cudaMallocHost(&p, 4 * KIB);

	return rc ? rc : cudaFreeHost(p);
}

static cudaError_t free_one(void)
{
	cudaError_t rc = cudaFree(held);

	if (!rc)
		held = NULL;
	return rc;
}

static cudaError_t free_large(void)
{
	cudaError_t rc = cudaFree(spare);

	if (!rc)
		spare = NULL;
	return rc;
}

static cudaError_t free_null(void)
{
	return cudaFree(NULL);
}

static cudaError_t free_bad(void)
{
	return cudaFree((void *)16);
}

static cudaError_t free_interior(void)
{
	return cudaFree(held + 512);
}

static cudaError_t driver_alloc(void)
{
	CUdeviceptr p;
	CUresult rc = cuMemAlloc(&p, 64 * KIB);

	return (cudaError_t)(rc ? rc : cuMemFree(p));
}

static cudaError_t driver_free(void)
{
	CUresult rc = cuMemFree((CUdeviceptr)held);

	if (!rc)
		held = NULL;
	return (cudaError_t)rc;
}

static cudaError_t memory_info(void)
{
	size_t left, total;

	return cudaMemGetInfo(&left, &total);
}

static cudaError_t attributes(void)
{
	struct cudaPointerAttributes got;

	return cudaPointerGetAttributes(&got, held);
}

static cudaError_t range(void)
{
	CUdeviceptr base;
	size_t size;

	return (cudaError_t)cuMemGetAddressRange(&base, &size,
						 (CUdeviceptr)held);
}

static cudaError_t async_pair(void)
{
	void *p;
	cudaError_t rc = cudaMallocAsync(&p, 4 * KIB, stream);

	return rc ? rc : cudaFreeAsync(p, stream);
}

static cudaError_t async_elsewhere(void)
{
	void *p;
	cudaError_t rc = cudaMallocAsync(&p, 4 * KIB, other);

	return rc ? rc : cudaFreeAsync(p, other);
}

static cudaError_t free_async_elsewhere(void)
{
	cudaError_t rc = cudaFreeAsync(held, other);

	if (!rc)
		held = NULL;
	return rc;
}

static cudaError_t free_async(void)
{
	cudaError_t rc = cudaFreeAsync(held, stream);

	if (!rc)
		held = NULL;
	return rc;
}

static cudaError_t query_event(void)
{
	return cudaEventQuery(event);
}

static cudaError_t query_other(void)
{
	return cudaStreamQuery(other);
}

static cudaError_t query_own(void)
{
	return cudaStreamQuery(stream);
}

static cudaError_t query_legacy(void)
{
	return cudaStreamQuery(NULL);
}

static cudaError_t wait_all(void)
{
	return cudaDeviceSynchronize();
}

static cudaError_t copy(void)
{
	char byte;

	return cudaMemcpy(&byte, spare, 1, cudaMemcpyDeviceToHost);
}

static cudaError_t set_elsewhere(void)
{
	return cudaMemsetAsync(spare, 0, 16, other);
}

static cudaError_t relaxed_alloc(void)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	cudaError_t rc = cudaThreadExchangeStreamCaptureMode(&mode);

	if (!rc)
		rc = alloc_hit();
	cudaThreadExchangeStreamCaptureMode(&mode);
	return rc;
}

static void *in_thread(void *arg)
{
	*(cudaError_t *)arg = alloc_hit();
	cudaGetLastError();
	return NULL;
}

static cudaError_t thread_alloc(void)
{
	cudaError_t rc = cudaErrorUnknown;
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, &rc))
		exit(1);
	pthread_join(thread, NULL);
	return rc;
}

static const struct {
	const char *name;
	cudaError_t (*call)(void);
} calls[] = {{"nothing", NULL},
	     {"alloc, pooled", alloc_hit},
	     {"alloc, new", alloc_miss},
	     {"alloc 0", alloc_nothing},
	     {"alloc too much", alloc_too_much},
	     {"alloc pitch", alloc_pitch},
	     {"alloc managed", alloc_managed},
	     {"alloc host", alloc_host},
	     {"alloc in another thread", thread_alloc},
	     {"alloc while relaxed", relaxed_alloc},
	     {"free", free_one},
	     {"free large", free_large},
	     {"free NULL", free_null},
	     {"free 16", free_bad},
	     {"free its middle", free_interior},
	     {"driver: alloc", driver_alloc},
	     {"driver: free", driver_free},
	     {"memory info", memory_info},
	     {"attributes", attributes},
	     {"range", range},
	     {"async pair", async_pair},
	     {"async pair elsewhere", async_elsewhere},
	     {"free async elsewhere", free_async_elsewhere},
	     {"free async", free_async},
	     {"query an event", query_event},
	     {"query another stream", query_other},
	     {"query its own", query_own},
	     {"query the default", query_legacy},
	     {"wait for all", wait_all},
	     {"copy", copy},
	     {"set elsewhere", set_elsewhere}};

static void prepare(void)
{
	if (!held)
		held = device_block(64 * KIB);
	if (!spare)
		spare = device_block(40 * MIB);
	need_rt(cudaDeviceSynchronize());
	cudaGetLastError();
}

static void one(const char *name, cudaError_t (*call)(void),
		enum cudaStreamCaptureMode mode)
{
	enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	cudaGraphExec_t exec = NULL;
	cudaGraph_t graph = NULL;

	prepare();
	tell_prefix("%s", name);
	need_rt(cudaStreamBeginCapture(stream, mode));
	need_rt(cudaMemsetAsync(spare, 1, MIB, stream));
	if (call)
		tell_rt("call", call());
	tell_rt("status", cudaStreamIsCapturing(stream, &status));
	tell_value("capturing", (long long)status);
	tell_rt("end", cudaStreamEndCapture(stream, &graph));
	tell_value("graph", graph != NULL);
	if (graph && spare) {
		tell_rt("instantiate",
			cudaGraphInstantiateWithFlags(&exec, graph, 0));
		tell_rt("launch", cudaGraphLaunch(exec, stream));
		tell_rt("wait", cudaStreamSynchronize(stream));
		cudaGraphExecDestroy(exec);
	}
	if (graph)
		tell_rt("destroy", cudaGraphDestroy(graph));
	tell_rt("query", cudaStreamQuery(stream));
	tell_prefix(NULL);
}

static void captures(enum cudaStreamCaptureMode mode)
{
	warm(64 * KIB);
	need_rt(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	need_rt(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	need_rt(cudaEventCreateWithFlags(&event, cudaEventDefault));
	need_rt(cudaEventRecord(event, other));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		one(calls[i].name, calls[i].call, mode);
}

static void global(void)
{
	captures(cudaStreamCaptureModeGlobal);
}

static void of_thread(void)
{
	captures(cudaStreamCaptureModeThreadLocal);
}

static void relaxed(void)
{
	captures(cudaStreamCaptureModeRelaxed);
}

const struct section capture_sections[] = {{"capture-global", global},
					   {"capture-thread", of_thread},
					   {"capture-relaxed", relaxed},
					   {NULL, NULL}};
