/* Captures and graphs. */
#include <pthread.h>

#include "tests/soak/soak.h"

/* Held for reading in every operation, for writing during a Global capture:
 * with one of those, other threads' allocations fail, as they should. */
static pthread_rwlock_t all_calls = PTHREAD_RWLOCK_INITIALIZER;

/* Held for reading during any capture. */
static pthread_rwlock_t captures = PTHREAD_RWLOCK_INITIALIZER;

void synchronize(struct thread *t)
{
	if (pthread_rwlock_trywrlock(&captures))
		return;
	GOOD(t, cuCtxSynchronize());
	pthread_rwlock_unlock(&captures);
}

void calls_begin(void)
{
	pthread_rwlock_rdlock(&all_calls);
}

void calls_end(void)
{
	pthread_rwlock_unlock(&all_calls);
}

static void add_kernel(struct thread *t, struct block *b, uint32_t n)
{
	size_t words = b->bytes / 4;
	void *args[] = {&b->at, &n, &words};

	GOOD(t, cuLaunchKernel(t->lane->add, 1, 1, 1, 1, 1, 1, 0, t->streams[0],
			       args, NULL));
}

/* Memory of the graph's own: true: it has some. */
static bool add_memory(struct thread *t)
{
	CUdeviceptr p;

	if (below(t, 3) ||
	    !GOT(t, cuMemAllocAsync(&p, 4 + below(t, MIB), t->streams[0])))
		return false;
	GOOD(t, cuMemsetD8Async(p, 1, 4, t->streams[0]));
	GOOD(t, cuMemFreeAsync(p, t->streams[0]));
	return true;
}

static void launch(struct thread *t, struct block *b, CUgraph graph,
		   bool memory, uint32_t word)
{
	unsigned times = 1 + (unsigned)below(t, 4);
	CUgraphExec exec;
	bool ran = true;

	if (!GOT(t, cuGraphInstantiate(&exec, graph, 0)))
		return;
	for (unsigned i = 0; i < times && ran; i++) {
		CUresult rc = cuGraphLaunch(exec, t->streams[0]);

		ran = memory ? got(t, rc, "cuGraphLaunch") : true;
		if (!memory)
			good(t, rc, "cuGraphLaunch");
		if (ran)
			b->word = word;
	}
	if (below(t, 2))
		verify(t, b);
	GOOD(t, cuStreamSynchronize(t->streams[0]));
	GOOD(t, cuGraphExecDestroy(exec));
	/* Else the driver keeps it, which no other process can ask for. */
	if (memory && below(t, 4))
		GOOD(t, cuDeviceGraphMemTrim(t->lane->device));
}

/* A capture of sets and kernels; perhaps one that dies of an allocation. */
static void capture(struct thread *t, struct block *b, CUstreamCaptureMode mode)
{
	uint32_t word = (uint32_t)next_random(&t->rng), more = 77;
	bool memory, alive = true;
	CUgraph graph = NULL;
	CUdeviceptr p = 0;
	CUresult rc;

	GOOD(t, cuStreamBeginCapture(t->streams[0], mode));
	GOOD(t, cuMemsetD32Async(b->at, word, b->bytes / 4, t->streams[0]));
	memory = add_memory(t);
	add_kernel(t, b, more);
	if (!below(t, 4)) {
		rc = cuMemAlloc(&p, draw_size(t));
		if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
			alive = false;
			if (rc != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
				wrong(t, "alloc in a capture: %d", (int)rc);
		} else if (got(t, rc, "alloc in a relaxed capture")) {
			GOOD(t, cuMemFree(p));
		}
	}
	rc = cuStreamEndCapture(t->streams[0], &graph);
	if (!alive && rc != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
		wrong(t, "end of a dead capture: %d", (int)rc);
	if (alive) {
		good(t, rc, "cuStreamEndCapture");
		launch(t, b, graph, memory, word + more);
		GOOD(t, cuGraphDestroy(graph));
	}
}

/* On a non-blocking stream, so that others may use the legacy one. Called with
 * the lock; what is done under Global is done alone. */
void op_graph(struct thread *t)
{
	struct block **b = draw_block(t);
	CUstreamCaptureMode mode = below(t, 2)
					   ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
					   : CU_STREAM_CAPTURE_MODE_RELAXED;
	bool alone = !below(t, 4);

	if (!b || (*b)->fixed)
		return;
	order(t, *b, t->streams[0]);
	if (pthread_rwlock_tryrdlock(&captures))
		return;
	if (!alone)
		capture(t, *b, mode);
	pthread_rwlock_unlock(&captures);
	if (!alone)
		return;
	calls_end();
	if (!pthread_rwlock_trywrlock(&all_calls)) {
		capture(t, *b, CU_STREAM_CAPTURE_MODE_GLOBAL);
		pthread_rwlock_unlock(&all_calls);
	}
	calls_begin();
}
