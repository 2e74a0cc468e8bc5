/*
 * Description: the simulated driver's stream capture and graphs: what is
 * captured and replayed, what a capture forbids to whom in which mode, how
 * streams join, and how a broken capture ends.
 */
#include <pthread.h>

#include "tests/sim/simtest.h"

static CUstream s1, s2, free_running;
static CUdeviceptr memory;

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
					    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
					    CU_STREAM_CAPTURE_MODE_RELAXED};

static bool capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	NEED(cuStreamIsCapturing(stream, &status));
	return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult end(CUstream stream)
{
	CUgraph graph = NULL;
	CUresult err = cuStreamEndCapture(stream, &graph);

	if (graph)
		NEED(cuGraphDestroy(graph));
	else
		HOLDS(err);
	return err;
}

/* Set, copy and kernel, captured over two streams, run at each launch. */
static void replay(void)
{
	CUfunction add = sim_test_kernel("add32");
	CUdeviceptr to = memory + 4096;
	unsigned one = 1;
	size_t n = 4, count = 0;
	void *args[] = {&memory, &one, &n};
	CUevent fork, join;
	CUgraphExec exec;
	CUgraph graph;

	NEED(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	NEED(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	NEED(cuMemsetD32(memory, 100, 4));
	NEED(cuMemsetD32(to, 0, 4));
	NEED(cuCtxSynchronize());
	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, s1, args, NULL));
	NEED(cuEventRecord(fork, s1));
	HOLDS(!capturing(s2));
	NEED(cuStreamWaitEvent(s2, fork, 0));
	HOLDS(capturing(s2));
	NEED(cuMemcpyDtoDAsync(to, memory, 16, s2));
	NEED(cuEventRecord(join, s2));
	NEED(cuMemsetD32Async(memory + 64, 5, 1, s1));
	NEED(cuStreamWaitEvent(s1, join, 0));
	NEED(cuStreamEndCapture(s1, &graph));
	HOLDS(!capturing(s1) && !capturing(s2));
	IS(cuGraphGetNodes(graph, NULL, &count), 0);
	IS(count, 3);
	IS(sim_test_word(memory), 100); /* nothing ran */
	NEED(cuGraphInstantiate(&exec, graph, 0));
	NEED(cuGraphDestroy(graph));
	for (unsigned i = 1; i <= 3; i++) {
		NEED(cuGraphLaunch(exec, s2));
		NEED(cuStreamSynchronize(s2));
		IS(sim_test_word(to), 100 + i);
	}
	IS(sim_test_word(memory + 64), 5);
	NEED(sim_test_spin(s2, 20000));
	NEED(cuGraphLaunch(exec, s2));
	NEED(cuGraphExecDestroy(exec)); /* before it ran */
	NEED(cuStreamSynchronize(s2));
	IS(sim_test_word(to), 104);
	NEED(cuEventDestroy(fork));
	NEED(cuEventDestroy(join));
}

/* What an unsafe call answers while s1 captures, and how the capture ends. */
static void unsafe(CUstreamCaptureMode mode, CUstreamCaptureMode thread_mode)
{
	bool allowed = mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
		       thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult want =
		allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	CUresult ended =
		allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	CUstreamCaptureMode old = thread_mode;
	CUdeviceptr p, q;
	CUevent event;

	NEED(cuEventCreate(&event, 0));
	NEED(cuMemAlloc(&p, 512));
	NEED(cuThreadExchangeStreamCaptureMode(&old));
	NEED(cuStreamBeginCapture(s1, mode));
	IS(cuMemAlloc(&q, 512), want);
	IS(end(s1), ended);
	NEED(cuStreamBeginCapture(s1, mode));
	IS(cuMemFree(p), want);
	IS(end(s1), ended);
	NEED(cuStreamBeginCapture(s1, mode));
	IS(cuEventQuery(event), want);
	IS(cuMemsetD32Async(memory, 1, 1, s1),
	   allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	IS(end(s1), ended);
	NEED(cuThreadExchangeStreamCaptureMode(&old));
	if (allowed)
		NEED(cuMemFree(q));
	else
		NEED(cuMemFree(p));
	NEED(cuEventDestroy(event));
}

/* Virtual memory is allowed in every mode. */
static void virtual_memory(CUstreamCaptureMode mode)
{
	CUmemAllocationProp prop = {0};
	CUmemAccessDesc desc = {0};
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	desc.location = prop.location;
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	NEED(cuStreamBeginCapture(s1, mode));
	IS(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0), 0);
	IS(cuMemCreate(&h, 2 * MIB, &prop, 0), 0);
	IS(cuMemMap(va, 2 * MIB, 0, h, 0), 0);
	IS(cuMemSetAccess(va, 2 * MIB, &desc, 1), 0);
	IS(cuMemUnmap(va, 2 * MIB), 0);
	IS(cuMemRelease(h), 0);
	IS(cuMemAddressFree(va, 2 * MIB), 0);
	IS(end(s1), 0);
}

/* To ask for a stream's flags or number breaks its capture, whoever asks; the
 * other questions do not. */
static void asking(void)
{
	unsigned long long id;
	unsigned flags;
	CUcontext ctx;
	int priority;

	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuStreamGetFlags(s2, &flags), 0);
	IS(cuStreamGetPriority(s1, &priority), 0);
	IS(cuStreamGetCtx(s1, &ctx), 0);
	IS(cuStreamGetFlags(s1, &flags), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuStreamGetId(s1, &id), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* Waiting for a capture breaks it; so does the legacy stream, which would
 * have to wait for a blocking one. */
static void waiting(void)
{
	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuStreamSynchronize(s1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuStreamSynchronize(s2), 0);
	IS(cuMemsetD32Async(memory, 1, 1, NULL),
	   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuStreamBeginCapture(free_running,
				  CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuMemsetD32Async(memory, 1, 1, NULL), 0);
	IS(end(free_running), 0);
	IS(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
	   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	IS(end(s1), CUDA_ERROR_ILLEGAL_STATE);
}

static void joining(void)
{
	CUevent event, outside;
	CUgraph graph;

	NEED(cuEventCreate(&event, 0));
	NEED(cuEventCreate(&outside, 0));
	NEED(cuEventRecord(outside, s2));
	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED),
	   CUDA_ERROR_ILLEGAL_STATE);
	NEED(cuEventRecord(event, s1));
	IS(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
	NEED(cuStreamWaitEvent(s2, event, 0));
	NEED(cuMemsetD32Async(memory, 1, 1, s2));
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	HOLDS(!capturing(s2));

	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	NEED(cuEventRecord(event, s1));
	NEED(cuStreamWaitEvent(s2, event, 0));
	IS(cuStreamEndCapture(s2, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuStreamWaitEvent(s1, outside, 0),
	   CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	NEED(cuStreamBeginCapture(s2, CU_STREAM_CAPTURE_MODE_RELAXED));
	NEED(cuEventRecord(event, s1));
	IS(cuStreamWaitEvent(s2, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	IS(end(s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	IS(end(s2), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	NEED(cuEventDestroy(event));
	NEED(cuEventDestroy(outside));
}

struct visitor {
	CUcontext ctx;
	CUresult alloc, end;
};

static void *visit(void *arg)
{
	struct visitor *v = arg;
	CUdeviceptr p = 0;
	CUgraph graph;

	NEED(cuCtxSetCurrent(v->ctx));
	v->alloc = cuMemAlloc(&p, 512);
	v->end = cuStreamEndCapture(s1, &graph);
	if (p)
		NEED(cuMemFree(p));
	return NULL;
}

/* Another thread is in the way of a global capture only. */
static void threads(CUcontext ctx, CUstreamCaptureMode mode, CUresult alloc)
{
	struct visitor v = {.ctx = ctx};
	pthread_t thread;

	NEED(cuStreamBeginCapture(s1, mode));
	NEED(pthread_create(&thread, NULL, visit, &v));
	NEED(pthread_join(thread, NULL));
	IS(v.alloc, alloc);
	IS(v.end, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	IS(end(s1), alloc ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : 0);
}

static void CUDA_CB count(void *arg)
{
	++*(int *)arg;
}

/* Host functions and stream-ordered memory in a graph. */
static void more_nodes(void)
{
	CUgraphExec exec;
	CUdeviceptr p;
	CUgraph graph;
	int calls = 0;

	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(cuMemAllocAsync(&p, 4096, s1));
	NEED(cuMemsetD32Async(p, 12, 1024, s1));
	NEED(cuMemcpyDtoDAsync(memory, p, 4096, s1));
	NEED(cuMemFreeAsync(p, s1));
	NEED(cuLaunchHostFunc(s1, count, &calls));
	NEED(cuStreamEndCapture(s1, &graph));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	NEED(cuGraphDestroy(graph));
	NEED(cuGraphLaunch(exec, s1));
	NEED(cuGraphLaunch(exec, s1));
	NEED(cuStreamSynchronize(s1));
	IS(calls, 2);
	IS(sim_test_word(memory + 4092), 12);
	NEED(cuGraphExecDestroy(exec));
}

static CUresult capture_info(CUstreamCaptureStatus *status, cuuint64_t *id,
			     CUgraph *graph, const CUgraphNode **deps,
			     size_t *n)
{
#if CUDA_VERSION >= 13000
	return cuStreamGetCaptureInfo(s1, status, id, graph, deps, NULL, n);
#else
	return cuStreamGetCaptureInfo_v2(s1, status, id, graph, deps, n);
#endif
}

static void info(void)
{
	CUstreamCaptureStatus status;
	const CUgraphNode *deps;
	cuuint64_t id = 0;
	CUgraph graph;
	size_t n = 9;

	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(capture_info(&status, &id, &graph, &deps, &n), 0);
	IS(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	IS(n, 0);
	HOLDS(id);
	NEED(cuMemsetD32Async(memory, 1, 1, s1));
	IS(capture_info(&status, &id, &graph, &deps, &n), 0);
	IS(n, 1);
	IS(end(s1), 0);
}

int main(void)
{
	CUcontext ctx = sim_test_begin("memory:1GiB");
	uint64_t used;

	NEED(cuStreamCreate(&s1, CU_STREAM_DEFAULT));
	NEED(cuStreamCreate(&s2, CU_STREAM_DEFAULT));
	NEED(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAlloc(&memory, MIB));
	used = gpusim_used_bytes(0);
	replay();
	for (int i = 0; i < 3; i++) {
		unsafe(modes[i], CU_STREAM_CAPTURE_MODE_GLOBAL);
		unsafe(modes[i], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
		unsafe(modes[i], CU_STREAM_CAPTURE_MODE_RELAXED);
		virtual_memory(modes[i]);
	}
	asking();
	waiting();
	joining();
	threads(ctx, CU_STREAM_CAPTURE_MODE_GLOBAL,
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	threads(ctx, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_SUCCESS);
	more_nodes();
	info();
	NEED(cuCtxSynchronize());
	NEED(cuDeviceGraphMemTrim(0));
	IS(gpusim_used_bytes(0), used);
	return sim_test_end();
}
