/*
 * Description: the simulated driver's memory of graphs: taken at the first launch
 * or at an upload, from a pool of its own; kept for the graph, shared by graphs of
 * one stream, given back by a trim; what a launch leaves allocated; and a launch
 * that finds no more.
 */
#include "tests/sim/simtest.h"

static CUstream s1, s2;
static CUmemoryPool pool;

static uint64_t figure(CUgraphMem_attribute attribute)
{
	uint64_t value = ~0ull;

	NEED(cuDeviceGetGraphMemAttribute(0, attribute, &value));
	return value;
}

#define USED     figure(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)
#define RESERVED figure(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)

static void capture(void)
{
	NEED(cuStreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUgraphExec captured(CUgraph *keep)
{
	CUgraphExec exec = NULL;
	CUgraph graph;

	NEED(cuStreamEndCapture(s1, &graph));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	if (keep)
		*keep = graph;
	else
		NEED(cuGraphDestroy(graph));
	return exec;
}

/* It fills its memory with a word, which is at *out afterwards, and frees it. */
static CUgraphExec filling(size_t bytes, uint32_t word, uint32_t *out)
{
	CUdeviceptr p;

	capture();
	NEED(cuMemAllocAsync(&p, bytes, s1));
	NEED(cuMemsetD32Async(p, word, bytes / 4, s1));
	NEED(cuMemcpyDtoHAsync(out, p + bytes - 4, 4, s1));
	NEED(cuMemFreeAsync(p, s1));
	return captured(NULL);
}

/* It leaves its memory allocated. */
static CUgraphExec leaving(size_t bytes, CUdeviceptr *p, CUgraph *graph)
{
	capture();
	NEED(cuMemAllocAsync(p, bytes, s1));
	NEED(cuMemsetD32Async(*p, 4, bytes / 4, s1));
	return captured(graph);
}

static void trim(void)
{
	NEED(cuCtxSynchronize());
	NEED(cuDeviceGraphMemTrim(0));
	IS(RESERVED, 0);
	IS(USED, 0);
	IS(gpusim_used_bytes(0), 0);
}

static void at_launch(void)
{
	uint32_t word = 0;
	CUgraphExec exec = filling(5 * MIB, 3, &word);
	uint64_t of_pool = 9;

	IS(RESERVED, 0); /* addresses only */
	IS(gpusim_used_bytes(0), 0);
	NEED(cuGraphLaunch(exec, s1));
	IS(RESERVED, 6 * MIB);
	IS(USED, 6 * MIB);
	IS(gpusim_used_bytes(0), 6 * MIB);
	NEED(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
				   &of_pool));
	IS(of_pool, 0);
	NEED(cuStreamSynchronize(s1));
	IS(word, 3);
	word = 0;
	NEED(cuGraphLaunch(exec, s1));
	NEED(cuStreamSynchronize(s1));
	IS(word, 3);
	IS(RESERVED, 6 * MIB); /* kept for it */
	NEED(cuMemPoolTrimTo(pool, 0));
	IS(RESERVED, 6 * MIB);
	NEED(cuGraphExecDestroy(exec));
	IS(USED, 0);
	IS(RESERVED, 6 * MIB);
	trim();
}

static void uploaded(void)
{
	uint32_t word = 0, others = 0;
	CUgraphExec exec = filling(3 * MIB, 5, &word);
	CUgraphExec other = filling(3 * MIB, 6, &others);

	NEED(cuGraphUpload(exec, s1));
	IS(RESERVED, 4 * MIB);
	NEED(cuGraphLaunch(exec, s1));
	NEED(cuStreamSynchronize(s1));
	IS(word, 5);
	IS(RESERVED, 4 * MIB);
	/* A launch that is not done has memory wherever it is uploaded to, and
	 * so has another there. */
	word = 0;
	NEED(sim_test_close(0, s1));
	NEED(sim_test_close(1, s2));
	NEED(cuGraphLaunch(exec, s1));
	NEED(cuGraphLaunch(other, s2));
	NEED(cuGraphUpload(exec, s2));
	NEED(cuDeviceGraphMemTrim(0));
	sim_test_open(0);
	NEED(cuStreamSynchronize(s1));
	IS(word, 5);
	NEED(cuDeviceGraphMemTrim(0));
	sim_test_open(1);
	NEED(cuStreamSynchronize(s2));
	IS(others, 6);
	NEED(cuGraphExecDestroy(exec));
	NEED(cuGraphExecDestroy(other));
	trim();
}

/* Graphs of one stream have it in common; in another they do not. */
static void shared(void)
{
	uint32_t words[2];
	CUgraphExec a = filling(4 * MIB, 1, &words[0]);
	CUgraphExec b = filling(6 * MIB, 2, &words[1]);

	NEED(cuGraphLaunch(a, s1));
	NEED(cuGraphLaunch(b, s1));
	IS(RESERVED, 6 * MIB);
	NEED(cuStreamSynchronize(s1));
	IS(words[0], 1);
	IS(words[1], 2);
	NEED(sim_test_close(0, s1));
	NEED(sim_test_close(1, s2));
	NEED(cuGraphLaunch(a, s1));
	NEED(cuGraphLaunch(b, s2));
	IS(RESERVED, 10 * MIB);
	NEED(cuDeviceGraphMemTrim(0)); /* all is in use */
	IS(RESERVED, 10 * MIB);
	sim_test_open(1);
	NEED(cuStreamSynchronize(s2));
	NEED(cuDeviceGraphMemTrim(0));
	IS(RESERVED, 4 * MIB);
	sim_test_open(0);
	NEED(cuStreamSynchronize(s1));
	NEED(cuGraphLaunch(b, s2)); /* trimmed, it gets it again */
	NEED(cuStreamSynchronize(s2));
	IS(words[1], 2);
	NEED(cuGraphExecDestroy(a));
	NEED(cuGraphExecDestroy(b));
	trim();
}

/* What was freed in a graph has its addresses again in the same graph. */
static void reused(void)
{
	CUdeviceptr p, q, small[3];
	CUgraphExec exec;

	capture();
	NEED(cuMemAllocAsync(&p, 4 * MIB, s1));
	NEED(cuMemsetD8Async(p, 1, 4 * MIB, s1));
	IS(cuMemsetD8Async(p, 1, 4 * MIB + 1, s1), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemFreeAsync(p, s1));
	IS(cuMemFreeAsync(p, s1), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAllocAsync(&q, 4 * MIB, s1));
	HOLDS(p == q);
	NEED(cuMemFreeAsync(q, s1));
	/* Small ones share a page. */
	for (int i = 0; i < 3; i++)
		NEED(cuMemAllocAsync(&small[i], 600 * KIB, s1));
	HOLDS(small[1] > small[0] && small[1] - small[0] < MIB);
	for (int i = 0; i < 3; i++)
		NEED(cuMemFreeAsync(small[i], s1));
	exec = captured(NULL);
	NEED(cuGraphLaunch(exec, s1));
	IS(RESERVED, 6 * MIB);
	IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	NEED(cuGraphExecDestroy(exec));
	trim();
}

static void left_allocated(void)
{
	CUgraphExec exec, other, more;
	CUgraph graph, freeing;
	CUdeviceptr p, q;
	CUgraphNode node;

	exec = leaving(4 * MIB, &p, &graph);
	IS(cuGraphInstantiate(&other, graph, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemFreeAsync(p, s1), CUDA_ERROR_INVALID_VALUE); /* not yet */
	NEED(cuGraphLaunch(exec, s1));
	NEED(cuStreamSynchronize(s1));
	IS(sim_test_word(p), 4);
	IS(cuGraphLaunch(exec, s1), CUDA_ERROR_INVALID_VALUE);
	/* Nobody else gets it. */
	other = leaving(4 * MIB, &q, NULL);
	NEED(cuGraphLaunch(other, s1));
	IS(RESERVED, 8 * MIB);
	NEED(cuDeviceGraphMemTrim(0));
	IS(RESERVED, 8 * MIB);
	IS(cuMemFree(q), 0);
	IS(cuMemFree(q), CUDA_ERROR_INVALID_VALUE);
	NEED(cuGraphExecDestroy(other));
	/* A free in a stream counts when it is reached. */
	NEED(sim_test_close(0, s1));
	IS(cuMemFreeAsync(p, s1), 0);
	NEED(cuStreamSynchronize(s2));
	NEED(cuDeviceGraphMemTrim(0));
	IS(RESERVED, 4 * MIB);
	NEED(cuGraphLaunch(exec, s1)); /* behind the free */
	IS(RESERVED, 4 * MIB);
	sim_test_open(0);
	NEED(cuStreamSynchronize(s1));
	IS(sim_test_word(p), 4);
	/* A node of another graph may free it, and the graph may be gone. */
	NEED(cuGraphExecDestroy(exec));
	NEED(cuGraphDestroy(graph));
	IS(sim_test_word(p), 4);
	NEED(cuGraphCreate(&freeing, 0));
	NEED(cuGraphAddMemFreeNode(&node, freeing, NULL, 0, p));
	NEED(cuGraphInstantiate(&more, freeing, 0));
	NEED(cuGraphLaunch(more, s2));
	NEED(cuStreamSynchronize(s2));
	IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	NEED(cuGraphExecDestroy(more));
	NEED(cuGraphDestroy(freeing));
	trim();
}

static void freed_on_launch(void)
{
	CUgraphExec exec;
	CUgraph graph;
	CUdeviceptr p;

	capture();
	NEED(cuMemAllocAsync(&p, MIB, s1));
	NEED(cuStreamEndCapture(s1, &graph));
	NEED(cuGraphInstantiate(
		&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	for (int i = 0; i < 3; i++)
		NEED(cuGraphLaunch(exec, s1));
	IS(RESERVED, 2 * MIB);
	NEED(cuMemFreeAsync(p, s1));
	NEED(cuGraphExecDestroy(exec));
	NEED(cuGraphDestroy(graph));
	trim();
}

/* Nodes made by hand say what they are. */
static void nodes(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS
	params =
		{
			.poolProps =
				{.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location =
					 {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
			.bytesize = 3 * MIB,
		},
	told = {0};
	CUgraphNode alloc, freeing;
	CUgraphNodeType type;
	CUdeviceptr freed = 0;
	CUgraphExec exec;
	CUgraph graph;

	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
	HOLDS(params.dptr);
	NEED(cuGraphAddMemFreeNode(&freeing, graph, &alloc, 1, params.dptr));
	IS(cuGraphAddMemFreeNode(&freeing, graph, &alloc, 1, params.dptr),
	   CUDA_ERROR_INVALID_VALUE);
	NEED(cuGraphNodeGetType(alloc, &type));
	IS(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	NEED(cuGraphNodeGetType(freeing, &type));
	IS(type, CU_GRAPH_NODE_TYPE_MEM_FREE);
	NEED(cuGraphMemAllocNodeGetParams(alloc, &told));
	HOLDS(told.dptr == params.dptr && told.bytesize == 3 * MIB);
	IS(cuGraphMemAllocNodeGetParams(freeing, &told),
	   CUDA_ERROR_INVALID_VALUE);
	NEED(cuGraphMemFreeNodeGetParams(freeing, &freed));
	HOLDS(freed == params.dptr);
	NEED(cuGraphInstantiate(&exec, graph, 0));
	NEED(cuGraphDestroy(graph));
	NEED(cuGraphLaunch(exec, s1));
	IS(RESERVED, 4 * MIB);
	NEED(cuGraphExecDestroy(exec));
	trim();
}

/* The card has no room: the launch says so, and all is as it was. */
static void no_room(void)
{
	uint64_t all = GIB - gpusim_context_bytes(0), zero = 0, one = 1;
	uint32_t word = 0;
	CUgraphExec big = filling(all - 10 * MIB, 1, &word);
	CUgraphExec small = filling(16 * MIB, 2, &word);
	CUdeviceptr p;

	NEED(cuGraphLaunch(big, s1));
	NEED(cuStreamSynchronize(s1));
	/* Idle, it makes way for another graph, but for nobody else. */
	IS(cuMemAlloc(&p, 16 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	NEED(cuGraphLaunch(small, s2));
	NEED(cuStreamSynchronize(s2));
	IS(word, 2);
	IS(RESERVED, 16 * MIB);
	NEED(cuMemAlloc(&p, 16 * MIB));
	IS(cuGraphLaunch(big, s1), CUDA_ERROR_OUT_OF_MEMORY);
	NEED(cuGraphLaunch(small, s2));
	NEED(cuStreamSynchronize(s2));
	IS(figure(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), all - 10 * MIB);
	IS(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
					&one),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuDeviceSetGraphMemAttribute(
		   0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &zero),
	   CUDA_ERROR_INVALID_VALUE);
	NEED(cuDeviceSetGraphMemAttribute(
		0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero));
	IS(figure(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 16 * MIB);
	NEED(cuMemFree(p));
	NEED(cuGraphExecDestroy(big));
	NEED(cuGraphExecDestroy(small));
	trim();
}

/* A context takes its allocations with it, the last one of the device all. */
static void with_its_context(void)
{
	uint32_t word;
	CUcontext own;
	CUgraphExec exec;
	CUstream before = s1;
	CUdeviceptr p;

	NEED(cuCtxCreate(&own, NULL, 0, 0));
	NEED(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
	exec = leaving(4 * MIB, &p, NULL);
	NEED(cuGraphLaunch(exec, s1));
	IS(RESERVED, 4 * MIB);
	NEED(cuCtxDestroy(own));
	IS(RESERVED, 4 * MIB);
	s1 = before;
	NEED(cuGraphExecDestroy(exec));
	IS(USED, 0);
	exec = filling(2 * MIB, 1, &word);
	NEED(cuGraphLaunch(exec, s1));
	IS(RESERVED, 4 * MIB);
	NEED(cuGraphExecDestroy(exec));
	NEED(cuDevicePrimaryCtxReset(0));
	IS(RESERVED, 0);
}

int main(void)
{
	sim_test_begin("memory:1GiB");
	NEED(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
	NEED(cuDeviceGetDefaultMemPool(&pool, 0));
	at_launch();
	uploaded();
	shared();
	reused();
	left_allocated();
	freed_on_launch();
	nodes();
	no_room();
	with_its_context();
	return sim_test_end();
}
