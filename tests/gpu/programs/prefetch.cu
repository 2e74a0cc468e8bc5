/*
 * Training in miniature, timed: batches come from pinned memory on a copy
 * stream, one ahead of the kernels in a compute stream. Each step allocates
 * its batch and two temporaries and frees them when its kernels are launched,
 * without waiting for anything.
 *
 *   prefetch [--steps N] [--mib M] [--passes P] [--early 1]
 *            [--alloc malloc|async|LIBRARY]
 *
 * --passes: work a word, hence the kernels' length; --early: each buffer is
 * freed right behind its last kernel, not at the end of the step. The last
 * line is `time_ms X checksum Y`: of the steps behind the warm-up, and of the
 * results, which are always the same.
 */
#include "allocator.h"
#include "gpu.cuh"

#include <vector>

namespace
{

constexpr int kAhead = 2; /* batches under way, hence pinned buffers */
constexpr unsigned kMostBlocks = 132 * 8;

__global__ void work(uint32_t *to, const uint32_t *from, uint32_t words,
		     int passes)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x) {
		uint32_t x = from[i];

		for (int pass = 0; pass < passes; pass++)
			x = pattern(x, pass);
		to[i] = x;
	}
}

__global__ void sum(const uint32_t *p, uint32_t words, Count *total)
{
	Count mine = 0;

	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x)
		mine += p[i];
	add_to(total, mine);
}

struct Slot {
	uint32_t *host, *batch;
	cudaEvent_t copied;
};

struct Loop {
	Allocator memory;
	cudaStream_t compute, copy;
	Slot slots[kAhead];
	uint32_t words;
	int passes;
	bool early;
	Count *totals;

	size_t bytes() const
	{
		return words * sizeof(uint32_t);
	}
	void send(int step);
	void use(int step);
};

void Loop::send(int step)
{
	Slot &slot = slots[step % kAhead];

	/* Until the pinned buffer's last copy is over. */
	CHECK(cudaEventSynchronize(slot.copied));
	for (int i = 0; i < 64; i++)
		slot.host[i] = pattern((uint32_t)step, (uint32_t)i);
	slot.batch = (uint32_t *)memory.get(bytes(), copy);
	CHECK(cudaMemcpyAsync(slot.batch, slot.host, bytes(),
			      cudaMemcpyHostToDevice, copy));
	CHECK(cudaEventRecord(slot.copied, copy));
}

void Loop::use(int step)
{
	Slot &slot = slots[step % kAhead];
	unsigned blocks = grid_for(words, kMostBlocks);
	uint32_t *first, *second;

	CHECK(cudaStreamWaitEvent(compute, slot.copied, 0));
	first = (uint32_t *)memory.get(bytes(), compute);
	work<<<blocks, kBlockSize, 0, compute>>>(first, slot.batch, words,
						 passes);
	if (early)
		memory.put(slot.batch, compute);
	second = (uint32_t *)memory.get(bytes(), compute);
	work<<<blocks, kBlockSize, 0, compute>>>(second, first, words, passes);
	if (early)
		memory.put(first, compute);
	sum<<<blocks, kBlockSize, 0, compute>>>(second, words, totals + step);
	CHECK(cudaGetLastError());
	if (!early) {
		memory.put(slot.batch, compute);
		memory.put(first, compute);
	}
	memory.put(second, compute);
}

} // namespace

int main(int argc, char **argv)
{
	long steps = 400, mib = 16, passes = 300, early = 0;
	const char *alloc = "malloc";
	double start = 0;
	Loop loop{};

	for (int i = 1; i < argc; i++)
		if (!number_option(argc, argv, &i, "--steps", 1, &steps) &&
		    !number_option(argc, argv, &i, "--mib", 1, &mib) &&
		    !number_option(argc, argv, &i, "--passes", 0, &passes) &&
		    !number_option(argc, argv, &i, "--early", 0, &early) &&
		    !text_option(argc, argv, &i, "--alloc", &alloc)) {
			fprintf(stderr, "usage: prefetch [--steps N] [--mib M] "
					"[--passes P] [--early 1] "
					"[--alloc malloc|async|LIBRARY]\n");
			return 2;
		}
	int warm = (int)(steps / 4 + 1), all = (int)steps + warm;
	std::vector<Count> totals(all);

	CHECK(cudaSetDevice(0));
	CHECK(cudaFree(nullptr)); /* the context, before anybody's allocator */
	loop.memory = find_allocator(alloc);
	loop.words = (uint32_t)(mib << 18);
	loop.passes = (int)passes;
	loop.early = early != 0;
	CHECK(cudaStreamCreateWithFlags(&loop.compute, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&loop.copy, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&loop.totals, all * sizeof(Count)));
	CHECK(cudaMemset(loop.totals, 0, all * sizeof(Count)));
	for (Slot &slot : loop.slots) {
		CHECK(cudaMallocHost(&slot.host, loop.bytes()));
		for (uint32_t i = 0; i < loop.words; i++)
			slot.host[i] = i;
		CHECK(cudaEventCreateWithFlags(&slot.copied,
					       cudaEventDisableTiming));
	}
	CHECK(cudaDeviceSynchronize());

	loop.send(0);
	for (int step = 0; step < all; step++) {
		if (step == warm) {
			CHECK(cudaDeviceSynchronize());
			start = now_ms();
		}
		if (step + 1 < all)
			loop.send(step + 1);
		loop.use(step);
	}
	CHECK(cudaDeviceSynchronize());
	double time = now_ms() - start;

	CHECK(cudaMemcpy(totals.data(), loop.totals, all * sizeof(Count),
			 cudaMemcpyDeviceToHost));
	printf("time_ms %.3f checksum %016llx\n", time,
	       (Count)hash_of(totals.data(), all));
	return 0;
}
