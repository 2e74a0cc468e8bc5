/*
 * Description: the simulated driver's cuGetProcAddress gives exactly what
 * dlsym gives, by version and default stream; calls are counted under their
 * exact names, and fail when they are told to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tests/sim/simtest.h"

static void *library;

/* The exported name of what cuGetProcAddress answers, "-" for nothing. */
static const char *found(const char *base, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *pfn = &status;
	Dl_info info;
	CUresult err;

	err = cuGetProcAddress(base, &pfn, version, flags, &status);
	if (err) {
		IS(err, CUDA_ERROR_NOT_FOUND);
		HOLDS(!pfn);
		HOLDS(status != CU_GET_PROC_ADDRESS_SUCCESS);
		return "-";
	}
	IS(status, CU_GET_PROC_ADDRESS_SUCCESS);
	if (!dladdr(pfn, &info) || info.dli_saddr != pfn)
		return "?";
	HOLDS(dlsym(library, info.dli_sname) == pfn);
	return info.dli_sname;
}

static void expect(const char *base, int version, cuuint64_t flags,
		   const char *want)
{
	const char *got = found(base, version, flags);

	if (!strcmp(got, want))
		return;
	printf("%s, %d, %llu: %s, not %s\n", base, version,
	       (unsigned long long)flags, got, want);
	sim_test_failures++;
}

static void versions(void)
{
	const cuuint64_t own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	expect("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
	expect("cuMemAlloc", 3010, 0, "-");
	expect("cuMemAlloc", 12000, own, "cuMemAlloc_v2");
	expect("cuMemAlloc_v2", 12000, 0, "-");
	expect("cuMem", 12000, 0, "-");
	expect("", 12000, 0, "-");
	expect("curl_easy_init", 12000, 0, "-");
	expect("cuInit", 2000, 0, "cuInit");
	expect("cuCtxCreate", 2000, 0, "cuCtxCreate");
	expect("cuCtxCreate", 11030, 0, "cuCtxCreate_v2");
	expect("cuCtxCreate", 12000, 0, "cuCtxCreate_v3");
	expect("cuMemAllocAsync", 11020, 0, "cuMemAllocAsync");
	expect("cuMemAllocAsync", 11020, own, "cuMemAllocAsync_ptsz");
	expect("cuMemAllocAsync", 11010, own, "-");
	expect("cuMemcpyHtoD", 3020, own, "cuMemcpyHtoD_v2_ptds");
	expect("cuMemcpyHtoD", 3020, 1, "cuMemcpyHtoD_v2");
	expect("cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture");
	expect("cuStreamBeginCapture", 12000, own,
	       "cuStreamBeginCapture_v2_ptsz");
	expect("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
	expect("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
	expect("cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2");
	expect("cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags");
#if CUDA_VERSION >= 13000
	expect("cuCtxCreate", 13000, 0, "cuCtxCreate_v4");
	expect("cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2");
#endif
}

static void wrong_use(void)
{
	void *pfn;

	IS(cuGetProcAddress(NULL, &pfn, 12000, 0, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuGetProcAddress("cuInit", NULL, 12000, 0, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuGetProcAddress("cuInit", &pfn, 12000, 4, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuGetProcAddress("cuInit", &pfn, 99999, 0, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuGetProcAddress("cuInit", &pfn, 12000, 0, NULL), 0);
	HOLDS(pfn == dlsym(library, "cuInit"));
}

static void counts(void)
{
	CUdeviceptr p;

	IS(gpusim_calls("cuMemAlloc"), -1);
	gpusim_reset_counts();
	NEED(cuMemAlloc(&p, 512));
	IS(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
	IS(gpusim_calls("cuMemAlloc_v2"), 2);
	IS(gpusim_calls("cuMemsetD8Async"), 0);
	NEED(cuMemsetD8Async(p, 1, 1, NULL));
	IS(gpusim_calls("cuMemsetD8Async"), 1);
	IS(gpusim_calls("cuMemsetD8Async_ptsz"), 0);
	NEED(cuMemFree(p));
}

static void failures(void)
{
	CUdeviceptr p = 0;

	IS(gpusim_fail("cuNothing", 1, 0), -1);
	IS(gpusim_fail("cuMemAlloc_v2", 2, 0), 0);
	NEED(cuMemAlloc(&p, 512));
	IS(cuMemAlloc(&p, 512), CUDA_ERROR_OUT_OF_MEMORY);
	NEED(cuMemFree(p));
	NEED(cuMemAlloc(&p, 512));
	IS(gpusim_fail("cuMemFree_v2", 1, 0), 0);
	IS(cuMemFree(p), CUDA_ERROR_UNKNOWN);
	IS(gpusim_used_bytes(0), 2 * MIB); /* it did nothing */
	IS(gpusim_fail_from("cuMemFree_v2", 2, CUDA_ERROR_ECC_UNCORRECTABLE),
	   0);
	IS(cuMemFree(0), 0);
	IS(cuMemFree(p), CUDA_ERROR_ECC_UNCORRECTABLE);
	IS(cuMemFree(p), CUDA_ERROR_ECC_UNCORRECTABLE);
	IS(gpusim_fail("cuMemFree_v2", 0, 0), 0);
	IS(cuMemFree(p), 0);
}

int main(void)
{
	CUuuid id = {{0}};
	const void *table = &id;
	char handle[64] = {0};

	library = dlopen("libcuda.so.1", RTLD_NOW);
	NEED(!library);
	versions(); /* works before cuInit */
	wrong_use();
	IS(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
	sim_test_begin("memory:1GiB");
	IS(cuIpcGetMemHandle((CUipcMemHandle *)(void *)handle, 0),
	   CUDA_ERROR_NOT_SUPPORTED);
	counts();
	failures();
	return sim_test_end();
}
