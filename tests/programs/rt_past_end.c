/*
 * Description: a copy or set past the end of its memory through the runtime:
 * cudaErrorInvalidValue, as last error too, and the next call works.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#define MIB ((size_t)1 << 20)

static void tell(const char *what, cudaError_t rc)
{
	cudaError_t last = cudaGetLastError();

	printf("%s: %d, last error %d, then %d\n", what, (int)rc, (int)last,
	       (int)cudaGetLastError());
}

static void sizes(size_t bytes)
{
	size_t far = bytes + 4 * MIB;
	char *host = calloc(1, far), *p, *q;

	printf("-- %zu bytes\n", bytes);
	cudaMalloc((void **)&p, bytes);
	cudaMalloc((void **)&q, far);
	tell("to the device", cudaMemcpy(p, host, far, cudaMemcpyHostToDevice));
	tell("to the host", cudaMemcpy(host, p, far, cudaMemcpyDeviceToHost));
	tell("within", cudaMemcpy(p, q, far, cudaMemcpyDeviceToDevice));
	tell("default", cudaMemcpy(q, p, far, cudaMemcpyDefault));
	tell("async", cudaMemcpyAsync(p, host, far, cudaMemcpyHostToDevice, 0));
	tell("set", cudaMemset(p, 1, far));
	tell("set async", cudaMemsetAsync(p, 1, far, 0));
	tell("all of it", cudaMemset(p, 1, bytes));
	tell("all of it", cudaMemcpy(host, p, bytes, cudaMemcpyDeviceToHost));
	tell("wait", cudaDeviceSynchronize());
	cudaFree(q);
	cudaFree(p);
	free(host);
}

int main(void)
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || !count)
		return 77;
	sizes(100);
	sizes(MIB);
	sizes(3 * MIB);
	return 0;
}
