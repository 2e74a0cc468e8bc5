/*
 * Description: the first thing that the program asks of the driver is a wait,
 * not memory. What is allocated then must come from a pool made from the
 * settings, not from a pool made before they were read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime_api.h>

#define CHECK(call)                                            \
	do {                                                   \
		cudaError_t error = call;                      \
		if (error != cudaSuccess) {                    \
			printf("%s: %d\n", #call, (int)error); \
			exit(1);                               \
		}                                              \
	} while (0)

int main(void)
{
	cudaStream_t stream;
	unsigned char back = 0;
	void *p, *q;

	CHECK(cudaDeviceSynchronize());
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < 100; i++) {
		CHECK(cudaMalloc(&p, 1 << 20));
		CHECK(cudaMalloc(&q, 3 << 20));
		CHECK(cudaMemsetAsync(p, i, 1 << 20, stream));
		CHECK(cudaMemcpyAsync(q, p, 1 << 20, cudaMemcpyDeviceToDevice,
				      stream));
		CHECK(cudaFree(p));
		CHECK(cudaMemcpy(&back, q, 1, cudaMemcpyDeviceToHost));
		CHECK(cudaFree(q));
		if (back != i) {
			printf("round %d: %d came back\n", i, back);
			return 1;
		}
	}
	CHECK(cudaStreamDestroy(stream));
	printf("100 rounds\n");
	return 0;
}
