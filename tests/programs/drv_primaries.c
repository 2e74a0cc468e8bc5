/*
 * Description: a primary context is retained where it is just being released or
 * reset: by a profiler's code that the driver runs within that call.
 *
 *   drv_primaries within release|reset
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#define BYTES   ((size_t)1 << 20)
#define LIMIT_S 60

static CUcontext context;

static void must(CUresult rc)
{
	if (rc == CUDA_SUCCESS)
		return;
	printf("setup failed: %d\n", (int)rc);
	exit(1);
}

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
	must(cuMemAlloc(&p, BYTES));
	on_call(retain_once);
	printf("%s: %d\n", reset ? "reset" : "release",
	       (int)(reset ? cuDevicePrimaryCtxReset(0)
			   : cuDevicePrimaryCtxRelease(0)));
	on_call(NULL);
	printf("memory: %d\n", (int)cuMemsetD8(p, 1, BYTES));
	must(cuDevicePrimaryCtxRetain(&context, 0));
	must(cuCtxSetCurrent(context));
	printf("free: %d\n", (int)cuMemFree(p));
	must(cuMemAlloc(&p, BYTES));
	printf("anew: %d\n", (int)cuMemsetD8(p, 1, BYTES));
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 77; /* test_segments.py runs it */
	must(cuInit(0));
	must(cuDevicePrimaryCtxRetain(&context, 0));
	must(cuCtxSetCurrent(context));
	within(!strcmp(argv[2], "reset"));
	return 0;
}
