/*
 * What an allocate+free pair costs: cudaMalloc+cudaFree, or cudaMallocAsync+
 * cudaFreeAsync on a stream a thread, by size, number of threads and number of
 * other live blocks. The GPU is idle; the host's time is what counts.
 *
 *   pairs --api malloc|async [--sizes A,B,..] [--threads A,B,..]
 *         [--live A,B,..] [--ms M] [--mix 1]
 *
 * One line `pair {json}` a combination. With --mix, each thread also keeps a
 * window of 64 blocks of mixed sizes up to the given one and replaces one at
 * random a turn, which is nearer to what programs do.
 */
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kWindow = 64;
constexpr int kBatch = 16; /* pairs between two looks at the clock */

#define CHECK(call) check((call), #call)

void check(cudaError_t status, const char *what)
{
	if (status == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
	exit(1);
}

struct Plan {
	bool async;
	bool mix;
	size_t bytes;
	int threads;
	long live;
	double seconds;
};

void *take(const Plan &plan, size_t bytes, cudaStream_t stream)
{
	void *p;

	if (plan.async)
		CHECK(cudaMallocAsync(&p, bytes, stream));
	else
		CHECK(cudaMalloc(&p, bytes));
	return p;
}

void give(const Plan &plan, void *p, cudaStream_t stream)
{
	if (plan.async)
		CHECK(cudaFreeAsync(p, stream));
	else
		CHECK(cudaFree(p));
}

double now()
{
	return std::chrono::duration<double>(
		       std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

uint64_t draw(uint64_t &state)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* One thread's pairs until told to stop; the first part only warms up. */
void work(const Plan &plan, int index, std::atomic<int> &phase,
	  std::atomic<int> &ready, uint64_t *pairs, double *seconds)
{
	uint64_t state = 88172645463325252ull + index * 7919, count = 0;
	void *window[kWindow];
	cudaStream_t stream;

	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	auto size = [&] {
		return plan.mix ? 1 + draw(state) % plan.bytes : plan.bytes;
	};
	if (plan.mix)
		for (void *&p : window)
			p = take(plan, size(), stream);
	auto turn = [&] {
		for (int i = 0; i < kBatch; i++) {
			if (plan.mix) {
				void *&p = window[draw(state) % kWindow];

				give(plan, p, stream);
				p = take(plan, size(), stream);
			} else {
				give(plan, take(plan, plan.bytes, stream),
				     stream);
			}
		}
	};
	turn();
	ready++;
	while (phase.load() == 0)
		turn();
	double start = now();
	do {
		turn();
		count += kBatch;
	} while (phase.load() == 1);
	*seconds = now() - start;
	*pairs = count;
	if (plan.mix)
		for (void *p : window)
			give(plan, p, stream);
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaStreamDestroy(stream));
}

void measure(const Plan &plan)
{
	std::vector<void *> live(plan.live);
	std::vector<std::thread> threads;
	std::vector<uint64_t> pairs(plan.threads);
	std::vector<double> seconds(plan.threads);
	std::atomic<int> phase{0}, ready{0};
	uint64_t state = 12345, total = 0;
	double rate = 0, cost = 0;

	/* Every other one of twice as many is freed: live and free blocks. */
	std::vector<void *> holes(plan.live);

	for (long i = 0; i < plan.live; i++) {
		holes[i] = take(plan, 512 + draw(state) % 8192, nullptr);
		live[i] = take(plan, 512 + draw(state) % 8192, nullptr);
	}
	for (void *p : holes)
		give(plan, p, nullptr);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < plan.threads; i++)
		threads.emplace_back(work, std::cref(plan), i, std::ref(phase),
				     std::ref(ready), &pairs[i], &seconds[i]);
	auto rest = [&](double share) {
		std::this_thread::sleep_for(
			std::chrono::duration<double>(plan.seconds * share));
	};
	while (ready.load() < plan.threads)
		rest(0.01);
	rest(0.2);
	phase = 1;
	rest(1);
	phase = 2;
	for (auto &thread : threads)
		thread.join();
	for (int i = 0; i < plan.threads; i++) {
		total += pairs[i];
		rate += pairs[i] / seconds[i];
		cost += seconds[i] / pairs[i] / plan.threads;
	}
	for (void *p : live)
		give(plan, p, nullptr);
	CHECK(cudaDeviceSynchronize());
	printf("pair {\"api\": \"%s\", \"mix\": %d, \"size\": %zu, "
	       "\"threads\": %d, \"live\": %ld, \"pairs\": %llu, "
	       "\"ns\": %.1f, \"pairs_per_s\": %.0f}\n",
	       plan.async ? "async" : "malloc", plan.mix, plan.bytes,
	       plan.threads, plan.live, (unsigned long long)total, cost * 1e9,
	       rate);
	fflush(stdout);
}

std::vector<long> numbers(const char *text)
{
	std::vector<long> list;

	for (char *end; *text; text = *end ? end + 1 : end) {
		list.push_back(strtol(text, &end, 10));
		if (end == text) {
			fprintf(stderr, "not a list of numbers: %s\n", text);
			exit(2);
		}
	}
	return list;
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<long> sizes{4096}, threads{1}, live{0};
	Plan plan{};
	cudaMemPool_t pool;

	plan.seconds = 0.3;
	for (int i = 1; i + 1 < argc; i += 2) {
		std::string key = argv[i], value = argv[i + 1];

		if (key == "--api")
			plan.async = value == "async";
		else if (key == "--sizes")
			sizes = numbers(value.c_str());
		else if (key == "--threads")
			threads = numbers(value.c_str());
		else if (key == "--live")
			live = numbers(value.c_str());
		else if (key == "--ms")
			plan.seconds = atof(value.c_str()) / 1e3;
		else if (key == "--mix")
			plan.mix = value == "1";
		else
			fprintf(stderr, "unknown option %s\n", argv[i]), exit(2);
	}
	CHECK(cudaSetDevice(0));
	CHECK(cudaFree(nullptr));
	if (plan.async) {
		/* Keep what is freed: a warm pool is the fair comparison. */
		uint64_t keep = UINT64_MAX;

		CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
		CHECK(cudaMemPoolSetAttribute(
			pool, cudaMemPoolAttrReleaseThreshold, &keep));
	}
	for (long l : live)
		for (long t : threads)
			for (long s : sizes) {
				plan.live = l;
				plan.threads = (int)t;
				plan.bytes = (size_t)s;
				measure(plan);
			}
	return 0;
}
