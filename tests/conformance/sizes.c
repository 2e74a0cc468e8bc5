/* Allocations of every size, wrong frees, pitch. */
#include <stdint.h>
#include <string.h>

#include "conformance.h"

static const size_t sizes[] = {1,       255,      512,      513,
			       4 * KIB, 64 * KIB, MIB,      MIB + 1,
			       3 * MIB, 32 * MIB, 33 * MIB, 200 * MIB};
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static long long aligned(const void *p)
{
	return (uintptr_t)p % 512 == 0;
}

/* Written to its last byte, and there again. */
static void use(char *p, size_t bytes)
{
	char first = 0, last = 0;

	tell_rt("set", cudaMemset(p, 0x31, bytes));
	tell_rt("first byte", cudaMemcpy(&first, p, 1, cudaMemcpyDeviceToHost));
	tell_rt("last byte",
		cudaMemcpy(&last, p + bytes - 1, 1, cudaMemcpyDeviceToHost));
	tell_value("right bytes", first == 0x31 && last == 0x31);
}

static void by_runtime(void)
{
	for (size_t i = 0; i < NUM_SIZES; i++) {
		char *p = NULL;

		tell_prefix("%zu bytes", sizes[i]);
		tell_rt("alloc", cudaMalloc((void **)&p, sizes[i]));
		tell_value("aligned", aligned(p));
		use(p, sizes[i]);
		if (sizes[i] > 1)
			tell_rt("free of its middle",
				cudaFree(p + sizes[i] / 2));
		tell_rt("free", cudaFree(p));
		tell_rt("free again", cudaFree(p));
	}
}

static void by_driver(void)
{
	primary_context();
	for (size_t i = 0; i < NUM_SIZES; i++) {
		CUdeviceptr p = 0;

		tell_prefix("%zu bytes", sizes[i]);
		tell("alloc", (int)cuMemAlloc(&p, sizes[i]));
		tell_value("aligned", p % 512 == 0);
		tell("set", (int)cuMemsetD8(p, 7, sizes[i]));
		if (sizes[i] > 1)
			tell("free of its last byte",
			     (int)cuMemFree(p + sizes[i] - 1));
		tell("free", (int)cuMemFree(p));
		tell("free again", (int)cuMemFree(p));
	}
}

static void nothing(void)
{
	void *p = (void *)77;
	CUdeviceptr d = 77;

	tell_rt("free NULL first of all", cudaFree(NULL));
	tell_rt("alloc 0", cudaMalloc(&p, 0));
	tell_value("NULL", p == NULL);
	p = (void *)77;
	tell_rt("alloc to NULL", cudaMalloc(NULL, 4 * KIB));
	tell_rt("alloc far too much", cudaMalloc(&p, (size_t)1 << 46));
	tell_rt("alloc SIZE_MAX", cudaMalloc(&p, SIZE_MAX));
	tell_rt("alloc SIZE_MAX less 511", cudaMalloc(&p, SIZE_MAX - 511));
	tell_rt("free 16", cudaFree((void *)16));
	tell_rt("free a host variable", cudaFree(&d));
	tell("driver: alloc 0", (int)cuMemAlloc(&d, 0));
	tell("driver: alloc to NULL", (int)cuMemAlloc(NULL, 4 * KIB));
	tell("driver: alloc far too much",
	     (int)cuMemAlloc(&d, (size_t)1 << 46));
	tell("driver: alloc SIZE_MAX", (int)cuMemAlloc(&d, SIZE_MAX));
	tell("driver: free 0", (int)cuMemFree(0));
	tell("driver: free 16", (int)cuMemFree(16));
}

static void pitch(void)
{
	static const size_t widths[] = {0, 1, 511, 512, 513, 5000, 100000};
	static const unsigned elements[] = {0, 1, 3, 4, 8, 16, 32};
	const struct cudaExtent box_size = {100, 7, 3};
	struct cudaPitchedPtr box;
	size_t step;
	void *p;

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		tell_prefix("width %zu", widths[i]);
		p = NULL;
		step = 0;
		tell_rt("alloc", cudaMallocPitch(&p, &step, widths[i], 3));
		tell_value("pitch", (long long)step);
		if (p)
			tell_rt("set", cudaMemset2D(p, step, 1, widths[i], 3));
		tell_rt("free", cudaFree(p));
	}
	primary_context();
	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
		CUdeviceptr d = 0;

		tell_prefix("elements of %u", elements[i]);
		step = 0;
		tell("alloc",
		     (int)cuMemAllocPitch(&d, &step, 700, 5, elements[i]));
		tell_value("pitch", (long long)step);
		tell("free", (int)cuMemFree(d));
	}
	tell_prefix(NULL);
	p = NULL;
	tell_rt("no rows", cudaMallocPitch(&p, &step, 100, 0));
	tell_rt("free", cudaFree(p));
	tell_rt("no place for the pitch", cudaMallocPitch(&p, NULL, 100, 2));
	tell_rt("no place for the address",
		cudaMallocPitch(NULL, &step, 100, 2));
	tell_rt("far too much", cudaMallocPitch(&p, &step, 1u << 20, 1u << 30));
	memset(&box, 0, sizeof(box));
	tell_rt("3D", cudaMalloc3D(&box, box_size));
	tell_value("pitch", (long long)box.pitch);
	tell_value("width", (long long)box.xsize);
	tell_value("height", (long long)box.ysize);
	tell_rt("free", cudaFree(box.ptr));
}

const struct section sizes_sections[] = {{"sizes", by_runtime},
					 {"sizes-driver", by_driver},
					 {"nothing", nothing},
					 {"pitch", pitch},
					 {NULL, NULL}};
