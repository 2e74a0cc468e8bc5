/*
 * Description: takes memory of every kind, as its arguments say, one word a
 * step, and prints what came of it. The tests of the limits are written with
 * it.
 *
 *   KIND=BYTES[xN]      N allocations of BYTES (N 0: until one fails)
 *   KIND*THREADS=BYTES  that many threads, each until one fails
 *   mix*THREADS=BYTES   the same, each thread another kind
 *   begin=1 end=1       a capture in a stream of its own, relaxed; its end
 *   spin=US query=1     a kernel in another stream; does it still run?
 *   capture*THREADS=BYTES  that many threads; each captures, takes plain memory
 *                       until it fails, frees it, and ends the capture, 20 times
 *   free=KIND           all of that kind
 *   info=1 total=1      cuMemGetInfo, cuDeviceTotalMem
 *   nvml=1              the same question to NVML, of every card
 *   used=1              what the device has in use, without contexts
 *   peak=1              the most it ever had
 *   device=N            the primary context of that device from now on
 *   create=1 destroy=1  a context of its own; and its end
 *   reset=1             of the primary context
 *   sync=1              cuCtxSynchronize
 *   fail=FUNCTION       the next call of it fails for lack of memory
 *   call=FUNCTION       one that needs memory without asking for it
 *   loop=N              cuMemAllocAsync and cuMemFreeAsync in turn
 *   trim=1              cuDeviceGraphMemTrim
 *   unpool=1            destroys the pool that "pool" takes from
 *   map=MIB             maps own memory, releases its handle, unmaps it
 *   context=1           what contexts take of the device
 *   forget=1            whatever was taken
 *   limit=BYTES         gpupool_set_limit() of the device
 *
 *   launch=N            a graph that allocates 2 MiB N times as they are freed,
 *                       and 2 MiB more: launched N times
 *
 *   streams=N           N times: two graphs that have the same 2 MiB in a stream,
 *                       and 2 MiB more; one of them is launched into a stream
 *                       that is made when the first was destroyed
 *
 * KIND: plain async pool managed array mipmap own pinned graph bynode. The last
 * two are what a graph's launch leaves allocated; captured, or made by hand.
 * "used", "peak" and "fail" ask the simulator. BYTES may end in K, M or G.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "tests/sim/nvml/nvml.h"
#include "tests/support/must.h"

#define MAX_BLOCKS  8192
#define MAX_THREADS 64

static CUcontext context;
static CUdevice device;
static CUmemoryPool own_pool;

enum kind {
	PLAIN,
	ASYNC,
	POOL,
	MANAGED,
	ARRAY,
	MIPMAP,
	OWN,
	PINNED,
	GRAPH,
	BYNODE,
	NUM_KINDS
};
static const char *const names[] = {"plain", "async",  "pool", "managed",
				    "array", "mipmap", "own",  "pinned",
				    "graph", "bynode"};

static struct {
	uint64_t handle[MAX_BLOCKS];
	int n; /* atomic */
} blocks[NUM_KINDS];

static void use(CUdevice which)
{
	device = which;
	must(cuDevicePrimaryCtxRetain(&context, device), "retain");
	must(cuCtxSetCurrent(context), "current");
}

static void start(void)
{
	if (context)
		return;
	must(cuInit(0), "init");
	use(device);
}

static void *sim_function(const char *name)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY);
	void *found = handle ? dlsym(handle, name) : NULL;

	if (!found) {
		printf("%s: only the simulator has it\n", name);
		exit(77);
	}
	return found;
}

static CUresult take_array(uint64_t *handle, size_t bytes, unsigned levels)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = bytes < 64 << 10 ? bytes : 64 << 10,
		.Height = bytes >> 16,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1,
	};

	return levels ? cuMipmappedArrayCreate((CUmipmappedArray *)handle,
					       &shape, levels)
		      : cuArray3DCreate((CUarray *)handle, &shape);
}

static CUresult take_own(CUmemGenericAllocationHandle *handle, size_t bytes)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};

	return cuMemCreate(handle, bytes, &prop, 0);
}

/* ---- graphs ------------------------------------------------------------------- */

struct graph {
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr memory;
};

static CUresult capture_alloc(struct graph *g, CUstream stream, size_t bytes)
{
	CUresult rc;

	must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
	     "begin");
	rc = cuMemAllocAsync(&g->memory, bytes, stream);
	if (rc == CUDA_SUCCESS)
		must(cuMemsetD8Async(g->memory, 1, bytes, stream), "set");
	must(cuStreamEndCapture(stream, &g->graph), "end");
	return rc;
}

static CUresult add_alloc(struct graph *g, size_t bytes)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	CUgraphNode node;
	CUresult rc;

	params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.alloc.poolProps.location.id = device;
	params.alloc.bytesize = bytes;
	must(cuGraphCreate(&g->graph, 0), "graph");
	rc = cuGraphAddNode(&node, g->graph, NULL, NULL, 0, &params);
	g->memory = params.alloc.dptr;
	return rc;
}

static void end_graph(struct graph *g)
{
	if (g->exec)
		must(cuGraphExecDestroy(g->exec), "exec");
	must(cuGraphDestroy(g->graph), "graph");
	free(g);
}

static CUresult take_graph(uint64_t *handle, size_t bytes, bool by_node)
{
	struct graph *g = calloc(1, sizeof(*g));
	CUstream stream;
	CUresult rc;

	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
	rc = by_node ? add_alloc(g, bytes) : capture_alloc(g, stream, bytes);
	if (rc == CUDA_SUCCESS)
		rc = cuGraphInstantiate(&g->exec, g->graph, 0);
	if (rc == CUDA_SUCCESS)
		rc = cuGraphLaunch(g->exec, stream);
	must(cuStreamDestroy(stream), "stream");
	if (rc != CUDA_SUCCESS)
		end_graph(g);
	*handle = (uintptr_t)g;
	return rc;
}

static CUresult give_graph(struct graph *g)
{
	CUresult rc = cuMemFree(g->memory);

	end_graph(g);
	return rc;
}

/* One that allocates 2 MiB and frees it. */
static CUgraphExec freeing(CUstream stream)
{
	CUgraphExec exec = NULL;
	CUdeviceptr p;
	CUgraph graph;

	must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
	     "begin");
	must(cuMemAllocAsync(&p, 2 << 20, stream), "alloc");
	must(cuMemFreeAsync(p, stream), "free");
	must(cuStreamEndCapture(stream, &graph), "end");
	must(cuGraphInstantiate(&exec, graph, 0), "instantiate");
	must(cuGraphDestroy(graph), "graph");
	return exec;
}

static void launch_into_new_streams(int times)
{
	CUmemGenericAllocationHandle more;
	CUgraphExec one, other;
	CUstream stream;
	int n = 0;

	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
	one = freeing(stream);
	other = freeing(stream);
	for (int i = 0; i < times; i++) {
		must(cuGraphLaunch(other, stream), "launch");
		must(cuGraphLaunch(one, stream), "launch");
		must(take_own(&more, 2 << 20), "more");
		must(cuStreamSynchronize(stream), "synchronize");
		must(cuStreamDestroy(stream), "stream");
		must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
		n += cuGraphLaunch(one, stream) == CUDA_SUCCESS;
		must(cuMemRelease(more), "more");
	}
	must(cuGraphExecDestroy(one), "exec");
	must(cuGraphExecDestroy(other), "exec");
	must(cuStreamDestroy(stream), "stream");
	printf("streams: %d\n", n);
}

/* All of it is freed in the graph, too. */
static void launch(int times)
{
	CUgraphExec exec = NULL;
	CUresult rc = CUDA_SUCCESS;
	CUdeviceptr p[2];
	CUstream stream;
	CUgraph graph;
	int n = 0;

	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
	must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
	     "begin");
	for (int i = 0; i <= times; i++) {
		must(cuMemAllocAsync(&p[!i], 2 << 20, stream), "alloc");
		if (i)
			must(cuMemFreeAsync(p[0], stream), "free");
	}
	must(cuMemFreeAsync(p[1], stream), "free");
	must(cuStreamEndCapture(stream, &graph), "end");
	must(cuGraphInstantiate(&exec, graph, 0), "instantiate");
	while (n < times && rc == CUDA_SUCCESS) {
		rc = cuGraphLaunch(exec, stream);
		n += rc == CUDA_SUCCESS;
	}
	must(cuGraphExecDestroy(exec), "exec");
	must(cuGraphDestroy(graph), "graph");
	must(cuStreamSynchronize(stream), "synchronize");
	must(cuStreamDestroy(stream), "stream");
	printf("launch: %d of %d, %d\n", n, times, (int)rc);
}

static CUresult take(enum kind kind, size_t bytes, uint64_t *handle)
{
	CUdeviceptr *address = (CUdeviceptr *)handle;

	switch (kind) {
	case PLAIN:
		return cuMemAlloc(address, bytes);
	case ASYNC:
		return cuMemAllocAsync(address, bytes, NULL);
	case POOL:
		return cuMemAllocFromPoolAsync(address, bytes, own_pool, NULL);
	case MANAGED:
		return cuMemAllocManaged(address, bytes, CU_MEM_ATTACH_GLOBAL);
	case ARRAY:
		return take_array(handle, bytes, 0);
	case MIPMAP:
		return take_array(handle, bytes, 1);
	case OWN:
		return take_own((CUmemGenericAllocationHandle *)handle, bytes);
	case GRAPH:
	case BYNODE:
		return take_graph(handle, bytes, kind == BYNODE);
	default:
		return cuMemHostAlloc((void **)handle, bytes, 0);
	}
}

static CUresult give(enum kind kind, uint64_t handle)
{
	switch (kind) {
	case ASYNC:
	case POOL:
		return cuMemFreeAsync(handle, NULL);
	case ARRAY:
		return cuArrayDestroy((CUarray)handle);
	case MIPMAP:
		return cuMipmappedArrayDestroy((CUmipmappedArray)handle);
	case OWN:
		return cuMemRelease(handle);
	case GRAPH:
	case BYNODE:
		return give_graph((struct graph *)(uintptr_t)handle);
	case PINNED:
		return cuMemFreeHost((void *)handle);
	default:
		return cuMemFree(handle);
	}
}

static void need_pool(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};

	if (!own_pool)
		must(cuMemPoolCreate(&own_pool, &props), "pool");
}

static int find_kind(const char *name, size_t length)
{
	for (int i = 0; i < NUM_KINDS; i++)
		if (strlen(names[i]) == length &&
		    !memcmp(names[i], name, length))
			return i;
	return -1;
}

/* Up to `most` (0: any number) of them. How many; *rc: the last answer. */
static int fill(enum kind kind, size_t bytes, int most, CUresult *rc)
{
	int n = 0;

	do {
		uint64_t handle;
		int at;

		*rc = take(kind, bytes, &handle);
		if (*rc != CUDA_SUCCESS)
			break;
		at = __atomic_fetch_add(&blocks[kind].n, 1, __ATOMIC_RELAXED);
		if (at >= MAX_BLOCKS)
			exit(3);
		blocks[kind].handle[at] = handle;
		n++;
	} while (!most || n < most);
	return n;
}

struct job {
	pthread_t thread;
	enum kind kind;
	size_t bytes;
	int n;
	CUresult rc;
};

static pthread_barrier_t gate;

static void *work(void *arg)
{
	struct job *job = arg;

	must(cuCtxSetCurrent(context), "current");
	pthread_barrier_wait(&gate);
	job->n = fill(job->kind, job->bytes, 0, &job->rc);
	return NULL;
}

/* ---- captures ----------------------------------------------------------------- */

static CUstream captured, busy;

static void begin_capture(CUstream *stream)
{
	must(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING), "stream");
	must(cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_RELAXED),
	     "begin");
}

static void end_capture(CUstream stream)
{
	CUgraph graph;

	must(cuStreamEndCapture(stream, &graph), "end");
	must(cuGraphDestroy(graph), "graph");
	must(cuStreamDestroy(stream), "stream");
}

static void spin(unsigned us)
{
	static char image[] = "any image will do";
	void *args[] = {&us};
	CUfunction function;
	CUmodule module;

	must(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING), "stream");
	must(cuModuleLoadData(&module, image), "module");
	must(cuModuleGetFunction(&function, module, "spin"), "function");
	must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, busy, args, NULL),
	     "launch");
}

/* Its own, freed in the capture: each free waits there. */
static void *capture_often(void *arg)
{
	struct job *job = arg;
	CUstream stream = NULL;
	CUdeviceptr p[256];
	CUresult rc;
	int n;

	must(cuCtxSetCurrent(context), "current");
	pthread_barrier_wait(&gate);
	for (int i = 0; i < 20; i++) {
		begin_capture(&stream);
		for (n = 0; n < 256; n++) {
			rc = cuMemAlloc(&p[n], job->bytes);
			if (rc != CUDA_SUCCESS)
				break;
		}
		while (n--)
			must(cuMemFree(p[n]), "free");
		end_capture(stream);
		job->n++;
	}
	job->rc = CUDA_ERROR_OUT_OF_MEMORY;
	return NULL;
}

/* kind -1: each thread another one, of those that take device memory. */
static void fill_together(const char *word, int kind, int threads, size_t bytes,
			  void *(*body)(void *))
{
	static const enum kind device_kinds[] = {PLAIN, ASYNC,  POOL, MANAGED,
						 ARRAY, MIPMAP, OWN,  GRAPH};
	struct job jobs[MAX_THREADS];
	int sum = 0;

	pthread_barrier_init(&gate, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		jobs[i].kind = kind < 0 ? device_kinds[i % 8] : (enum kind)kind;
		jobs[i].bytes = bytes;
		jobs[i].n = 0;
		pthread_create(&jobs[i].thread, NULL, body, &jobs[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(jobs[i].thread, NULL);
		sum += jobs[i].n;
		if (jobs[i].rc != CUDA_ERROR_OUT_OF_MEMORY)
			printf("a thread got %d\n", (int)jobs[i].rc);
	}
	printf("%s: %d\n", word, sum);
}

static void free_all(enum kind kind)
{
	int failed = 0;

	for (int i = 0; i < blocks[kind].n; i++)
		failed += give(kind, blocks[kind].handle[i]) != CUDA_SUCCESS;
	printf("free %s: %d, %d failed\n", names[kind], blocks[kind].n, failed);
	blocks[kind].n = 0;
}

static size_t size_of(const char *text, char **end)
{
	size_t bytes = strtoull(text, end, 10);

	switch (**end) {
	case 'K':
		++*end;
		return bytes << 10;
	case 'M':
		++*end;
		return bytes << 20;
	case 'G':
		++*end;
		return bytes << 30;
	default:
		return bytes;
	}
}

static void tell_info(void)
{
	size_t free_bytes, total;
	CUresult rc = cuMemGetInfo(&free_bytes, &total);

	printf("info: %d free %zu total %zu\n", (int)rc, free_bytes >> 20,
	       total >> 20);
}

static void tell_total(void)
{
	size_t total = 0;
	CUresult rc;

	must(cuInit(0), "init");
	rc = cuDeviceTotalMem(&total, device);
	printf("total: %d %zu\n", (int)rc, total >> 20);
}

/* Linked, and looked up, which are two ways to find it. */
static void tell_nvml(void)
{
	void *handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY);
	int (*ask)(nvmlDevice_t, nvmlMemory_v2_t *) =
		(int (*)(nvmlDevice_t, nvmlMemory_v2_t *))dlsym(
			handle, "nvmlDeviceGetMemoryInfo_v2");
	unsigned count = 0;

	nvmlInit_v2();
	nvmlDeviceGetCount_v2(&count);
	for (unsigned i = 0; i < count; i++) {
		nvmlMemory_v2_t two = {.version = NVML_MEMORY_V2};
		nvmlMemory_t one = {0};
		nvmlDevice_t card, mig;

		nvmlDeviceGetHandleByIndex_v2(i, &card);
		printf("nvml %u: %d", i, nvmlDeviceGetMemoryInfo(card, &one));
		printf(" free %llu used %llu total %llu\n", one.free >> 20,
		       one.used >> 20, one.total >> 20);
		if (ask(card, &two) || two.free != one.free ||
		    two.total != one.total || two.used != one.used)
			printf("version 2 says otherwise\n");
		for (unsigned j = 0;
		     !nvmlDeviceGetMigDeviceHandleByIndex(card, j, &mig); j++) {
			nvmlDeviceGetMemoryInfo(mig, &one);
			printf("nvml %u.%u: free %llu total %llu\n", i, j,
			       one.free >> 20, one.total >> 20);
		}
	}
	nvmlShutdown();
}

static void tell_figure(const char *word, const char *function)
{
	uint64_t (*ask)(int) = (uint64_t(*)(int))sim_function(function);

	printf("%s: %llu\n", word, (unsigned long long)ask(device) >> 20);
}

/* ---- calls that need memory without asking for it ---------------------------- */

static CUresult call(const char *name)
{
	static char image[] = "any image will do";
	CUcontext made;
	CUmodule module;
	CUfunction function;
	CUlibrary library;
	CUstream stream;
	CUevent event;
	unsigned us = 0;
	void *args[] = {&us};

	if (!strcmp(name, "cuCtxCreate_v4") || !strcmp(name, "cuCtxCreate_v2"))
		return cuCtxCreate(&made, NULL, 0, device);
	if (!strcmp(name, "cuModuleLoadData"))
		return cuModuleLoadData(&module, image);
	if (!strcmp(name, "cuLibraryLoadData"))
		return cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL,
					 NULL, 0);
	if (!strcmp(name, "cuStreamCreate"))
		return cuStreamCreate(&stream, 0);
	if (!strcmp(name, "cuEventCreate"))
		return cuEventCreate(&event, 0);
	if (!strcmp(name, "cuDevicePrimaryCtxRetain"))
		return cuDevicePrimaryCtxRetain(&made, device);
	must(cuModuleLoadData(&module, image), "module");
	if (!strcmp(name, "cuModuleGetFunction"))
		return cuModuleGetFunction(&function, module, "spin");
	must(cuModuleGetFunction(&function, module, "spin"), "function");
	if (!strcmp(name, "cuLaunchKernel"))
		return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args,
				      NULL);
	return CUDA_ERROR_NOT_FOUND;
}

static void fail_next(const char *name)
{
	int (*fail)(const char *, long, int) =
		(int (*)(const char *, long, int))sim_function("gpusim_fail");

	fail(name, 1, CUDA_ERROR_OUT_OF_MEMORY);
}

/* High-water accounting would refuse this in the end. */
static void loop(int times)
{
	CUresult rc = CUDA_SUCCESS;
	CUdeviceptr p;
	int n = 0;

	while (n < times && !rc) {
		rc = cuMemAllocAsync(&p, 24 << 20, NULL);
		if (!rc)
			rc = cuMemFreeAsync(p, NULL);
		n += !rc;
	}
	printf("loop: %d of %d, %d\n", n, times, (int)rc);
}

/* Mapped memory counts when its handle has been released, too. */
static void map_and_release(size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr va;

	must(cuMemAddressReserve(&va, bytes, 0, 0, 0), "reserve");
	must(take_own(&handle, bytes), "create");
	must(cuMemMap(va, bytes, 0, handle, 0), "map");
	must(cuMemRelease(handle), "release");
	printf("mapped: %d\n", (int)take_own(&handle, 2 << 20));
	must(cuMemUnmap(va, bytes), "unmap");
	printf("unmapped: %d\n", (int)take_own(&handle, bytes));
}

static void set_limit(const char *value)
{
	int (*set)(int, uint64_t) = (int (*)(int, uint64_t))dlsym(
		RTLD_DEFAULT, "gpupool_set_limit");
	char *end;

	printf("limit: %d\n", set ? set(device, size_of(value, &end)) : -1);
}

/* False: no such step. */
static bool other_step(const char *step, const char *value)
{
	CUcontext made;

	if (!strcmp(step, "info"))
		tell_info();
	else if (!strcmp(step, "used"))
		tell_figure(step, "gpusim_used_bytes");
	else if (!strcmp(step, "peak"))
		tell_figure(step, "gpusim_peak_bytes");
	else if (!strcmp(step, "context"))
		tell_figure(step, "gpusim_context_bytes");
	else if (!strcmp(step, "device"))
		use(atoi(value));
	else if (!strcmp(step, "create"))
		must(cuCtxCreate(&made, NULL, 0, device), "create");
	else if (!strcmp(step, "destroy"))
		must(cuCtxGetCurrent(&made) ?: cuCtxDestroy(made), "destroy");
	else if (!strcmp(step, "reset"))
		must(cuDevicePrimaryCtxReset(device), "reset");
	else if (!strcmp(step, "sync"))
		must(cuCtxSynchronize(), "sync");
	else if (!strcmp(step, "fail"))
		fail_next(value);
	else if (!strcmp(step, "call"))
		printf("%s: %d\n", value, (int)call(value));
	else if (!strcmp(step, "loop"))
		loop(atoi(value));
	else if (!strcmp(step, "limit"))
		set_limit(value);
	else if (!strcmp(step, "launch"))
		launch(atoi(value));
	else if (!strcmp(step, "streams"))
		launch_into_new_streams(atoi(value));
	else if (!strcmp(step, "trim"))
		must(cuDeviceGraphMemTrim(device), "trim");
	else if (!strcmp(step, "unpool"))
		must(cuMemPoolDestroy(own_pool), "pool's end");
	else if (!strcmp(step, "map"))
		map_and_release((size_t)atoi(value) << 20);
	else if (!strcmp(step, "begin"))
		begin_capture(&captured);
	else if (!strcmp(step, "end"))
		end_capture(captured);
	else if (!strcmp(step, "spin"))
		spin((unsigned)atoi(value));
	else if (!strcmp(step, "query"))
		printf("query: %d\n", (int)cuStreamQuery(busy));
	else if (!strcmp(step, "forget"))
		memset(blocks, 0, sizeof(blocks));
	else
		return false;
	return true;
}

static void do_step(const char *word)
{
	const char *equals = strchr(word, '=');
	const char *value = equals ? equals + 1 : "";
	size_t length = equals ? (size_t)(equals - word) : strlen(word);
	const char *star = memchr(word, '*', length);
	int threads = star ? atoi(star + 1) : 0, kind, n;
	char step[32], *end;
	size_t bytes;
	CUresult rc;

	snprintf(step, sizeof(step), "%.*s", (int)length, word);
	if (!strcmp(step, "total")) {
		tell_total();
		return;
	}
	if (!strcmp(step, "nvml")) {
		tell_nvml();
		return;
	}
	start();
	if (!strcmp(step, "free")) {
		free_all((enum kind)find_kind(value, strlen(value)));
		return;
	}
	if (other_step(step, value))
		return;
	kind = find_kind(word, star ? (size_t)(star - word) : length);
	bytes = size_of(value, &end);
	if (star && !strncmp(word, "capture*", 8)) {
		fill_together(word, PLAIN, threads, bytes, capture_often);
		return;
	}
	if (kind < 0 && strncmp(word, "mix*", 4) != 0) {
		printf("what is '%s'?\n", word);
		exit(2);
	}
	if (kind < 0 || kind == POOL)
		need_pool();
	if (star) {
		fill_together(word, kind, threads, bytes, work);
		return;
	}
	n = fill((enum kind)kind, bytes, *end == 'x' ? atoi(end + 1) : 1, &rc);
	printf("%s: %d, %d\n", word, n, (int)rc);
}

int main(int argc, char **argv)
{
	static const char *const usual[] = {
		"plain=4M",  "async=4M",   "managed=4M",  "array=4M",
		"mipmap=4M", "own=4M",     "pinned=4M",   "pool=4M",
		"loop=20",   "free=plain", "free=async",  "free=managed",
		"free=own",  "free=array", "free=mipmap", "free=pinned",
		"free=pool", "sync=1"};

	for (int i = 1; i < argc; i++) {
		do_step(argv[i]);
		fflush(stdout);
	}
	for (size_t i = 0; argc == 1 && i < sizeof(usual) / sizeof(*usual); i++)
		do_step(usual[i]);
	return 0;
}
