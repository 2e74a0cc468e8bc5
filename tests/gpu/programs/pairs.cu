/*
 * Pairs (pairs.h) of cudaMalloc+cudaFree, or of cudaMallocAsync+cudaFreeAsync
 * on a stream a thread.
 *
 *   pairs --api malloc|async [...]
 */
#include <cuda_runtime.h>

#include "pairs.h"

namespace
{

#define CHECK(call) check((call), #call)

void check(cudaError_t status, const char *what)
{
	if (status == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
	exit(1);
}

class Memory
{
	const bool async;
	cudaStream_t stream = nullptr;

      public:
	Memory(const pairs::Plan &plan, bool worker)
	    : async(plan.api == "async")
	{
		if (!worker)
			return;
		CHECK(cudaSetDevice(0));
		CHECK(cudaStreamCreateWithFlags(&stream,
						cudaStreamNonBlocking));
	}

	~Memory()
	{
		if (!stream)
			return;
		CHECK(cudaStreamSynchronize(stream));
		CHECK(cudaStreamDestroy(stream));
	}

	void *take(size_t bytes)
	{
		void *p;

		if (async)
			CHECK(cudaMallocAsync(&p, bytes, stream));
		else
			CHECK(cudaMalloc(&p, bytes));
		return p;
	}

	void give(void *p)
	{
		if (async)
			CHECK(cudaFreeAsync(p, stream));
		else
			CHECK(cudaFree(p));
	}

	void settle()
	{
		CHECK(cudaDeviceSynchronize());
	}
};

} // namespace

int main(int argc, char **argv)
{
	pairs::Options options = pairs::read(argc, argv, {"malloc", "async"});
	cudaMemPool_t pool;

	CHECK(cudaSetDevice(0));
	CHECK(cudaFree(nullptr));
	if (options.plan.api == "async") {
		/* Keep what is freed: a warm pool is the fair comparison. */
		uint64_t keep = UINT64_MAX;

		CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
		CHECK(cudaMemPoolSetAttribute(
			pool, cudaMemPoolAttrReleaseThreshold, &keep));
	}
	pairs::measure_all<Memory>(options);
	return 0;
}
