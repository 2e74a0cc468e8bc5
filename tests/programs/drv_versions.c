/*
 * Description: cuGetProcAddress in both forms, called before cuInit, gives
 * for each version asked exactly the entry point that the driver gives.
 *
 * Entry points are named by what dlsym on the driver's handle returns, so the
 * lines are the same whether or not some of them are replaced: a replacement
 * must be the same one through every door.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <cuda.h>

typedef CUresult v1_fn(const char *, void **, int, cuuint64_t);
typedef CUresult v2_fn(const char *, void **, int, cuuint64_t,
		       CUdriverProcAddressQueryResult *);

static void *driver;

static const char *const exports[] = {
	"cuCtxCreate",
	"cuCtxCreate_v2",
	"cuCtxCreate_v3",
	"cuCtxCreate_v4",
	"cuMemAlloc",
	"cuMemAlloc_v2",
	"cuMemFree",
	"cuMemFree_v2",
	"cuMemAllocPitch_v2",
	"cuMemAllocAsync",
	"cuMemFreeAsync",
	"cuMemAllocAsync_ptsz",
	"cuMemFreeAsync_ptsz",
	"cuGetProcAddress",
	"cuGetProcAddress_v2",
	"cuInit",
	"cuMemGetAddressRange_v2",
	"cuStreamBeginCapture_v2",
	"cuStreamBeginCapture_v2_ptsz",
	"cuStreamBeginCapture",
	"cuCtxDestroy",
	"cuCtxDestroy_v2",
	"cuStreamSynchronize",
	"cuStreamSynchronize_ptsz",
};

static const char *name_of(void *function)
{
	if (!function)
		return "NULL";
	for (size_t i = 0; i < sizeof(exports) / sizeof(*exports); i++)
		if (dlsym(driver, exports[i]) == function)
			return exports[i];
	return "something else";
}

static void ask(const char *symbol, int version, cuuint64_t flags)
{
	v1_fn *v1 = (v1_fn *)dlsym(driver, "cuGetProcAddress");
	v2_fn *v2 = (v2_fn *)dlsym(driver, "cuGetProcAddress_v2");
	CUdriverProcAddressQueryResult status = 99;
	void *one = (void *)1, *two = (void *)1;
	CUresult rc = v1(symbol, &one, version, flags);

	printf("%s %d flags %d: ", symbol, version, (int)flags);
	if (rc == CUDA_SUCCESS)
		printf("%s", name_of(one));
	else
		printf("error %d", (int)rc);
	rc = v2(symbol, &two, version, flags, &status);
	if (rc == CUDA_SUCCESS)
		printf(", v2 %s", name_of(two));
	else
		printf(", v2 error %d", (int)rc);
	printf(", status %d\n", (int)status);
}

int main(void)
{
	static const int versions[] = {2000,  3020,  7000,  11020, 11030,
				       11040, 12000, 12030, 12050, 13000};
	static const char *const symbols[] = {
		"cuCtxCreate",
		"cuCtxDestroy",
		"cuMemAlloc",
		"cuMemFree",
		"cuInit",
		"cuMemAllocPitch",
		"cuMemAllocAsync",
		"cuMemFreeAsync",
		"cuGetProcAddress",
		"cuMemGetAddressRange",
		"cuStreamBeginCapture",
		"cuStreamSynchronize",
		"cuNoSuchFunction",
		"",
	};
	v2_fn *v2;
	void *again = NULL;
	CUdriverProcAddressQueryResult status;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		return 77;
	for (size_t s = 0; s < sizeof(symbols) / sizeof(*symbols); s++)
		for (size_t v = 0; v < sizeof(versions) / sizeof(*versions);
		     v++)
			for (cuuint64_t flags = 0; flags < 3; flags++)
				ask(symbols[s], versions[v], flags);

	/* Without a place for the status, and cuGetProcAddress through itself,
	 * which is how cudart gets it. */
	v2 = (v2_fn *)dlsym(driver, "cuGetProcAddress_v2");
	printf("no status: %d\n",
	       (int)v2("cuMemAlloc", &again, 12000, 0, NULL));
	printf("the same: %s\n", name_of(again));
	printf("through itself: %d\n",
	       (int)v2("cuGetProcAddress", &again, 12000, 0, &status));
	v2 = (v2_fn *)again;
	printf("and from there: %d\n",
	       (int)v2("cuMemFree", &again, 12000, 0, &status));
	printf("%s\n", name_of(again));
	printf("NULL result pointer: %d\n",
	       (int)v2("cuMemFree", NULL, 12000, 0, &status));
	return 0;
}
