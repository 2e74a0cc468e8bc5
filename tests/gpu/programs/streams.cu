/*
 * Kernels over many streams and threads while buffers come and go. Each buffer
 * holds a pattern derived from its key; kernels check it on the device and
 * count what is wrong. A second part leans on what cudaFree promises: that all
 * earlier work is done when it returns. Nothing here may be wrong, plain or
 * preloaded, and the checksum is equal.
 *
 *   streams [--rounds N] [--threads T] [--seed S]
 */
#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr int kStreams = 6;
constexpr int kSlots = 40;
constexpr int kBlock = 256;

using Count = unsigned long long;

#define CHECK(call) check((call), #call, __LINE__)

void check(cudaError_t status, const char *what, int line)
{
	if (status == cudaSuccess)
		return;
	fprintf(stderr, "line %d: %s: %s\n", line, what,
		cudaGetErrorString(status));
	exit(1);
}

__host__ __device__ inline uint32_t pattern(uint32_t key, uint32_t i)
{
	uint32_t x = key ^ (i * 2654435761u);

	x ^= x >> 15;
	return x * 2246822519u;
}

__global__ void fill(uint32_t *p, uint32_t words, uint32_t key)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x)
		p[i] = pattern(key, i);
}

__global__ void copy(uint32_t *to, const uint32_t *from, uint32_t words)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x)
		to[i] = from[i];
}

/* After `cycles` of waiting: is the pattern still what the key says? */
__global__ void verify(const uint32_t *p, uint32_t words, uint32_t key,
		       long long cycles, Count *wrong, Count *sum)
{
	long long start = clock64();
	Count bad = 0, total = 0;

	while (clock64() - start < cycles)
		;
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x) {
		uint32_t value = *(volatile const uint32_t *)(p + i);

		bad += value != pattern(key, i);
		total += value;
	}
	if (bad)
		atomicAdd(wrong, bad);
	atomicAdd(sum, total);
}

unsigned grid(uint32_t words)
{
	unsigned blocks = (words + kBlock - 1) / kBlock;

	return blocks > 512 ? 512 : blocks;
}

struct Random {
	uint64_t state;
	uint64_t operator()()
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		return state;
	}
};

struct Slot {
	uint32_t *p = nullptr;
	uint32_t words = 0, key = 0;
	cudaEvent_t ready; /* recorded behind its last writer */
};

struct Answer {
	Count wrong = 0, hash = 1469598103934665603ull;
};

/* One host thread's share: buffers are filled, copied from one another across
 * streams (ordered by events), checked by slow kernels and freed at once. */
void churn(int thread, int rounds, uint64_t seed, Answer *answer)
{
	Random draw{88172645463325252ull + seed * 1000003 + thread * 7919};
	std::vector<Slot> slots(kSlots);
	std::vector<cudaStream_t> streams(kStreams);
	std::vector<Count> sums(rounds);
	Count *device_sums, *device_wrong;

	for (auto &slot : slots)
		CHECK(cudaEventCreateWithFlags(&slot.ready,
					       cudaEventDisableTiming));
	for (int i = 0; i < kStreams; i++)
		CHECK(cudaStreamCreateWithFlags(&streams[i],
						i % 3 == 0
							? cudaStreamDefault
							: cudaStreamNonBlocking));
	CHECK(cudaMalloc(&device_sums, rounds * sizeof(Count)));
	CHECK(cudaMalloc(&device_wrong, sizeof(Count)));
	CHECK(cudaMemset(device_sums, 0, rounds * sizeof(Count)));
	CHECK(cudaMemset(device_wrong, 0, sizeof(Count)));
	CHECK(cudaDeviceSynchronize());

	for (int round = 0; round < rounds; round++) {
		Slot &slot = slots[draw() % kSlots];
		Slot &other = slots[draw() % kSlots];
		cudaStream_t stream = streams[draw() % kStreams];
		uint64_t kind = draw() % 100;

		if (slot.p)
			CHECK(cudaFree(slot.p));
		slot.words = 1 + draw() % (kind < 50   ? 1u << 9
					   : kind < 85 ? 1u << 16
						       : 1u << 20);
		CHECK(cudaMalloc(&slot.p, slot.words * sizeof(uint32_t)));
		if (&other != &slot && other.p && other.words >= slot.words) {
			slot.key = other.key;
			CHECK(cudaStreamWaitEvent(stream, other.ready, 0));
			copy<<<grid(slot.words), kBlock, 0, stream>>>(
				slot.p, other.p, slot.words);
		} else {
			slot.key = (uint32_t)draw();
			fill<<<grid(slot.words), kBlock, 0, stream>>>(
				slot.p, slot.words, slot.key);
		}
		CHECK(cudaEventRecord(slot.ready, stream));
		/* The check runs on another stream and is slow now and then. */
		cudaStream_t reader = streams[draw() % kStreams];

		CHECK(cudaStreamWaitEvent(reader, slot.ready, 0));
		verify<<<grid(slot.words), kBlock, 0, reader>>>(
			slot.p, slot.words, slot.key,
			draw() % 16 == 0 ? 200000 : 0, device_wrong,
			device_sums + round);
		CHECK(cudaGetLastError());
		if (draw() % 3 == 0) {
			CHECK(cudaFree(slot.p));
			slot.p = nullptr;
		}
	}
	for (auto &slot : slots) {
		if (slot.p)
			CHECK(cudaFree(slot.p));
		CHECK(cudaEventDestroy(slot.ready));
	}
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(sums.data(), device_sums, rounds * sizeof(Count),
			 cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&answer->wrong, device_wrong, sizeof(Count),
			 cudaMemcpyDeviceToHost));
	for (Count sum : sums)
		answer->hash = (answer->hash ^ sum) * 1099511628211ull;
	CHECK(cudaFree(device_sums));
	CHECK(cudaFree(device_wrong));
	for (auto stream : streams)
		CHECK(cudaStreamDestroy(stream));
}

/* An asynchronous copy to pinned memory, then cudaFree (of the source, or of a
 * block that has nothing to do with it), then the host reads. */
Count pinned_reads(bool of_source)
{
	constexpr uint32_t words = 1u << 20;
	cudaStream_t stream;
	uint32_t *host, *device, *unrelated;
	Count wrong = 0;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMallocHost(&host, words * sizeof(*host)));
	for (uint32_t turn = 0; turn < 20; turn++) {
		CHECK(cudaMalloc(&device, words * sizeof(*device)));
		CHECK(cudaMalloc(&unrelated, 4096));
		memset(host, 0, words * sizeof(*host));
		fill<<<1, kBlock, 0, stream>>>(device, words, turn);
		CHECK(cudaMemcpyAsync(host, device, words * sizeof(*host),
				      cudaMemcpyDeviceToHost, stream));
		CHECK(cudaFree(of_source ? device : unrelated));
		for (uint32_t i = 0; i < words; i++)
			wrong += host[i] != pattern(turn, i);
		CHECK(cudaFree(of_source ? unrelated : device));
	}
	CHECK(cudaFreeHost(host));
	CHECK(cudaStreamDestroy(stream));
	return wrong;
}

/* A pinned buffer is overwritten by the host after a cudaFree: the copy that
 * still reads it must have finished. */
Count pinned_writes()
{
	constexpr uint32_t words = 1u << 20;
	cudaStream_t stream;
	uint32_t *host, *device, *scratch;
	Count *counts, got[2];

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMallocHost(&host, words * sizeof(*host)));
	CHECK(cudaMalloc(&device, words * sizeof(*device)));
	CHECK(cudaMalloc(&counts, sizeof(got)));
	CHECK(cudaMemset(counts, 0, sizeof(got)));
	for (uint32_t turn = 0; turn < 20; turn++) {
		for (uint32_t i = 0; i < words; i++)
			host[i] = pattern(turn, i);
		CHECK(cudaMalloc(&scratch, 1 << 16));
		fill<<<1, kBlock, 0, stream>>>(device, words, ~turn);
		CHECK(cudaMemcpyAsync(device, host, words * sizeof(*host),
				      cudaMemcpyHostToDevice, stream));
		verify<<<grid(words), kBlock, 0, stream>>>(
			device, words, turn, 0, counts, counts + 1);
		CHECK(cudaFree(scratch));
		memset(host, 0xee, words * sizeof(*host));
	}
	CHECK(cudaMemcpy(got, counts, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(device));
	CHECK(cudaFree(counts));
	CHECK(cudaFreeHost(host));
	CHECK(cudaStreamDestroy(stream));
	return got[0];
}

/* A slow reader on one stream, its buffer freed at once, and a new buffer of
 * the same size filled on other streams: the reader must see the old words. */
Count reuse_under_a_reader()
{
	constexpr uint32_t words = 1u << 18;
	std::vector<cudaStream_t> streams(kStreams);
	Count *counts, got[2];

	for (auto &stream : streams)
		CHECK(cudaStreamCreateWithFlags(&stream,
						cudaStreamNonBlocking));
	CHECK(cudaMalloc(&counts, sizeof(got)));
	CHECK(cudaMemset(counts, 0, sizeof(got)));
	for (uint32_t turn = 0; turn < 100; turn++) {
		uint32_t *old, *fresh;
		cudaStream_t reader = streams[turn % kStreams];
		cudaStream_t writer = streams[(turn + 1) % kStreams];

		CHECK(cudaMalloc(&old, words * sizeof(*old)));
		fill<<<grid(words), kBlock, 0, reader>>>(old, words, turn);
		verify<<<grid(words), kBlock, 0, reader>>>(
			old, words, turn, 1000000, counts, counts + 1);
		CHECK(cudaFree(old));
		CHECK(cudaMalloc(&fresh, words * sizeof(*fresh)));
		fill<<<grid(words), kBlock, 0, writer>>>(fresh, words, ~turn);
		verify<<<grid(words), kBlock, 0, writer>>>(
			fresh, words, ~turn, 0, counts, counts + 1);
		CHECK(cudaFree(fresh));
	}
	CHECK(cudaMemcpy(got, counts, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(counts));
	for (auto stream : streams)
		CHECK(cudaStreamDestroy(stream));
	return got[0];
}

void host_function(void *flag)
{
	std::this_thread::sleep_for(std::chrono::milliseconds(2));
	*static_cast<volatile int *>(flag) = 1;
}

/* What a host function wrote is there when a later cudaFree returns. */
Count host_functions()
{
	cudaStream_t stream;
	Count wrong = 0;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int turn = 0; turn < 20; turn++) {
		volatile int flag = 0;
		void *p;

		CHECK(cudaMalloc(&p, 1 << 20));
		CHECK(cudaLaunchHostFunc(stream, host_function,
					 const_cast<int *>(&flag)));
		CHECK(cudaFree(p));
		wrong += flag != 1;
		CHECK(cudaStreamSynchronize(stream));
	}
	CHECK(cudaStreamDestroy(stream));
	return wrong;
}

} // namespace

int main(int argc, char **argv)
{
	int rounds = 3000, threads = 4;
	uint64_t seed = 1;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--rounds"))
			rounds = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--threads"))
			threads = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], nullptr, 0);
	}
	if (rounds < 1 || threads < 1) {
		fprintf(stderr, "usage: streams [--rounds N] [--threads T] "
				"[--seed S]\n");
		return 2;
	}
	std::vector<Answer> answers(threads);
	std::vector<std::thread> workers;
	Count wrong = 0, hash = 0;

	for (int i = 0; i < threads; i++)
		workers.emplace_back(churn, i, rounds, seed, &answers[i]);
	for (auto &worker : workers)
		worker.join();
	for (auto &answer : answers) {
		wrong += answer.wrong;
		hash = hash * 31 + answer.hash;
	}
	Count source = pinned_reads(true), unrelated = pinned_reads(false);
	Count writes = pinned_writes(), reuse = reuse_under_a_reader();
	Count functions = host_functions();

	printf("result checksum=%016llx wrong=%llu after_free_source=%llu "
	       "after_free_unrelated=%llu pinned_writes=%llu reuse=%llu "
	       "host_functions=%llu\n",
	       hash, wrong, source, unrelated, writes, reuse, functions);
	return wrong || source || unrelated || writes || reuse || functions;
}
