/*
 * Description: every way a program can reach the driver's allocator. Each
 * allocates and frees; how many of the calls gpupool saw is in its report.
 *
 * ld_doors [DOOR...]   all doors without an argument
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "tests/support/must.h"

typedef CUresult alloc_fn(CUdeviceptr *, size_t);
typedef CUresult free_fn(CUdeviceptr);
typedef CUresult v1_fn(const char *, void **, int, cuuint64_t);
typedef CUresult v2_fn(const char *, void **, int, cuuint64_t,
		       CUdriverProcAddressQueryResult *);

static void *driver;

static void *ask_v1(const char *symbol, void *door)
{
	void *found = NULL;

	MUST(((v1_fn *)door)(symbol, &found, 12000, 0));
	return found;
}

static void *ask_v2(const char *symbol, void *door)
{
	CUdriverProcAddressQueryResult status;
	void *found = NULL;

	MUST(((v2_fn *)door)(symbol, &found, 12000, 0, &status));
	return found;
}

/* The driver's `symbol` (as cuda.h spells it, without _v2) by that door. */
static void *enter(const char *door, const char *symbol)
{
	char exported[64];

	snprintf(exported, sizeof(exported), "%s_v2", symbol);
	if (!strcmp(door, "linked"))
		return strcmp(symbol, "cuMemAlloc") ? (void *)cuMemFree
						    : (void *)cuMemAlloc;
	if (!strcmp(door, "handle"))
		return dlsym(driver, exported);
	if (!strcmp(door, "default"))
		return dlsym(RTLD_DEFAULT, exported);
	if (!strcmp(door, "null"))
		return dlsym(NULL, exported);
	if (!strcmp(door, "next"))
		return dlsym(RTLD_NEXT, exported);
	if (!strcmp(door, "global"))
		return dlsym(dlopen(NULL, RTLD_LAZY), exported);
	if (!strcmp(door, "v1"))
		return ask_v1(symbol, dlsym(driver, "cuGetProcAddress"));
	if (!strcmp(door, "v2"))
		return ask_v2(symbol, dlsym(driver, "cuGetProcAddress_v2"));
	if (!strcmp(door, "linked-v2"))
		return ask_v2(symbol, (void *)cuGetProcAddress_v2);
	if (!strcmp(door, "nested"))
		return ask_v2(symbol,
			      ask_v2("cuGetProcAddress",
				     dlsym(driver, "cuGetProcAddress_v2")));
	printf("no such door: %s\n", door);
	exit(2);
}

static void use(const char *door)
{
	alloc_fn *alloc = (alloc_fn *)enter(door, "cuMemAlloc");
	free_fn *release = (free_fn *)enter(door, "cuMemFree");
	CUdeviceptr p[3];

	if (!alloc || !release) {
		printf("%s: not found\n", door);
		exit(1);
	}
	for (int i = 0; i < 3; i++)
		MUST(alloc(&p[i], 1 << 20));
	for (int i = 0; i < 3; i++)
		MUST(release(p[i]));
	printf("%s: 3 allocated and freed\n", door);
}

int main(int argc, char **argv)
{
	static const char *const doors[] = {
		"linked", "handle", "default", "null",      "next",
		"global", "v1",     "v2",      "linked-v2", "nested"};
	CUcontext context;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver || cuInit(0) != CUDA_SUCCESS)
		return 77;
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	for (int i = 1; i < argc; i++)
		use(argv[i]);
	for (size_t i = 0; argc == 1 && i < sizeof(doors) / sizeof(*doors); i++)
		use(doors[i]);
	return 0;
}
