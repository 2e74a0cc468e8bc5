/*
 * Description: one thread launches a graph into a stream, again and again;
 * another frees memory that is in use and reuses it in that stream. The driver
 * loses a wait that is put into a stream during a launch (launch_us, and
 * tests/gpu/programs/graph_wait.cu), so none may be put there then.
 */
#include <pthread.h>
#include <unistd.h>

#include "tests/sim/simtest.h"

#define ROUNDS 40
#define WORDS  ((size_t)1 << 18)

static CUcontext context;
static CUstream stream, other;
static CUgraphExec exec;
static int over; /* atomic */

static void *launches(void *launched)
{
	NEED(cuCtxSetCurrent(context));
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		NEED(cuGraphLaunch(exec, stream));
		++*(long *)launched;
		usleep(200);
	}
	return NULL;
}

static void fill(CUfunction f, CUdeviceptr at, uint32_t value, CUstream to)
{
	size_t words = WORDS;
	void *args[] = {&at, &value, &words};

	NEED(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, to, args, NULL));
}

/* The block is written late in one stream, freed, and written in the other by
 * who gets it next. */
static void reuse(CUfunction f, CUfunction spin)
{
	uint32_t us = 3000, seen = 0;
	void *args[] = {&us};
	CUdeviceptr p;

	NEED(cuMemAlloc(&p, WORDS * 4));
	NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, other, args, NULL));
	fill(f, p, 1, other);
	NEED(cuMemFree(p));
	NEED(cuMemAlloc(&p, WORDS * 4));
	fill(f, p, 2, stream);
	NEED(cuStreamSynchronize(other));
	NEED(cuStreamSynchronize(stream));
	NEED(cuMemcpyDtoH(&seen, p, sizeof(seen)));
	IS(seen, 2);
	NEED(cuMemFree(p));
}

int main(void)
{
	CUfunction f, spin;
	long launched = 0;
	pthread_t thread;
	CUgraph graph;

	context = sim_test_begin("memory:256MiB,launch_us:2000");
	f = sim_test_kernel("fill32");
	spin = sim_test_kernel("spin");
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	NEED(pthread_create(&thread, NULL, launches, &launched));
	for (int i = 0; i < ROUNDS; i++)
		reuse(f, spin);
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	NEED(pthread_join(thread, NULL));
	HOLDS(launched > 0);
	return sim_test_end();
}
