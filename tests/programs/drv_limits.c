/*
 * Description: threads that take and give memory of every kind at random, in
 * contexts of their own and in the primary one, while captures begin and end, and
 * graphs with memory of their own are launched again and again.
 * Looks after each step whether the card had more in use than the device is said
 * to have, and in the end whether as much can be had again as in the beginning.
 *
 * The first capture in a context begins while there is room for what gpupool
 * waits with in captures. That may go beyond the limit where there was none.
 *
 *   drv_limits [SEED [STEPS [THREADS [KIND]]]]    KIND: none but that
 *
 * Only with the simulator, which is asked for the card's peak.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "tests/support/must.h"

#define MIB         (1ull << 20)
#define PIECE       (2 * MIB)
#define MAX_BLOCKS  24
#define MAX_THREADS 64

enum kind {
	PLAIN,
	ASYNC,
	POOL,
	MANAGED,
	ARRAY,
	MIPMAP,
	OWN,
	MAPPED,
	GRAPH,
	NUM_KINDS
};
static const char *const names[] = {"plain",   "async",  "pool",
				    "managed", "array",  "mipmap",
				    "own",     "mapped", "graph"};

#define GRAPH_ALLOCS 3

/* An instance of one with memory: some is freed in it, some is left. */
struct graph {
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr left[GRAPH_ALLOCS];
	int num_left;
};

struct block {
	enum kind kind;
	uint64_t handle;
	size_t bytes;
};

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t random;
	CUstream stream; /* of the context that is current */
	CUstream graphs; /* of that, too: captures of graphs, and launches */
	CUcontext own;   /* current then; NULL: the primary one is */
	CUstream captured;
	bool had_capture; /* the context that is current */
	CUmemoryPool pool;
	struct block blocks[MAX_BLOCKS];
	int num_blocks;
};

static CUcontext primary;
static uint64_t cap;
static uint64_t (*peak)(int device);
static int steps = 200;
static enum kind only = NUM_KINDS;
static bool exceeded; /* atomic */
/* Held for writing where nobody else may take memory. */
static pthread_rwlock_t takers = PTHREAD_RWLOCK_INITIALIZER;

static unsigned draw(struct worker *w, unsigned below)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(w->random >> 33) % below;
}

static void look(const struct worker *w, const char *step, size_t bytes)
{
	uint64_t most = peak(0);

	if (most <= cap ||
	    __atomic_exchange_n(&exceeded, true, __ATOMIC_RELAXED))
		return;
	printf("%llu KiB of %llu, after %s of %zu by thread %u\n",
	       (unsigned long long)most >> 10, (unsigned long long)cap >> 10,
	       step, bytes, w->number);
}

/* ---- memory --------------------------------------------------------------------- */

static size_t draw_size(struct worker *w)
{
	static const size_t sizes[] = {1,       4096,        100000,  1 * MIB,
				       1100000, 2 * MIB,     3 * MIB, 4 * MIB,
				       5000000, 2 * MIB + 1, 6 * MIB, 11 * MIB};

	return sizes[draw(w, sizeof(sizes) / sizeof(*sizes))];
}

static CUresult make(CUmemGenericAllocationHandle *handle, size_t *bytes)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};

	*bytes = (*bytes + PIECE - 1) / PIECE * PIECE;
	return cuMemCreate(handle, *bytes, &prop, 0);
}

/* Its handle is released, the mapping keeps it. */
static CUresult make_mapped(CUdeviceptr *va, size_t *bytes)
{
	CUmemGenericAllocationHandle handle;
	CUresult rc = make(&handle, bytes);

	if (rc != CUDA_SUCCESS)
		return rc;
	must(cuMemAddressReserve(va, *bytes, 0, 0, 0), "reserve");
	rc = cuMemMap(*va, *bytes, 0, handle, 0);
	must(cuMemRelease(handle), "release");
	if (rc != CUDA_SUCCESS)
		must(cuMemAddressFree(*va, *bytes), "unreserve");
	return rc;
}

/* ---- graphs ----------------------------------------------------------------------- */

static CUresult capture_memory(struct worker *w, struct graph *g, size_t bytes)
{
	int n = 1 + (int)draw(w, GRAPH_ALLOCS);
	CUresult rc = CUDA_SUCCESS;
	CUdeviceptr p;

	for (int i = 0; i < n; i++) {
		rc = cuMemAllocAsync(&p, bytes, w->graphs);
		if (rc != CUDA_SUCCESS)
			break;
		must(cuMemsetD8Async(p, 1, bytes, w->graphs), "set");
		if (draw(w, 3))
			must(cuMemFreeAsync(p, w->graphs), "free in a graph");
		else
			g->left[g->num_left++] = p;
		bytes = draw_size(w);
	}
	return rc;
}

/* Frees what it left. False: it has not been launched. */
static bool free_left(struct worker *w, struct graph *g)
{
	CUresult rc = CUDA_SUCCESS;

	for (int i = 0; i < g->num_left && rc == CUDA_SUCCESS; i++) {
		rc = draw(w, 2) ? cuMemFree(g->left[i])
				: cuMemFreeAsync(g->left[i], w->stream);
		if (rc != CUDA_ERROR_INVALID_VALUE)
			must(rc, "left by a graph");
	}
	return rc == CUDA_SUCCESS;
}

static CUresult end_graph(struct worker *w, struct graph *g)
{
	free_left(w, g);
	if (g->exec)
		must(cuGraphExecDestroy(g->exec), "exec");
	must(cuGraphDestroy(g->graph), "graph");
	free(g);
	return CUDA_SUCCESS;
}

/* In the thread's stream, or in one that may have had it already. */
static CUresult launch(struct worker *w, struct graph *g)
{
	CUstream stream = draw(w, 3) ? w->stream : w->graphs;

	if (!draw(w, 4)) {
		CUresult rc = cuGraphUpload(g->exec, stream);

		if (rc != CUDA_SUCCESS)
			return rc;
		look(w, "an upload", 0);
	}
	return cuGraphLaunch(g->exec, stream);
}

static CUresult make_graph(struct worker *w, struct block *b)
{
	struct graph *g = calloc(1, sizeof(*g));
	CUresult rc;

	must(cuStreamBeginCapture(w->graphs, CU_STREAM_CAPTURE_MODE_RELAXED),
	     "begin");
	rc = capture_memory(w, g, b->bytes);
	must(cuStreamEndCapture(w->graphs, &g->graph), "end");
	if (rc == CUDA_SUCCESS)
		must(cuGraphInstantiate(&g->exec, g->graph, 0), "instantiate");
	if (rc == CUDA_SUCCESS)
		rc = launch(w, g);
	if (rc != CUDA_SUCCESS)
		end_graph(w, g);
	b->handle = (uintptr_t)g;
	return rc;
}

/* Once more: it may be refused, and then has left nothing. */
static void relaunch(struct worker *w, struct graph *g)
{
	CUresult rc;

	free_left(w, g);
	pthread_rwlock_rdlock(&takers);
	rc = launch(w, g);
	pthread_rwlock_unlock(&takers);
	if (rc != CUDA_ERROR_OUT_OF_MEMORY)
		must(rc, "launch");
	look(w, "a launch", 0);
}

static CUresult take(struct worker *w, struct block *b)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = b->bytes < 65536 ? b->bytes : 65536,
		.Height = b->bytes >> 16,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1,
	};
	CUdeviceptr *va = (CUdeviceptr *)&b->handle;

	switch (b->kind) {
	case PLAIN:
		return cuMemAlloc(va, b->bytes);
	case ASYNC:
		return cuMemAllocAsync(va, b->bytes, w->stream);
	case POOL:
		return cuMemAllocFromPoolAsync(va, b->bytes, w->pool,
					       w->stream);
	case MANAGED:
		return cuMemAllocManaged(va, b->bytes, CU_MEM_ATTACH_GLOBAL);
	case ARRAY:
		return cuArray3DCreate((CUarray *)&b->handle, &shape);
	case MIPMAP:
		return cuMipmappedArrayCreate((CUmipmappedArray *)&b->handle,
					      &shape, 1);
	case OWN:
		return make((CUmemGenericAllocationHandle *)&b->handle,
			    &b->bytes);
	case GRAPH:
		return make_graph(w, b);
	default:
		return make_mapped(va, &b->bytes);
	}
}

static CUresult give(struct worker *w, const struct block *b)
{
	switch (b->kind) {
	case ASYNC:
	case POOL:
		return cuMemFreeAsync(b->handle, w->stream);
	case ARRAY:
		return cuArrayDestroy((CUarray)b->handle);
	case MIPMAP:
		return cuMipmappedArrayDestroy((CUmipmappedArray)b->handle);
	case OWN:
		return cuMemRelease(b->handle);
	case GRAPH:
		return end_graph(w, (struct graph *)(uintptr_t)b->handle);
	case MAPPED:
		must(cuMemUnmap(b->handle, b->bytes), "unmap");
		return cuMemAddressFree(b->handle, b->bytes);
	default:
		return cuMemFree(b->handle);
	}
}

static void take_one(struct worker *w)
{
	struct block *b = &w->blocks[w->num_blocks];
	CUresult rc;

	if (w->num_blocks == MAX_BLOCKS)
		return;
	b->kind = (enum kind)draw(w, NUM_KINDS);
	if (only < NUM_KINDS)
		b->kind = only;
	b->bytes = draw_size(w);
	pthread_rwlock_rdlock(&takers);
	rc = take(w, b);
	pthread_rwlock_unlock(&takers);
	if (rc != CUDA_ERROR_OUT_OF_MEMORY)
		must(rc, names[b->kind]);
	w->num_blocks += rc == CUDA_SUCCESS;
	look(w, names[b->kind], b->bytes);
}

static void give_at(struct worker *w, int i)
{
	const struct block b = w->blocks[i];

	w->blocks[i] = w->blocks[--w->num_blocks];
	must(give(w, &b), names[b.kind]);
	look(w, "a free", b.bytes);
}

/* A free, or what comes next, finds work that is not done. */
static void use_one(struct worker *w)
{
	const struct block *b;

	if (!w->num_blocks)
		return;
	b = &w->blocks[draw(w, (unsigned)w->num_blocks)];
	if (b->kind == GRAPH)
		relaunch(w, (struct graph *)(uintptr_t)b->handle);
	else if (b->kind <= POOL)
		must(cuMemsetD8Async(b->handle, 1, b->bytes, w->stream), "set");
}

/* ---- captures and contexts ------------------------------------------------------ */

static CUstream new_stream(void)
{
	CUstream stream;

	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
	return stream;
}

static void capture(struct worker *w)
{
	w->captured = new_stream();
	must(cuStreamBeginCapture(w->captured, CU_STREAM_CAPTURE_MODE_RELAXED),
	     "begin");
	w->had_capture = true;
	look(w, "a capture", 0);
}

/* A block of whole pieces whose free is not put off; -1: there is none. */
static int find_pieces(const struct worker *w)
{
	int i = w->num_blocks - 1;

	while (i >= 0 && w->blocks[i].kind != OWN &&
	       w->blocks[i].kind != MAPPED)
		i--;
	return i;
}

static void begin_capture(struct worker *w)
{
	int i = find_pieces(w);

	if (w->had_capture) {
		capture(w);
	} else if (i >= 0) {
		pthread_rwlock_wrlock(&takers);
		give_at(w, i);
		capture(w);
		pthread_rwlock_unlock(&takers);
	}
}

static void end_capture(struct worker *w)
{
	CUgraph graph;

	must(cuStreamEndCapture(w->captured, &graph), "end");
	must(cuGraphDestroy(graph), "graph");
	must(cuStreamDestroy(w->captured), "captured");
	w->captured = NULL;
}

/* What streams have goes first, and what belongs to no context; the rest goes
 * with it. */
static void leave_context(struct worker *w)
{
	for (int i = w->num_blocks; i-- > 0;)
		if (!w->own || (w->blocks[i].kind != PLAIN &&
				w->blocks[i].kind != MANAGED &&
				w->blocks[i].kind != ARRAY))
			give_at(w, i);
	w->num_blocks = 0;
	must(cuStreamSynchronize(w->stream), "synchronize");
	must(cuStreamDestroy(w->stream), "stream");
	must(cuStreamDestroy(w->graphs), "stream");
	if (w->own)
		must(cuCtxDestroy(w->own), "destroy");
	must(cuCtxSetCurrent(primary), "current");
	w->own = NULL;
	look(w, "a destruction", 0);
}

static void enter_context(struct worker *w)
{
	if (draw(w, 2))
		must(cuCtxCreate(&w->own, NULL, 0, 0), "create");
	w->had_capture = !w->own;
	w->stream = new_stream();
	w->graphs = new_stream();
}

static void step(struct worker *w)
{
	unsigned what = draw(w, 100);

	if (what < 45) {
		take_one(w);
	} else if (what < 55) {
		use_one(w);
	} else if (what < 80) {
		if (w->num_blocks)
			give_at(w, (int)draw(w, (unsigned)w->num_blocks));
	} else if (what < 90) {
		if (w->captured)
			end_capture(w);
		else
			begin_capture(w);
	} else if (what < 96) {
		must(cuStreamSynchronize(w->stream), "synchronize");
	} else if (!w->captured) {
		leave_context(w);
		enter_context(w);
	}
}

static void *work(void *arg)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	struct worker *w = arg;

	must(cuCtxSetCurrent(primary), "current");
	must(cuMemPoolCreate(&w->pool, &props), "pool");
	enter_context(w);
	for (int i = 0; i < steps && !exceeded; i++)
		step(w);
	if (w->captured)
		end_capture(w);
	leave_context(w);
	must(cuMemPoolDestroy(w->pool), "pool");
	return NULL;
}

/* ---- all of them --------------------------------------------------------------- */

/* How many pieces can be had now. */
static int fill(void)
{
	CUmemGenericAllocationHandle handles[1024];
	size_t bytes = PIECE;
	int n = 0;

	while (n < 1024 && make(&handles[n], &bytes) == CUDA_SUCCESS)
		n++;
	for (int i = n; i-- > 0;)
		must(cuMemRelease(handles[i]), "release");
	return n;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	int threads = argc > 3 ? atoi(argv[3]) : 8, before, after;
	static struct worker workers[MAX_THREADS];
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	CUdeviceptr p;
	size_t total;

	peak = (uint64_t(*)(int))dlsym(driver, "gpusim_peak_bytes");
	if (!peak || threads > MAX_THREADS)
		return 77;
	if (argc > 2)
		steps = atoi(argv[2]);
	for (int i = 0; argc > 4 && i < NUM_KINDS; i++)
		if (!strcmp(argv[4], names[i]))
			only = (enum kind)i;
	must(cuInit(0), "init");
	must(cuDevicePrimaryCtxRetain(&primary, 0), "retain");
	must(cuCtxSetCurrent(primary), "current");
	must(cuDeviceTotalMem(&total, 0), "total");
	cap = total;
	before = fill();
	must(cuMemAlloc(&p, PIECE), "plain");
	capture(&workers[0]);
	end_capture(&workers[0]);
	must(cuMemFree(p), "plain");
	for (int i = 0; i < threads; i++) {
		workers[i].number = (unsigned)i;
		workers[i].random = seed * 1000 + (uint64_t)i;
		must((CUresult)pthread_create(&workers[i].thread, NULL, work,
					      &workers[i]),
		     "thread");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	must(cuCtxSynchronize(), "synchronize");
	after = fill();
	/* What waits in captures is kept in the primary context. */
	if (after < before - 1)
		printf("of %d pieces only %d can be had again\n", before,
		       after);
	if (!exceeded && after >= before - 1)
		printf("never more than there is\n");
	return exceeded || after < before - 1;
}
