/*
 * The same pairs through PyTorch's caching allocator from C++, no Python and
 * no dispatcher in between: raw_alloc + raw_delete.
 *
 *   torch_pairs [--sizes A,B,..] [--threads A,B,..] [--live A,B,..] [--ms M]
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace torch_cache = c10::cuda::CUDACachingAllocator;

constexpr int kBatch = 16; /* pairs between two looks at the clock */

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

void work(size_t bytes, std::atomic<int> &phase, std::atomic<int> &ready,
	  uint64_t *pairs, double *seconds)
{
	uint64_t count = 0;

	c10::cuda::set_device(0);
	auto turn = [&] {
		for (int i = 0; i < kBatch; i++)
			torch_cache::raw_delete(torch_cache::raw_alloc(bytes));
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
}

void measure(size_t bytes, int num_threads, long num_live, double period)
{
	std::vector<void *> live(num_live), holes(num_live);
	std::vector<std::thread> threads;
	std::vector<uint64_t> pairs(num_threads);
	std::vector<double> seconds(num_threads);
	std::atomic<int> phase{0}, ready{0};
	uint64_t state = 12345, total = 0;
	double rate = 0, cost = 0;

	for (long i = 0; i < num_live; i++) {
		holes[i] = torch_cache::raw_alloc(512 + draw(state) % 8192);
		live[i] = torch_cache::raw_alloc(512 + draw(state) % 8192);
	}
	for (void *p : holes)
		torch_cache::raw_delete(p);
	for (int i = 0; i < num_threads; i++)
		threads.emplace_back(work, bytes, std::ref(phase),
				     std::ref(ready), &pairs[i], &seconds[i]);
	auto rest = [&](double share) {
		std::this_thread::sleep_for(
			std::chrono::duration<double>(period * share));
	};
	while (ready.load() < num_threads)
		rest(0.01);
	rest(0.2);
	phase = 1;
	rest(1);
	phase = 2;
	for (auto &thread : threads)
		thread.join();
	for (int i = 0; i < num_threads; i++) {
		total += pairs[i];
		rate += pairs[i] / seconds[i];
		cost += seconds[i] / pairs[i] / num_threads;
	}
	for (void *p : live)
		torch_cache::raw_delete(p);
	printf("pair {\"api\": \"torch\", \"mix\": 0, \"size\": %zu, "
	       "\"threads\": %d, \"live\": %ld, \"pairs\": %llu, "
	       "\"ns\": %.1f, \"pairs_per_s\": %.0f}\n",
	       bytes, num_threads, num_live, (unsigned long long)total,
	       cost * 1e9, rate);
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
	double period = 0.3;

	for (int i = 1; i + 1 < argc; i += 2) {
		std::string key = argv[i], value = argv[i + 1];

		if (key == "--sizes")
			sizes = numbers(value.c_str());
		else if (key == "--threads")
			threads = numbers(value.c_str());
		else if (key == "--live")
			live = numbers(value.c_str());
		else if (key == "--ms")
			period = atof(value.c_str()) / 1e3;
		else
			fprintf(stderr, "unknown option %s\n", argv[i]), exit(2);
	}
	torch_cache::init(c10::cuda::device_count());
	for (long l : live)
		for (long t : threads)
			for (long s : sizes)
				measure((size_t)s, (int)t, l, period);
	return 0;
}
