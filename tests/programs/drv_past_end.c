/*
 * Description: copies and sets that go past the end of their memory are
 * refused, whatever lies behind it, and change nothing there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define MIB ((size_t)1 << 20)
#define MAX (9 * MIB)

static CUstream stream;
static char *host;
static CUdeviceptr other; /* large enough for all of these */

static void lines(CUdeviceptr p, size_t n)
{
	printf("lines of %zu:", n);
	printf(" %d", cuMemcpy(p, other, n));
	printf(" %d", cuMemcpy(other, p, n));
	printf(" %d", cuMemcpyAsync(p, other, n, stream));
	printf(" %d", cuMemcpyHtoD(p, host, n));
	printf(" %d", cuMemcpyDtoH(host, p, n));
	printf(" %d", cuMemcpyDtoD(p, other, n));
	printf(" %d", cuMemcpyDtoD(other, p, n));
	printf(" %d", cuMemcpyHtoDAsync(p, host, n, stream));
	printf(" %d", cuMemcpyDtoHAsync(host, p, n, stream));
	printf(" %d", cuMemcpyDtoDAsync(other, p, n, stream));
	printf(" %d", cuMemsetD8(p, 1, n));
	printf(" %d", cuMemsetD16(p, 1, (n + 1) / 2));
	printf(" %d", cuMemsetD32(p, 1, (n + 3) / 4));
	printf(" %d", cuMemsetD8Async(p, 1, n, stream));
	printf(" %d\n", cuMemsetD32Async(p, 1, (n + 3) / 4, stream));
}

/* Rows of 64 bytes, 256 apart, the last of which ends `n` behind p. */
static void boxes(CUdeviceptr p, size_t n)
{
	size_t height = n < 64 ? 1 : (n - 64) / 256 + 1;
	size_t first = n - ((height - 1) * 256 + 64);
	CUDA_MEMCPY2D flat;
	CUDA_MEMCPY3D box;

	memset(&flat, 0, sizeof(flat));
	flat.srcMemoryType = CU_MEMORYTYPE_HOST;
	flat.srcHost = host;
	flat.srcPitch = 64;
	flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	flat.dstDevice = p;
	flat.dstPitch = 256;
	flat.dstXInBytes = first;
	flat.WidthInBytes = 64;
	flat.Height = height;
	if (first + 64 > 256) { /* a row within its pitch */
		flat.dstXInBytes = 0;
		flat.dstDevice = p + first;
	}
	printf("boxes to %zu:", n);
	printf(" %d", cuMemcpy2D(&flat));
	printf(" %d", cuMemcpy2DUnaligned(&flat));
	printf(" %d", cuMemcpy2DAsync(&flat, stream));
	memset(&box, 0, sizeof(box));
	box.dstMemoryType = CU_MEMORYTYPE_HOST;
	box.dstHost = host;
	box.dstPitch = 64;
	box.dstHeight = 1;
	box.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	box.srcDevice = flat.dstDevice;
	box.srcXInBytes = flat.dstXInBytes;
	box.srcPitch = 256;
	box.srcHeight = 1;
	box.WidthInBytes = 64;
	box.Height = 1;
	box.Depth = height;
	printf(" %d", cuMemcpy3D(&box));
	printf(" %d", cuMemcpy3DAsync(&box, stream));
	printf(" %d", cuMemsetD2D8(p + first, 256, 2, 64, height));
	printf(" %d\n",
	       cuMemsetD2D8Async(p + first, 256, 2, 64, height, stream));
}

/* Allocations beside each other: what is refused reached none of them. */
static void sizes(size_t bytes)
{
	unsigned char *seen = malloc(bytes);
	CUdeviceptr p[3];
	unsigned changed = 0;

	for (int i = 0; i < 3; i++) {
		cuMemAlloc(&p[i], bytes);
		cuMemsetD8(p[i], 0x55, bytes);
	}
	printf("-- %zu bytes\n", bytes);
	lines(p[1], bytes + 1);
	lines(p[1], bytes + 1 + 8 * MIB - 4096);
	if (bytes >= 64)
		boxes(p[1], bytes + 1);
	printf("from the middle: %d %d\n",
	       cuMemsetD8(p[1] + bytes / 2, 3, bytes + 1 - bytes / 2),
	       cuMemcpyDtoH(host, p[1] + bytes - 1, bytes + 1));
	cuStreamSynchronize(stream);
	for (int i = 0; i < 3; i++) {
		cuMemcpyDtoH(seen, p[i], bytes);
		for (size_t j = 0; j < bytes; j++)
			changed += seen[j] != 0x55;
	}
	printf("changed: %u\n", changed);
	lines(p[1], bytes / 4 * 4);
	if (bytes >= 64)
		boxes(p[1], bytes);
	printf("none: %d %d %d\n", cuMemsetD8(p[1], 1, 0),
	       cuMemcpyDtoH(host, p[1], 0), cuMemsetD2D8(p[1], 256, 1, 64, 0));
	for (int i = 0; i < 3; i++)
		cuMemFree(p[i]);
	free(seen);
}

int main(void)
{
	CUcontext ctx;
	CUdeviceptr p;

	if (cuInit(0) != CUDA_SUCCESS)
		return 77;
	if (cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) ||
	    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
	    cuMemAlloc(&other, 2 * MAX))
		return 1;
	host = malloc(2 * MAX);
	memset(host, 7, 2 * MAX);
	sizes(4);
	sizes(100);
	sizes(5000);
	sizes(300000);
	sizes(MIB);
	sizes(MIB + 4);
	sizes(5 * MIB);
	/* Without a context that comes first. */
	cuMemAlloc(&p, 100);
	cuCtxSetCurrent(NULL);
	printf("no context: %d\n", cuMemsetD8(p, 1, 4 * MIB));
	cuCtxSetCurrent(ctx);
	free(host);
	return 0;
}
