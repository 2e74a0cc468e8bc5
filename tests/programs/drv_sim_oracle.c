/*
 * The order oracle objects to what is wrong, and to nothing else: each case is
 * a process of its own that plays a program and a careless library.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/simtest.h"

static CUstream one, two;
static CUfunction fill, expect;
static CUdeviceptr memory;

static CUresult launch(CUfunction f, CUstream stream, uint32_t value)
{
	CUdeviceptr at = memory;
	size_t words = 16;
	void *args[] = {&at, &value, &words};
	CUresult rc;

	gpusim_call_begin(GPUSIM_WORKS);
	rc = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
	gpusim_call_end();
	return rc;
}

static void begin(void)
{
	sim_test_begin("schedule:3,memory:256MiB");
	fill = sim_test_kernel("fill32");
	expect = sim_test_kernel("expect32");
	NEED(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAlloc(&memory, 4096));
	gpusim_tenant_begin(memory, 4096);
}

static void finish(void)
{
	gpusim_call_begin(GPUSIM_WAITS);
	NEED(cuCtxSynchronize());
	gpusim_call_end();
}

/* The second stream after the first, by an event of the program's or of the
 * library's. */
static void order_streams(bool program)
{
	CUevent event;

	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	if (program)
		gpusim_own_event(event);
	NEED(cuEventRecord(event, one));
	NEED(cuStreamWaitEvent(two, event, 0));
}

/* A free that neither waits nor orders anything. */
static void careless_free(enum gpusim_call kind)
{
	gpusim_call_begin(kind);
	gpusim_tenant_end(memory);
	gpusim_call_end();
	gpusim_tenant_begin(memory, 4096);
}

static void right_order(void)
{
	NEED(launch(fill, one, 1));
	order_streams(true);
	NEED(launch(expect, two, 1));
}

static void order_by_free(void)
{
	NEED(launch(fill, one, 1));
	careless_free(GPUSIM_FREES);
	order_streams(false);
	NEED(launch(fill, two, 2));
}

static void no_order_for_memory(void)
{
	NEED(launch(fill, one, 1));
	careless_free(GPUSIM_FREES_OWN);
	NEED(launch(fill, two, 2));
}

static void no_order_by_free(void)
{
	NEED(launch(fill, one, 1));
	gpusim_call_begin(GPUSIM_FREES);
	gpusim_call_end();
	NEED(launch(expect, two, 1));
}

static void too_much_order(void)
{
	NEED(launch(fill, one, 1));
	order_streams(false);
	NEED(launch(fill, two, 2));
}

static void result_too_early(void)
{
	uint32_t *pinned;

	NEED(cuMemHostAlloc((void **)&pinned, 64, 0));
	NEED(launch(fill, one, 1));
	gpusim_call_begin(GPUSIM_WORKS);
	NEED(cuMemcpyDtoHAsync(pinned, memory, 64, one));
	gpusim_call_end();
	careless_free(GPUSIM_FREES);
}

static void wait_without_need(void)
{
	NEED(sim_test_close(0, one));
	gpusim_call_begin(GPUSIM_WORKS);
	NEED(cuStreamSynchronize(one));
	gpusim_call_end();
}

static void deadlock(void)
{
	NEED(sim_test_close(0, one));
}

/* Work that nobody waits for is done at some time, too. */
static void let_all_run(CUstream own)
{
	CUdeviceptr other;

	NEED(cuMemAlloc(&other, 512));
	for (int i = 0; i < 100; i++) {
		gpusim_call_begin(GPUSIM_WAITS);
		NEED(cuMemsetD8Async(other, 0, 1, own));
		NEED(cuStreamSynchronize(own));
		gpusim_call_end();
	}
}

/* Memory of a pool, last used in `stream`, comes back in the first one's order,
 * and is handed out again for a third. */
static void free_in_order(CUstream stream)
{
	cuuint64_t keep = UINT64_MAX;
	CUdeviceptr before;
	CUmemoryPool pool;
	CUstream third;

	NEED(cuDeviceGetDefaultMemPool(&pool, 0));
	NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				   &keep));
	NEED(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAllocAsync(&memory, 4096, one));
	NEED(cuStreamSynchronize(one));
	gpusim_tenant_begin(memory, 4096);
	NEED(launch(fill, stream, 1));
	let_all_run(third);
	gpusim_call_begin(GPUSIM_FREES_OWN);
	gpusim_tenant_end(memory);
	NEED(cuMemFreeAsync(memory, one));
	gpusim_call_end();
	let_all_run(third);
	before = memory;
	NEED(cuMemAllocAsync(&memory, 4096, third));
	NEED(cuStreamSynchronize(third));
	IS(memory, before);
	gpusim_expect_idle();
	gpusim_tenant_begin(memory, 4096);
	NEED(launch(fill, third, 2));
}

static void order_by_pool(void)
{
	free_in_order(one);
}

static void no_order_for_pool(void)
{
	free_in_order(two);
}

static void unmapped(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	NEED(cuMemAddressReserve(&memory, 2 * MIB, 0, 0, 0));
	NEED(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	NEED(cuMemMap(memory, 2 * MIB, 0, handle, 0));
	NEED(cuMemSetAccess(memory, 2 * MIB, &access, 1));
	NEED(launch(fill, one, 1));
	NEED(cuMemUnmap(memory, 2 * MIB));
}

static void wrong_contents(void)
{
	NEED(launch(fill, one, 1));
	NEED(launch(expect, one, 2));
}

/* A graph that allocates, fills and frees; launched into both streams. */
static void memory_of_graph(void)
{
	CUgraphExec exec;
	CUgraph graph;

	NEED(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
	NEED(cuMemAllocAsync(&memory, 3 * MIB, one));
	NEED(launch(fill, one, 1));
	NEED(launch(expect, one, 1));
	NEED(cuMemFreeAsync(memory, one));
	NEED(cuStreamEndCapture(one, &graph));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 4; i++) {
		gpusim_call_begin(GPUSIM_WORKS);
		NEED(cuGraphLaunch(exec, i < 2 ? one : two));
		gpusim_call_end();
	}
}

/* It has no memory there before it is launched, and after a trim. */
static void graph_not_launched(void)
{
	CUgraph graph;

	NEED(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
	NEED(cuMemAllocAsync(&memory, 3 * MIB, one));
	NEED(cuStreamEndCapture(one, &graph));
	NEED(launch(fill, two, 1));
}

static void graph_trimmed(void)
{
	memory_of_graph();
	finish();
	NEED(cuDeviceGraphMemTrim(0));
	NEED(launch(fill, two, 1));
}

static int run(void (*body)(void))
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		/* An objection is long; only that there is one counts here. */
		if (!freopen("/dev/null", "w", stderr))
			exit(1);
		begin();
		body();
		finish();
		exit(sim_test_failures ? 1 : 0);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	IS(run(right_order), 0);
	IS(run(order_by_free), 0);
	IS(run(no_order_for_memory), GPUSIM_OBJECTS);
	IS(run(no_order_by_free), GPUSIM_OBJECTS);
	IS(run(too_much_order), GPUSIM_OBJECTS);
	IS(run(result_too_early), GPUSIM_OBJECTS);
	IS(run(wait_without_need), GPUSIM_OBJECTS);
	IS(run(deadlock), GPUSIM_OBJECTS);
	IS(run(order_by_pool), 0);
	IS(run(no_order_for_pool), GPUSIM_OBJECTS);
	IS(run(unmapped), GPUSIM_OBJECTS);
	IS(run(wrong_contents), GPUSIM_OBJECTS);
	IS(run(memory_of_graph), 0);
	IS(run(graph_not_launched), GPUSIM_OBJECTS);
	IS(run(graph_trimmed), GPUSIM_OBJECTS);
	return sim_test_end();
}
