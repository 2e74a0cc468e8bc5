/*
 * Description: the same for the runtime: results and the last error of
 * cudaMalloc and cudaFree, through shared and static cudart.
 */
#include <stdio.h>

#include <cuda_runtime_api.h>

#define MIB ((size_t)1 << 20)

/* The call's result, then what it left as last error. */
static void tell(const char *what, cudaError_t rc)
{
	cudaError_t peek = cudaPeekAtLastError();
	cudaError_t last = cudaGetLastError();

	printf("%s: %d, last error %d %d, then %d\n", what, (int)rc, (int)peek,
	       (int)last, (int)cudaGetLastError());
}

static void wrong_places(size_t bytes)
{
	char *p, *q;

	printf("-- %zu bytes\n", bytes);
	tell("alloc", cudaMalloc((void **)&p, bytes));
	tell("alloc", cudaMalloc((void **)&q, bytes));
	tell("interior", cudaFree(p + 256));
	tell("last byte", cudaFree(p + bytes - 1));
	tell("right", cudaFree(p));
	tell("again", cudaFree(p));
	tell("the other", cudaFree(q));
	tell("the other again", cudaFree(q));
}

static void pitch(size_t width, size_t height)
{
	void *p = NULL;
	size_t step = 0;

	tell("pitch", cudaMallocPitch(&p, &step, width, height));
	printf("pitch %zu for %zu x %zu, aligned %d\n", step, width, height,
	       (size_t)p % 512 == 0);
	if (p)
		tell("set", cudaMemset(p, 1, step * height));
	tell("free", cudaFree(p));
}

/* A failed call leaves the last error alone when the next one succeeds. */
static void sticky_last_error(void)
{
	void *p;

	cudaFree((void *)16);
	cudaMalloc(&p, 4096);
	cudaFree(p);
	printf("last error after later successes: %d\n",
	       (int)cudaGetLastError());
}

int main(void)
{
	void *p = (void *)77;
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || !count)
		return 77;
	tell("free NULL first of all", cudaFree(NULL));
	tell("alloc 0", cudaMalloc(&p, 0));
	printf("NULL: %d\n", p == NULL);
	tell("alloc to NULL", cudaMalloc(NULL, 4096));
	tell("alloc everything", cudaMalloc(&p, (size_t)1 << 46));
	tell("alloc SIZE_MAX", cudaMalloc(&p, ~(size_t)0));
	tell("free 16", cudaFree((void *)16));
	wrong_places(4096);
	wrong_places(MIB);
	wrong_places(96 * MIB);
	pitch(1, 1);
	pitch(100, 7);
	pitch(513, 100);
	pitch(3 * MIB, 3);
	pitch(0, 3);
	sticky_last_error();

	tell("alloc", cudaMalloc(&p, MIB));
	tell("reset", cudaDeviceReset());
	tell("free from before the reset", cudaFree(p));
	tell("alloc after the reset", cudaMalloc(&p, MIB));
	tell("set after the reset", cudaMemset(p, 7, MIB));
	tell("free after the reset", cudaFree(p));
	return 0;
}
