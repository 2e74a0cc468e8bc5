/*
 * Takes device memory in four ways in turn, until none of them gives any more,
 * and touches all of it. Prints what it was shown and what it got.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#define CHUNK (64u << 20)
#define MOST  4096

enum { PLAIN, ASYNC, MANAGED, ARRAY, WAYS };

static struct {
	void *p;
	int way;
} taken[MOST];

static cudaError_t take(int way, void **p)
{
	struct cudaChannelFormatDesc byte = {8, 0, 0, 0,
					     cudaChannelFormatKindUnsigned};
	struct cudaExtent shape = {8192, 8192, 0}; /* 64 MiB */
	cudaError_t rc;

	switch (way) {
	case PLAIN:
		rc = cudaMalloc(p, CHUNK);
		break;
	case ASYNC:
		rc = cudaMallocAsync(p, CHUNK, 0);
		break;
	case MANAGED:
		rc = cudaMallocManaged(p, CHUNK, cudaMemAttachGlobal);
		break;
	default:
		return cudaMalloc3DArray((cudaArray_t *)p, &byte, shape, 0);
	}
	/* Managed memory is on the card once it is used there. */
	return rc ? rc : cudaMemset(*p, way + 1, CHUNK);
}

static int check(int i)
{
	unsigned char last = 0;

	if (taken[i].way == ARRAY)
		return 0;
	return cudaMemcpy(&last, (char *)taken[i].p + CHUNK - 1, 1,
			  cudaMemcpyDefault) ||
	       last != taken[i].way + 1;
}

int main(void)
{
	size_t free_bytes = 0, total = 0;
	int n = 0, refused = 0, bad = 0;
	unsigned full = 0;

	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	cudaMemGetInfo(&free_bytes, &total);
	for (int way = 0; full != (1u << WAYS) - 1 && n < MOST;
	     way = (way + 1) % WAYS) {
		cudaError_t rc;

		if (full & 1u << way)
			continue;
		rc = take(way, &taken[n].p);
		if (rc == cudaErrorMemoryAllocation) {
			full |= 1u << way;
			refused++;
			cudaGetLastError();
		} else if (rc) {
			printf("way %d: error %d\n", way, (int)rc);
			return 1;
		} else {
			taken[n++].way = way;
		}
	}
	sleep(1); /* to be looked at */
	for (int i = 0; i < n; i++)
		bad += check(i);
	printf("result free=%zu total=%zu taken=%llu refused=%d bad=%d\n",
	       free_bytes, total, (unsigned long long)n * CHUNK, refused, bad);
	return bad != 0;
}
