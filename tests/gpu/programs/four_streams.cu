/*
 * cudaMalloc, kernel, cudaFree on several streams in turn, timed: what a
 * program costs whose every task takes its scratch memory when it needs it.
 *
 *   four_streams [--rounds N] [--kib K] [--us U] [--streams S] [--threads T]
 *                [--alloc malloc|async|LIBRARY]
 *
 * --us: least length of a kernel; --threads: that many share the streams. The
 * last line is `time_ms X checksum Y`: of the rounds behind the warm-up, and
 * of the results, which are always the same.
 */
#include "allocator.h"
#include "gpu.cuh"

#include <thread>
#include <vector>

namespace
{

constexpr unsigned kMostBlocks = 132; /* leaves room for other streams */

__global__ void task(uint32_t *p, uint32_t words, uint32_t key, uint32_t us,
		     Count *total)
{
	unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned stride = gridDim.x * blockDim.x;
	Count mine = 0;

	for (uint32_t i = first; i < words; i += stride)
		p[i] = pattern(key, i);
	spin_us(us);
	for (uint32_t i = first; i < words; i += stride)
		mine += *(volatile uint32_t *)(p + i);
	add_to(total, mine);
}

struct Task {
	Allocator memory;
	uint32_t words, us;
	Count *totals;
	std::vector<cudaStream_t> streams;

	/* Rounds first, first + step, ... below end. */
	void run(long first, long end, long step) const
	{
		unsigned blocks = grid_for(words, kMostBlocks);

		for (long round = first; round < end; round += step) {
			cudaStream_t stream = streams[round % streams.size()];
			auto *p = (uint32_t *)memory.get(
				words * sizeof(uint32_t), stream);

			task<<<blocks, kBlockSize, 0, stream>>>(
				p, words, (uint32_t)round, us, totals + round);
			CHECK(cudaGetLastError());
			memory.put(p, stream);
		}
	}
	void run_threads(long first, long end, long threads) const
	{
		std::vector<std::thread> workers;

		for (long i = 1; i < threads; i++)
			workers.emplace_back(&Task::run, this, first + i, end,
					     threads);
		run(first, end, threads);
		for (auto &worker : workers)
			worker.join();
		CHECK(cudaDeviceSynchronize());
	}
};

} // namespace

int main(int argc, char **argv)
{
	long rounds = 4000, kib = 4096, us = 0, streams = 4, threads = 1;
	const char *alloc = "malloc";
	Task task{};

	for (int i = 1; i < argc; i++)
		if (!number_option(argc, argv, &i, "--rounds", 1, &rounds) &&
		    !number_option(argc, argv, &i, "--kib", 1, &kib) &&
		    !number_option(argc, argv, &i, "--us", 0, &us) &&
		    !number_option(argc, argv, &i, "--streams", 1, &streams) &&
		    !number_option(argc, argv, &i, "--threads", 1, &threads) &&
		    !text_option(argc, argv, &i, "--alloc", &alloc)) {
			fprintf(stderr, "usage: four_streams [--rounds N] "
					"[--kib K] [--us U] [--streams S] "
					"[--threads T] "
					"[--alloc malloc|async|LIBRARY]\n");
			return 2;
		}
	long warm = rounds / 4 + 1, all = rounds + warm;
	std::vector<Count> totals(all);

	CHECK(cudaSetDevice(0));
	CHECK(cudaFree(nullptr)); /* the context, before anybody's allocator */
	task.memory = find_allocator(alloc);
	task.words = (uint32_t)(kib << 8);
	task.us = (uint32_t)us;
	task.streams.resize(streams);
	for (auto &stream : task.streams)
		CHECK(cudaStreamCreateWithFlags(&stream,
						cudaStreamNonBlocking));
	CHECK(cudaMalloc(&task.totals, all * sizeof(Count)));
	CHECK(cudaMemset(task.totals, 0, all * sizeof(Count)));
	CHECK(cudaDeviceSynchronize());

	task.run_threads(0, warm, threads);
	double start = now_ms();

	task.run_threads(warm, all, threads);
	double time = now_ms() - start;

	CHECK(cudaMemcpy(totals.data(), task.totals, all * sizeof(Count),
			 cudaMemcpyDeviceToHost));
	printf("time_ms %.3f checksum %016llx\n", time,
	       (Count)hash_of(totals.data(), all));
	return 0;
}
