/*
 * The least that a program on a card does: it makes a context, allocates once,
 * frees it and ends.
 */
#include <stdio.h>

#include <cuda_runtime.h>

int main(void)
{
	void *block;
	cudaError_t rc = cudaMalloc(&block, 4096);

	if (!rc)
		rc = cudaFree(block);
	if (rc)
		fprintf(stderr, "start: %s\n", cudaGetErrorString(rc));
	return rc ? 1 : 0;
}
