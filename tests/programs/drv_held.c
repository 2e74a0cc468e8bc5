/*
 * Description: a thread stays inside a driver call, each that its calls come to
 * in turn, while another makes all of the same calls: it need not wait for the
 * first, as it would if the first had a lock that it wants.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include "tests/support/must.h"

#define MIB     ((size_t)1 << 20)
#define LIMIT_S 120

/* The same whatever the headers take the name for. */
extern CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags,
			       CUdevice device);

static CUcontext context;
static CUfunction fill32;
static CUmemoryPool own_pool;

/* ---- all of the calls ------------------------------------------------------------ */

static void plain(CUstream stream)
{
	size_t words = 16, free_bytes, total, bytes;
	CUdeviceptr small, large, more, base;
	CUipcMemHandle handle;
	unsigned value = 7;
	void *args[] = {&small, &value, &words};

	MUST(cuMemAlloc(&small, 1000));
	MUST(cuMemAlloc(&large, 30 * MIB));
	MUST(cuLaunchKernel(fill32, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
	MUST(cuMemGetInfo(&free_bytes, &total));
	MUST(cuMemGetAddressRange(&base, &bytes, large));
	cuIpcGetMemHandle(&handle, large); /* the plain simulator has none */
	MUST(cuMemFree(large));
	MUST(cuMemAlloc(&more, 70 * MIB));
	MUST(cuMemFreeAsync(more, stream));
	MUST(cuMemFree(small));
}

static void asynchronous(CUstream stream)
{
	CUdeviceptr a, b;

	MUST(cuMemAllocAsync(&a, 3 * MIB, stream));
	MUST(cuMemAllocFromPoolAsync(&b, 3 * MIB, own_pool, stream));
	MUST(cuMemFreeAsync(a, stream));
	MUST(cuMemFree(b));
	MUST(cuMemPoolTrimTo(own_pool, 0));
}

static void others(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 1024,
		.Height = 1024,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8,
		.NumChannels = 1,
	};
	CUmipmappedArray levels;
	CUdeviceptr managed;
	CUarray array;
	void *pinned, *host = aligned_alloc(4096, MIB);

	MUST(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemFree(managed));
	MUST(cuArray3DCreate(&array, &shape));
	MUST(cuArrayDestroy(array));
	MUST(cuMipmappedArrayCreate(&levels, &shape, 1));
	MUST(cuMipmappedArrayDestroy(levels));
	MUST(cuMemHostAlloc(&pinned, MIB, 0));
	MUST(cuMemFreeHost(pinned));
	MUST(cuMemHostRegister(host, MIB, 0));
	MUST(cuMemHostUnregister(host));
	free(host);
}

static void virtual(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr va;

	MUST(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
	MUST(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	MUST(cuMemMap(va, 2 * MIB, 0, handle, 0));
	MUST(cuMemSetAccess(va, 2 * MIB, &access, 1));
	MUST(cuMemRetainAllocationHandle(&again, (void *)va));
	MUST(cuMemRelease(again));
	MUST(cuMemRelease(handle));
	MUST(cuMemUnmap(va, 2 * MIB));
	MUST(cuMemAddressFree(va, 2 * MIB));
}

static void all(void)
{
	CUcontext own, popped;
	CUstream stream;
	CUevent event;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&event, 0));
	plain(stream);
	asynchronous(stream);
	others();
	virtual();
	MUST(cuEventRecord(event, stream));
	MUST(cuEventSynchronize(event));
	MUST(cuEventDestroy(event));
	MUST(cuStreamDestroy(stream));
	MUST(cuCtxCreate_v2(&own, 0, 0));
	plain(NULL);
	MUST(cuCtxDestroy(own));
	MUST(cuCtxPushCurrent(context));
	MUST(cuCtxSynchronize());
	MUST(cuCtxPopCurrent(&popped));
	MUST(cuCtxSetCurrent(context));
}

/* ---- the two threads ----------------------------------------------------------------- */

static __thread bool is_first;
static long calls, stay_at; /* the first thread's */
static char where[64];
static sem_t inside, go_on, started, done;

/* What the library makes under the lock of a context's order: it waits for
 * nothing, nor for anybody. */
static bool is_short(const char *function)
{
	static const char *const parts[] = {
		"CtxPush",      "CtxPop",      "GetCurrent",   "StreamGet",
		"StreamIsCapt", "CaptureMode", "StreamWait",   "EventCreate",
		"EventRecord",  "EventQuery",  "EventDestroy", "MemsetD8Async",
		"StreamCreate",
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strstr(function, parts[i]))
			return true;
	return false;
}

static void called(const char *function)
{
	if (!is_first || is_short(function) || ++calls != stay_at)
		return;
	snprintf(where, sizeof(where), "%s", function);
	sem_post(&inside);
	sem_wait(&go_on);
}

static void *first(void *arg)
{
	MUST(cuCtxSetCurrent(context));
	is_first = true;
	for (bool stayed = true; stayed; sem_post(&done)) {
		sem_wait(&started);
		all();
		stayed = calls >= stay_at;
	}
	return arg;
}

static void *second(void *arg)
{
	MUST(cuCtxSetCurrent(context));
	for (;;) {
		sem_wait(&inside);
		if (!where[0])
			return arg;
		all();
		where[0] = 0;
		sem_post(&go_on);
	}
}

/* The first thread's calls are over, wherever it stayed in between. */
static void await(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LIMIT_S;
	while (sem_timedwait(&done, &until)) {
		if (errno == EINTR)
			continue;
		printf("a thread in %s keeps others waiting\n", where);
		fflush(stdout);
		_Exit(1);
	}
}

static void *find(const char *name)
{
	return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name);
}

int main(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	void (*on_call)(void (*)(const char *)) =
		(void (*)(void (*)(const char *)))find("gpusim_on_call");
	pthread_t threads[2];
	CUmodule module;

	if (!on_call)
		return 77;
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, "any image will do"));
	MUST(cuModuleGetFunction(&fill32, module, "fill32"));
	MUST(cuMemPoolCreate(&own_pool, &props));
	sem_init(&inside, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&started, 0, 0);
	sem_init(&done, 0, 0);
	on_call(called);
	pthread_create(&threads[0], NULL, first, NULL);
	pthread_create(&threads[1], NULL, second, NULL);
	do {
		calls = 0;
		stay_at++;
		sem_post(&started);
		await();
	} while (calls >= stay_at);
	sem_post(&inside);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", stay_at > 40 ? "nobody waits" : "too few calls");
	return 0;
}
