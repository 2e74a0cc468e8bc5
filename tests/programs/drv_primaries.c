/*
 * Description: a primary context is retained where it is just being released or
 * reset: by a profiler's code that the driver runs within that call; or by
 * gpupool, to learn its handle, while another thread releases it: the last one
 * to do so is known to have destroyed it, and all that was in it.
 *
 *   drv_primaries within release|reset
 *   drv_primaries beside allocation|door
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#include "tests/support/must.h"

#define BYTES   ((size_t)1 << 20)
#define LIMIT_S 60
/* So long it is waited for a call that should wait for us. */
#define PAUSE_S 1

static CUcontext context;

static void on_call(void (*fn)(const char *))
{
	void (*set)(void (*)(const char *)) =
		(void (*)(void (*)(const char *)))dlsym(
			dlopen("libcuda.so.1", RTLD_LAZY), "gpusim_on_call");

	if (!set)
		exit(77);
	set(fn);
}

/* ---- on the same thread ------------------------------------------------------------- */

static bool retained;

static void retain_once(const char *function)
{
	if (retained || (!strstr(function, "PrimaryCtxRelease") &&
			 !strstr(function, "PrimaryCtxReset")))
		return;
	retained = true;
	printf("within: %d\n", (int)cuDevicePrimaryCtxRetain(&context, 0));
}

/* A release is not the last then. */
static void within(bool reset)
{
	CUdeviceptr p;

	alarm(LIMIT_S); /* it would wait for ever */
	MUST(cuMemAlloc(&p, BYTES));
	on_call(retain_once);
	printf("%s: %d\n", reset ? "reset" : "release",
	       (int)(reset ? cuDevicePrimaryCtxReset(0)
			   : cuDevicePrimaryCtxRelease(0)));
	on_call(NULL);
	printf("memory: %d\n", (int)cuMemsetD8(p, 1, BYTES));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	printf("free: %d\n", (int)cuMemFree(p));
	MUST(cuMemAlloc(&p, BYTES));
	printf("anew: %d\n", (int)cuMemsetD8(p, 1, BYTES));
}

/* ---- beside another thread ------------------------------------------------------------ */

static void *(*alloc)(ssize_t, int, void *);
static sem_t go, released;
static enum { BEFORE, IN_RELEASE, AFTER } at;
static __thread bool watched;

/* The watched thread, in whose calls the other one makes its own. */
static void release_beside(const char *function)
{
	struct timespec until;

	if (!watched)
		return;
	if (at == BEFORE && strstr(function, "PrimaryCtxRelease")) {
		sem_post(&go);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += PAUSE_S;
		at = sem_timedwait(&released, &until) ? IN_RELEASE : AFTER;
	} else if (at == IN_RELEASE) {
		at = AFTER;
		sem_wait(&released);
	}
}

static void *release(void *arg)
{
	sem_wait(&go);
	printf("release: %d\n", (int)cuDevicePrimaryCtxRelease(0));
	sem_post(&released);
	return arg;
}

/* The context is there, but nothing of it is known. */
static void *allocate(void *arg)
{
	CUdeviceptr p;

	MUST(cuCtxSetCurrent(context));
	watched = true;
	cuMemAlloc(&p, BYTES);
	return arg;
}

static void *allocate_by_door(void *arg)
{
	watched = true;
	alloc(BYTES, 0, NULL);
	return arg;
}

static void beside(bool door)
{
	CUdeviceptr managed, p;
	pthread_t threads[2];

	alarm(LIMIT_S);
	sem_init(&go, 0, 0);
	sem_init(&released, 0, 0);
	*(void **)&alloc = dlsym(RTLD_DEFAULT, "gpupool_torch_alloc");
	if (door && !alloc)
		exit(77);
	if (door) {
		MUST(cuMemAlloc(&p, BYTES)); /* it is known then */
	} else { /* whether it is there still is to be asked then */
		MUST(cuDevicePrimaryCtxRetain(&context, 0));
		MUST(cuDevicePrimaryCtxRelease(0));
	}
	MUST(cuMemAllocManaged(&managed, 3 * BYTES, CU_MEM_ATTACH_GLOBAL));
	MUST(cuCtxSetCurrent(NULL));
	on_call(release_beside);
	pthread_create(&threads[0], NULL, release, NULL);
	pthread_create(&threads[1], NULL, door ? allocate_by_door : allocate,
		       NULL);
	pthread_join(threads[1], NULL);
	printf("beside: %d\n", at == AFTER);
	sem_post(&go); /* in the plain program it has not come yet */
	pthread_join(threads[0], NULL);
	on_call(NULL);
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	printf("managed: %d\n", (int)cuMemAllocManaged(&managed, 3 * BYTES,
						       CU_MEM_ATTACH_GLOBAL));
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 77; /* test_segments.py runs it */
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	if (!strcmp(argv[1], "within"))
		within(!strcmp(argv[2], "reset"));
	else
		beside(!strcmp(argv[2], "door"));
	return 0;
}
