/*
 * Description: a memory pool of the driver's is destroyed by one thread while
 * another allocates from it: within the allocation, once the driver has made it;
 * or the allocation within the call that destroys it, before the driver has.
 * What the limit leaves room for is told while the memory is there, and after.
 *
 *   drv_pool_ends allocation|destruction
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "tests/support/must.h"

#define MIB ((size_t)1 << 20)

static CUcontext context;
static CUmemoryPool pool;
static CUdeviceptr memory;
static sem_t go, done;

static CUresult allocate(void)
{
	return cuMemAllocFromPoolAsync(&memory, 20 * MIB, pool,
				       CU_STREAM_LEGACY);
}

static CUresult destroy(void)
{
	return cuMemPoolDestroy(pool);
}

/* ---- one call within the other ------------------------------------------------------- */

static const char *outer_call;
static bool in_outer, stays;
static __thread bool watched;

/* At the driver's next call in the allocation, or as the driver destroys it. */
static void called(const char *function)
{
	if (!watched || !outer_call)
		return;
	if (!in_outer) {
		in_outer = !strcmp(function, outer_call);
		if (!in_outer || stays)
			return;
	}
	outer_call = NULL;
	sem_post(&go);
	sem_wait(&done);
}

static void *inner(void *call)
{
	CUresult (*make)(void) = (CUresult(*)(void))call;

	MUST(cuCtxSetCurrent(context));
	sem_wait(&go);
	printf("inner: %d\n", (int)make());
	sem_post(&done);
	return NULL;
}

static void within(CUresult (*outer)(void), CUresult (*call)(void))
{
	void (*on_call)(void (*)(const char *)) =
		(void (*)(void (*)(const char *)))dlsym(
			dlopen("libcuda.so.1", RTLD_LAZY), "gpusim_on_call");
	pthread_t thread;

	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	pthread_create(&thread, NULL, inner, (void *)call);
	watched = true;
	on_call(called);
	printf("outer: %d\n", (int)outer());
	on_call(NULL);
	pthread_join(thread, NULL);
}

/* ---- before and after ------------------------------------------------------------------- */

/* The pool keeps what it had. */
static void make_pool(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	cuuint64_t all = UINT64_MAX;

	MUST(cuMemPoolCreate(&pool, &props));
	MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				   &all));
	MUST(allocate());
	MUST(cuMemFreeAsync(memory, CU_STREAM_LEGACY));
	MUST(cuCtxSynchronize());
}

static void tell_room(void)
{
	CUdeviceptr managed;
	CUresult rc =
		cuMemAllocManaged(&managed, 48 * MIB, CU_MEM_ATTACH_GLOBAL);

	printf("room: %d\n", (int)rc);
	if (rc == CUDA_SUCCESS)
		MUST(cuMemFree(managed));
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 77; /* test_caps.py runs it */
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	make_pool();
	stays = !strcmp(argv[1], "allocation");
	outer_call = stays ? "cuMemAllocFromPoolAsync" : "cuMemPoolDestroy";
	if (stays)
		within(allocate, destroy);
	else
		within(destroy, allocate);
	tell_room();
	MUST(cuMemFreeAsync(memory, CU_STREAM_LEGACY));
	MUST(cuCtxSynchronize());
	tell_room();
	return 0;
}
