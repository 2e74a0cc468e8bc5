/*
 * Copy bandwidth through device memory, in bytes read and written a second:
 * between two large buffers, taken from a fresh process ("fresh") and after
 * many mixed blocks came and went ("churned"), by the copy engine and by a
 * kernel.
 *
 *   bandwidth [--gib G] [--turns N]
 *
 * One line `bandwidth {json}` a combination; the last line is `result`.
 */
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

#define CHECK(call) check((call), #call)

void check(cudaError_t status, const char *what)
{
	if (status == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
	exit(1);
}

uint64_t state = 88172645463325252ull;

uint64_t draw()
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

__global__ void copy(uint4 *to, const uint4 *from, size_t count)
{
	size_t stride = (size_t)gridDim.x * blockDim.x;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	     i < count; i += stride)
		to[i] = from[i];
}

__global__ void fill(uint4 *p, size_t count, unsigned key)
{
	size_t stride = (size_t)gridDim.x * blockDim.x;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	     i < count; i += stride)
		p[i] = make_uint4((unsigned)i, key, (unsigned)(i >> 32), ~key);
}

__global__ void differing(const uint4 *p, size_t count, unsigned key,
			  unsigned long long *wrong)
{
	size_t stride = (size_t)gridDim.x * blockDim.x;
	unsigned long long bad = 0;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	     i < count; i += stride)
		bad += p[i].x != (unsigned)i || p[i].y != key ||
		       p[i].z != (unsigned)(i >> 32) || p[i].w != ~key;
	if (bad)
		atomicAdd(wrong, bad);
}

constexpr int kBlocks = 132 * 16, kThreads = 512;

/* Blocks of all sizes come and go; all are free at the end. */
void churn(size_t budget)
{
	std::vector<std::pair<void *, size_t>> live;
	size_t held = 0;

	for (int i = 0; i < 4000; i++) {
		uint64_t kind = draw() % 100;
		size_t bytes = 1 + draw() % (kind < 50   ? 1u << 20
					     : kind < 85 ? 16u << 20
							 : 256u << 20);
		void *p;

		while (held + bytes > budget) {
			size_t victim = draw() % live.size();

			CHECK(cudaFree(live[victim].first));
			held -= live[victim].second;
			live[victim] = live.back();
			live.pop_back();
		}
		CHECK(cudaMalloc(&p, bytes));
		live.emplace_back(p, bytes);
		held += bytes;
	}
	for (auto &block : live)
		CHECK(cudaFree(block.first));
}

unsigned long long measure(const char *when, size_t bytes, int turns)
{
	unsigned long long *wrong, bad;
	cudaEvent_t start, stop;
	uint4 *from, *to;
	size_t count = bytes / sizeof(*from);

	CHECK(cudaMalloc(&from, bytes));
	CHECK(cudaMalloc(&to, bytes));
	CHECK(cudaMalloc(&wrong, sizeof(*wrong)));
	CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
	CHECK(cudaEventCreate(&start));
	CHECK(cudaEventCreate(&stop));
	for (int engine = 0; engine < 2; engine++) {
		std::vector<double> rates;

		fill<<<kBlocks, kThreads>>>(from, count, 17 + engine);
		for (int turn = -2; turn < turns; turn++) {
			float ms;

			CHECK(cudaEventRecord(start));
			if (engine)
				CHECK(cudaMemcpyAsync(to, from, bytes,
						      cudaMemcpyDeviceToDevice));
			else
				copy<<<kBlocks, kThreads>>>(to, from, count);
			CHECK(cudaEventRecord(stop));
			CHECK(cudaEventSynchronize(stop));
			CHECK(cudaEventElapsedTime(&ms, start, stop));
			if (turn >= 0)
				rates.push_back(2.0 * bytes / (ms * 1e-3));
		}
		differing<<<kBlocks, kThreads>>>(to, count, 17 + engine, wrong);
		CHECK(cudaGetLastError());
		std::sort(rates.begin(), rates.end());
		printf("bandwidth {\"when\": \"%s\", \"by\": \"%s\", "
		       "\"bytes\": %zu, \"median\": %.0f, \"least\": %.0f, "
		       "\"most\": %.0f}\n",
		       when, engine ? "copy" : "kernel", bytes,
		       rates[rates.size() / 2], rates.front(), rates.back());
	}
	CHECK(cudaMemcpy(&bad, wrong, sizeof(bad), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(from));
	CHECK(cudaFree(to));
	CHECK(cudaFree(wrong));
	CHECK(cudaEventDestroy(start));
	CHECK(cudaEventDestroy(stop));
	return bad;
}

} // namespace

int main(int argc, char **argv)
{
	double gib = 4;
	int turns = 15;
	size_t available, total;
	unsigned long long wrong;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--gib"))
			gib = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--turns"))
			turns = atoi(argv[i + 1]);
	}
	if (gib <= 0 || turns < 1) {
		fprintf(stderr, "usage: bandwidth [--gib G] [--turns N]\n");
		return 2;
	}
	CHECK(cudaMemGetInfo(&available, &total));
	size_t bytes = (size_t)(gib * (1u << 30));

	if (bytes > available / 3)
		bytes = available / 3;
	bytes -= bytes % 16;
	wrong = measure("fresh", bytes, turns);
	churn(bytes);
	wrong += measure("churned", bytes, turns);
	/* Sizes of ordinary tensors, too small for the largest handles. */
	wrong += measure("48 MiB", 48u << 20, turns * 4);
	printf("result wrong=%llu\n", wrong);
	return wrong != 0;
}
