/*
 * Graphs that allocate: one whose memory fits under the limit, launched and
 * checked, then one whose memory does not.
 */
#include <stdio.h>
#include <string.h>

#include <cuda_runtime_api.h>

#define SMALL (1ull << 30)

static cudaError_t build(cudaGraph_t *graph, size_t bytes, unsigned char *out)
{
	struct cudaMemAllocNodeParams alloc;
	struct cudaMemsetParams set;
	cudaGraphNode_t nodes[3], freed;
	cudaError_t rc = cudaGraphCreate(graph, 0);

	memset(&alloc, 0, sizeof(alloc));
	alloc.poolProps.allocType = cudaMemAllocationTypePinned;
	alloc.poolProps.location.type = cudaMemLocationTypeDevice;
	alloc.bytesize = bytes;
	if (!rc)
		rc = cudaGraphAddMemAllocNode(&nodes[0], *graph, NULL, 0,
					      &alloc);
	memset(&set, 0, sizeof(set));
	set.dst = alloc.dptr;
	set.value = 42;
	set.elementSize = 1;
	set.width = bytes;
	set.height = 1;
	if (!rc)
		rc = cudaGraphAddMemsetNode(&nodes[1], *graph, &nodes[0], 1,
					    &set);
	if (!rc)
		rc = cudaGraphAddMemcpyNode1D(&nodes[2], *graph, &nodes[1], 1,
					      out,
					      (char *)alloc.dptr + bytes - 1, 1,
					      cudaMemcpyDeviceToHost);
	if (!rc)
		rc = cudaGraphAddMemFreeNode(&freed, *graph, &nodes[2], 1,
					     alloc.dptr);
	return rc;
}

static cudaError_t launch(cudaGraph_t graph)
{
	cudaGraphExec_t exec;
	cudaError_t rc = cudaGraphInstantiate(&exec, graph, 0);

	if (!rc)
		rc = cudaGraphLaunch(exec, 0);
	return rc ? rc : cudaDeviceSynchronize();
}

int main(void)
{
	size_t free_bytes = 0, total = 0, then = 0;
	unsigned char out = 0;
	cudaGraph_t graph;
	cudaError_t rc, refused;
	void *p;

	printf("start\n");
	fflush(stdout);
	rc = cudaMemGetInfo(&free_bytes, &total);
	/* The pool has some, too. */
	if (!rc)
		rc = cudaMalloc(&p, 64 << 20);
	if (!rc)
		rc = build(&graph, SMALL, &out);
	if (!rc)
		rc = launch(graph);
	if (rc)
		printf("error %d\n", (int)rc);
	cudaMemGetInfo(&then, &total);
	refused = build(&graph, total, &out);
	printf("result free=%zu total=%zu took=%zd value=%d refused=%d\n",
	       free_bytes, total, (ssize_t)(free_bytes - then), out,
	       (int)refused);
	return rc != cudaSuccess;
}
