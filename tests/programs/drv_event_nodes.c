/*
 * Description: an event is recorded behind a kernel that still runs, then once
 * more by a graph, or by a launch in another stream, and waited for. That says
 * nothing of the kernel: memory that it uses is freed, and what comes into the
 * same place is not overwritten by it. Only where frees do not wait: else it waits
 * for ever.
 *
 *   drv_event_nodes preloaded
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include "tests/support/must.h"

#define WORDS ((size_t)1 << 18)
#define BYTES (WORDS * 4)

static CUfunction fill32, await32;
static CUstream slow, fast;
static CUevent event;

static CUgraphExec of(CUgraph graph)
{
	CUgraphExec exec;

	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static CUgraphExec by_node(void)
{
	CUgraphNode node;
	CUgraph graph;

	MUST(cuGraphCreate(&graph, 0));
	MUST(cuGraphAddEventRecordNode(&node, graph, NULL, 0, event));
	return of(graph);
}

static CUgraphExec captured(void)
{
	CUgraph graph;

	MUST(cuStreamBeginCapture(fast, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuEventRecordWithFlags(event, fast, CU_EVENT_RECORD_EXTERNAL));
	MUST(cuStreamEndCapture(fast, &graph));
	return of(graph);
}

static void launch(CUfunction f, CUstream stream, void **args)
{
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static void fill(CUdeviceptr at, unsigned value, CUstream stream)
{
	size_t words = WORDS;
	void *args[] = {&at, &value, &words};

	launch(fill32, stream, args);
}

static unsigned first(CUdeviceptr at)
{
	unsigned word = 0;

	MUST(cuMemcpyDtoH(&word, at, sizeof(word)));
	return word;
}

/* Plainly the free would wait for the host: it is preloaded. */
static void waits(const char *what, CUgraphExec exec, unsigned *go)
{
	CUdeviceptr word = (CUdeviceptr)(size_t)go, at, again;
	unsigned one = 1;
	void *args[] = {&word, &one};

	*(volatile unsigned *)go = 0;
	MUST(cuMemAlloc(&at, BYTES));
	launch(await32, slow, args);
	fill(at, 7, slow);
	MUST(cuEventRecord(event, slow));
	MUST(cuGraphLaunch(exec, fast));
	MUST(cuEventSynchronize(event));
	MUST(cuMemFree(at));
	MUST(cuMemAlloc(&again, BYTES));
	fill(again, 9, fast);
	printf("%s: the same memory: %d, ", what, again == at);
	*(volatile unsigned *)go = 1;
	MUST(cuCtxSynchronize());
	printf("read %u\n", first(again));
	MUST(cuMemFree(again));
}

int main(int argc, char **argv)
{
	CUgraphExec node, capture;
	CUcontext context;
	CUmodule module;
	void *go;

	(void)argv;
	if (argc < 2 || cuInit(0))
		return 77; /* test_order.py runs it */
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, "any image will do"));
	MUST(cuModuleGetFunction(&fill32, module, "fill32"));
	MUST(cuModuleGetFunction(&await32, module, "await32"));
	MUST(cuStreamCreate(&slow, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&fast, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAllocHost(&go, 4096));

	MUST(cuEventCreate(&event, 0));
	node = by_node();
	waits("a node", node, go);
	MUST(cuGraphExecDestroy(node));
	MUST(cuEventDestroy(event));

	MUST(cuEventCreate(&event, 0));
	capture = captured();
	waits("a captured record", capture, go);
	return 0;
}
