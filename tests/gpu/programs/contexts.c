/*
 * Two contexts on one card in one process, used by turns and by two threads,
 * each with memory of its own; copies between them; one is destroyed and made
 * anew while the other goes on. The last line tells a checksum of all of it.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#define MIB    ((size_t)1 << 20)
#define BLOCKS 24
#define ROUNDS 6

static CUdevice device;
static CUcontext context[2];
static uint64_t sums[2];

static void must_be(CUresult rc, const char *what, int line)
{
	if (rc == CUDA_SUCCESS)
		return;
	fprintf(stderr, "line %d: %s: %d\n", line, what, (int)rc);
	exit(3);
}
#define MUST(call) must_be((call), #call, __LINE__)

static void make(int i)
{
#if CUDA_VERSION >= 13000
	MUST(cuCtxCreate(&context[i], NULL, 0, device));
#else
	MUST(cuCtxCreate(&context[i], 0, device));
#endif
	MUST(cuCtxSetCurrent(NULL));
}

static size_t size_of(int i, int round)
{
	return (size_t)4 * (1 + (size_t)(i * 7919 + round * 104729) % 3000000);
}

static uint32_t last_word(CUdeviceptr p, size_t bytes)
{
	uint32_t word = 0;

	MUST(cuMemcpyDtoH(&word, p + bytes - 4, 4));
	return word;
}

/* In the context that is current. */
static uint64_t churn(unsigned who)
{
	CUdeviceptr block[BLOCKS];
	CUstream stream;
	uint64_t sum = 0;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BLOCKS; i++) {
			size_t bytes = size_of(i, round);

			MUST(cuMemAlloc(&block[i], bytes));
			MUST(cuMemsetD32Async(block[i],
					      who * 1000003u + (unsigned)i,
					      bytes / 4, stream));
		}
		MUST(cuStreamSynchronize(stream));
		for (int i = 0; i < BLOCKS; i++) {
			sum = sum * 31 + last_word(block[i], size_of(i, round));
			MUST(cuMemFree(block[i]));
		}
	}
	MUST(cuStreamDestroy(stream));
	return sum;
}

static void *in_thread(void *arg)
{
	int i = (int)(intptr_t)arg;

	MUST(cuCtxSetCurrent(context[i]));
	sums[i] = churn((unsigned)i + 1);
	return NULL;
}

static void both(void)
{
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, in_thread,
				   (void *)(intptr_t)i))
			exit(3);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
}

/* From one to the other; each is freed where the other is current. */
static uint64_t across(void)
{
	CUdeviceptr from, to;
	uint64_t sum;

	MUST(cuCtxSetCurrent(context[0]));
	MUST(cuMemAlloc(&from, 5 * MIB));
	MUST(cuMemsetD32(from, 77, 5 * MIB / 4));
	MUST(cuCtxSynchronize());
	MUST(cuCtxSetCurrent(context[1]));
	MUST(cuMemAlloc(&to, 5 * MIB));
	MUST(cuMemcpyDtoD(to, from, 5 * MIB));
	MUST(cuCtxSynchronize());
	sum = last_word(to, 5 * MIB);
	MUST(cuMemFree(from));
	MUST(cuCtxSetCurrent(context[0]));
	MUST(cuMemFree(to));
	return sum;
}

int main(void)
{
	uint64_t sum = 0;

	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	make(0);
	make(1);
	for (int turn = 0; turn < 3; turn++) {
		both();
		sum = sum * 31 + sums[0] * 7 + sums[1] + across();
		MUST(cuCtxDestroy(context[turn % 2]));
		make(turn % 2);
	}
	MUST(cuCtxDestroy(context[0]));
	MUST(cuCtxDestroy(context[1]));
	printf("result sum=%016llx\n", (unsigned long long)sum);
	return 0;
}
