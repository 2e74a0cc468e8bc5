/*
 * Description: the simulated driver's plain memory: sizes, alignment, zeros,
 * error codes, accounting, pitch, managed, pinned and registered memory,
 * arrays, and what an address is.
 */
#include "tests/sim/simtest.h"

static void sizes(void)
{
	static const uint64_t bytes[] = {1, 512, 513, 4095, 4096, MIB, MIB + 1};
	static const uint64_t align[] = {512,  512,  512,    512,
					 2048, 2048, 2 * MIB};

	for (int i = 0; i < 7; i++) {
		CUdeviceptr p[3];

		for (int k = 0; k < 3; k++) {
			NEED(cuMemAlloc(&p[k], bytes[i]));
			IS(p[k] % align[i], 0);
		}
		for (int k = 0; k < 3; k++)
			IS(cuMemFree(p[k]), 0);
	}
	IS(gpusim_used_bytes(0), 0);
}

static void wrong_values(void)
{
	CUdeviceptr p, q = 77;

	IS(cuMemAlloc(&q, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemAlloc(&q, 1ull << 46), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuMemAlloc(&q, ~0ull), CUDA_ERROR_OUT_OF_MEMORY);
	IS(q, 77);
	IS(cuMemFree(0), 0);
	IS(cuMemFree(16), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAlloc(&p, 4096));
	IS(cuMemFree(p + 512), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD8(p, 1, 4097), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD8(p + 4096, 1, 1), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD32(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemcpyDtoD(p + 2048, p, 2049), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemcpyDtoD(p + 2048, p, 2048), 0);
	IS(cuMemFree(p), 0);
	IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD8(p, 1, 1), CUDA_ERROR_INVALID_VALUE);
}

/* A freed, poisoned block comes back with the same address, and zeroed. */
static void zeros(uint64_t bytes)
{
	CUdeviceptr p, q;

	NEED(cuMemAlloc(&p, bytes));
	IS(sim_test_word(p), 0);
	NEED(cuMemsetD32(p, 0xaaaaaaaa, bytes / 4));
	IS(sim_test_word(p + bytes - 4), 0xaaaaaaaa);
	NEED(cuMemFree(p));
	NEED(cuMemAlloc(&q, bytes));
	IS(q, p);
	IS(sim_test_word(q), 0);
	IS(sim_test_word(q + bytes - 4), 0);
	NEED(cuMemFree(q));
}

static void accounting(void)
{
	size_t before, after, total;
	CUdeviceptr p, q, small[8];

	NEED(cuMemGetInfo(&before, &total));
	IS(total, GIB);
	IS(before, total - gpusim_context_bytes(0));
	NEED(cuMemAlloc(&p, 3 * MIB));
	IS(gpusim_used_bytes(0), 4 * MIB);
	for (int i = 0; i < 8; i++)
		NEED(cuMemAlloc(&small[i], 1000));
	IS(gpusim_used_bytes(0), 6 * MIB); /* they share a granule */
	NEED(cuMemGetInfo(&after, &total));
	IS(before - after, 6 * MIB);
	IS(cuMemAlloc(&q, after + MIB), CUDA_ERROR_OUT_OF_MEMORY);
	NEED(cuMemAlloc(&q, after)); /* to the last byte */
	IS(cuMemAlloc(&p, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	NEED(cuMemFree(q));
	NEED(cuMemFree(p));
	for (int i = 0; i < 8; i++)
		NEED(cuMemFree(small[i]));
	IS(gpusim_used_bytes(0), 0);
	HOLDS(gpusim_peak_bytes(0) >= after);
}

static void pitch(void)
{
	unsigned char host[7 * 100], back[7 * 100];
	CUDA_MEMCPY2D copy = {0};
	CUdeviceptr p;
	size_t step;

	NEED(cuMemAllocPitch(&p, &step, 100, 7, 4));
	IS(step, 512);
	for (int i = 0; i < 700; i++)
		host[i] = (unsigned char)i;
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = host;
	copy.srcPitch = 100;
	copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = p;
	copy.dstPitch = step;
	copy.WidthInBytes = 100;
	copy.Height = 7;
	IS(cuMemcpy2D(&copy), 0);
	IS(sim_test_word(p + 512) & 0xff, 100);
	IS(sim_test_word(p + 100), 0); /* the padding */
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = back;
	copy.dstPitch = 100;
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = p;
	copy.srcPitch = step;
	IS(cuMemcpy2D(&copy), 0);
	IS(memcmp(host, back, 700), 0);
	copy.Height = 8;
	IS(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD2D8(p, step, 9, 100, 7), 0);
	IS(sim_test_word(p + 6 * step), 0x09090909);
	IS(sim_test_word(p + 6 * step + 100), 0);
	NEED(cuMemFree(p));
}

static void host_memory(void)
{
	static char own[8192];
	unsigned *pinned, flags, type;
	CUdeviceptr p, d;

	NEED(cuMemHostAlloc((void **)&pinned, 1 << 20, 0));
	IS((uintptr_t)pinned % 4096, 0);
	NEED(cuMemAlloc(&p, 1 << 20));
	NEED(cuMemsetD32(p, 5, 1 << 18));
	pinned[7] = 0;
	NEED(cuMemcpyDtoHAsync(pinned, p, 1 << 20, NULL));
	NEED(cuStreamSynchronize(NULL));
	IS(pinned[7], 5);
	IS(cuMemHostGetDevicePointer(&d, pinned, 0), 0);
	IS(d, (uintptr_t)pinned);
	IS(cuMemHostGetFlags(&flags, pinned), 0);
	IS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				 (CUdeviceptr)pinned),
	   0);
	IS(type, CU_MEMORYTYPE_HOST);
	IS(cuMemFreeHost(pinned + 1), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemFreeHost(pinned), 0);
	IS(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemHostRegister(own, sizeof(own), 0), 0);
	IS(cuMemHostRegister(own + 100, 100, 0),
	   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	IS(cuMemcpyDtoH(own, p, sizeof(own)), 0);
	IS(own[0], 5);
	IS(cuMemHostUnregister(own), 0);
	IS(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	IS(cuMemFree(p), 0);
}

static void managed(void)
{
	unsigned type;
	char is;
	CUdeviceptr p;

	IS(cuMemAllocManaged(&p, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemsetD32(p, 3, 1024));
	NEED(cuCtxSynchronize());
	IS(((uint32_t *)(uintptr_t)p)[1023], 3);
	NEED(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
	IS(is, 1);
	NEED(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	IS(type, CU_MEMORYTYPE_DEVICE);
	IS(cuMemFree(p), 0);
}

static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {0}, back;
	CUDA_MEMCPY2D copy = {0};
	unsigned char in[64], out[64] = {0};
	CUmipmappedArray mipmap;
	CUarray array, level;
	CUdeviceptr p;

	desc.Width = 16;
	desc.Height = 4;
	desc.Format = CU_AD_FORMAT_UNSIGNED_INT8;
	desc.NumChannels = 1;
	NEED(cuArray3DCreate(&array, &desc));
	HOLDS(gpusim_used_bytes(0) > 0);
	IS(cuArray3DGetDescriptor(&back, array), 0);
	IS(back.Width, 16);
	memset(in, 42, sizeof(in));
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = in;
	copy.srcPitch = 16;
	copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.dstArray = array;
	copy.WidthInBytes = 16;
	copy.Height = 4;
	IS(cuMemcpy2D(&copy), 0);
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.srcArray = array;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = out;
	copy.dstPitch = 16;
	IS(cuMemcpy2D(&copy), 0);
	IS(memcmp(in, out, 64), 0);
	IS(cuMemcpyHtoA(array, 10, "abcd", 4), 0);
	IS(cuMemcpyAtoH(out, array, 8, 8), 0);
	IS(memcmp(out, "**abcd**", 8), 0);
	NEED(cuMemAlloc(&p, 4096));
	IS(cuMemcpyAtoD(p, array, 10, 4), 0);
	IS(sim_test_word(p), 0x64636261);
	IS(cuMemcpyDtoA(array, 0, p, 4), 0);
	IS(cuMemcpyAtoA(array, 4, array, 0, 4), 0);
	IS(cuMemcpyAtoH(out, array, 0, 8), 0);
	IS(memcmp(out, "abcdabcd", 8), 0);
	NEED(cuMemFree(p));
	IS(cuArrayDestroy(array), 0);
	IS(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	NEED(cuMipmappedArrayCreate(&mipmap, &desc, 3));
	IS(cuMipmappedArrayGetLevel(&level, mipmap, 2), 0);
	IS(cuArray3DGetDescriptor(&back, level), 0);
	IS(back.Width, 4);
	IS(cuMipmappedArrayGetLevel(&level, mipmap, 3),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuMipmappedArrayDestroy(mipmap), 0);
	IS(gpusim_used_bytes(0), 0);
}

static void boxes(CUcontext ctx)
{
	CUDA_MEMCPY3D_PEER box = {0};
	CUdeviceptr p;

	NEED(cuMemAlloc(&p, 64 * KIB));
	NEED(cuMemsetD32(p, 1, 16 * KIB));
	/* two slices of three rows of 8 bytes, into another place */
	box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcContext = box.dstContext = ctx;
	box.srcDevice = p;
	box.srcPitch = 16;
	box.srcHeight = 4;
	box.dstDevice = p + 32 * KIB;
	box.dstPitch = 32;
	box.dstHeight = 4;
	box.dstZ = 1;
	box.WidthInBytes = 8;
	box.Height = 3;
	box.Depth = 2;
	NEED(cuMemsetD32(p + 32 * KIB, 0, 8 * KIB));
	IS(cuMemcpy3DPeer(&box), 0);
	IS(sim_test_word(p + 32 * KIB), 0);
	IS(sim_test_word(p + 32 * KIB + 128 + 2 * 32 + 4), 1);
	IS(sim_test_word(p + 32 * KIB + 128 + 2 * 32 + 8), 0);
	IS(sim_test_word(p + 32 * KIB + 256 + 2 * 32 + 4), 1);
	IS(sim_test_word(p + 32 * KIB + 256 + 3 * 32), 0);
	box.Depth = 2000;
	IS(cuMemcpy3DPeer(&box), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemFree(p));
}

#if CUDA_VERSION >= 13000
static void batch(void)
{
	CUmemcpyAttributes attr = {0};
	CUdeviceptr p, to[2], from[2];
	size_t sizes[] = {4, 8}, first = 0;
	CUstream stream;

	NEED(cuStreamCreate(&stream, 0));
	NEED(cuMemAlloc(&p, 4096));
	NEED(cuMemsetD32(p, 3, 8));
	attr.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	from[0] = from[1] = p;
	to[0] = p + 1024;
	to[1] = p + 2048;
	IS(cuMemcpyBatchAsync(to, from, sizes, 2, &attr, &first, 1, stream), 0);
	IS(cuStreamSynchronize(stream), 0);
	IS(sim_test_word(p + 1024), 3);
	IS(sim_test_word(p + 2052), 3);
	to[1] = p + 4092;
	IS(cuMemcpyBatchAsync(to, from, sizes, 2, &attr, &first, 1, stream),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuMemcpyBatchAsync(to, from, sizes, 1, &attr, &first, 1, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemFree(p));
	NEED(cuStreamDestroy(stream));
}
#endif

static void addresses(CUcontext ctx)
{
	CUpointer_attribute ask[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	int type = -1, ordinal = -1, local = 0;
	void *answers[] = {&type, &ordinal};
	CUcontext owner;
	CUdeviceptr p, base;
	size_t size;

	NEED(cuMemAlloc(&p, 5000));
	IS(cuMemGetAddressRange(&base, &size, p + 4999), 0);
	IS(base, p);
	IS(size, 5000);
	IS(cuMemGetAddressRange(&base, &size, p + 5000), CUDA_ERROR_NOT_FOUND);
	IS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p + 9),
	   0);
	HOLDS(owner == ctx);
	IS(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
				 p + 9),
	   0);
	IS(base, p);
	IS(cuPointerGetAttributes(2, ask, answers, p), 0);
	IS(type, CU_MEMORYTYPE_DEVICE);
	IS(ordinal, 0);
	IS(cuPointerGetAttributes(2, ask, answers, (CUdeviceptr)&local), 0);
	IS(type, 0);
	IS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				 (CUdeviceptr)&local),
	   CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemFree(p));
}

/* More memory than the machine has, untouched. */
static void large(void)
{
	CUdeviceptr p;

	NEED(cuMemAlloc(&p, 900 * MIB));
	IS(cuMemsetD8(p + 899 * MIB, 1, MIB), 0);
	IS(sim_test_word(p + 900 * MIB - 4), 0x01010101);
	NEED(cuMemFree(p));
}

int main(void)
{
	CUcontext ctx = sim_test_begin("memory:1GiB");

	sizes();
	wrong_values();
	zeros(512);
	zeros(64 * KIB);
	zeros(MIB);
	zeros(16 * MIB);
	accounting();
	pitch();
	host_memory();
	managed();
	arrays();
	boxes(ctx);
#if CUDA_VERSION >= 13000
	batch();
#endif
	addresses(ctx);
	large();
	return sim_test_end();
}
