/*
 * What an allocate+free pair costs, by size, number of threads and number of
 * other live blocks. The GPU is idle; the host's time is what counts.
 *
 *   [--api NAME] [--sizes A,B,..] [--threads A,B,..] [--live A,B,..] [--ms M]
 *   [--mix 1]
 *
 * One line `pair {json}` a combination. With --mix, each thread also keeps a
 * window of 64 blocks of mixed sizes up to the given one and replaces one at
 * random a turn, which is nearer to what programs do.
 */
#ifndef PAIRS_H
#define PAIRS_H

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace pairs
{

constexpr int kWindow = 64;
constexpr int kBatch = 16; /* pairs between two looks at the clock */

struct Plan {
	std::string api;
	bool mix = false;
	size_t bytes = 0;
	int threads = 0;
	long live = 0;
	double seconds = 0.3;
};

inline double now()
{
	return std::chrono::duration<double>(
		       std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

inline uint64_t draw(uint64_t &state)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* One thread's pairs until told to stop; the first part only warms up. */
template <class Memory>
void work(const Plan &plan, int index, std::atomic<int> &phase,
	  std::atomic<int> &ready, uint64_t *pairs, double *seconds)
{
	uint64_t state = 88172645463325252ull + index * 7919, count = 0;
	void *window[kWindow];
	Memory memory(plan, true);

	auto size = [&] { return 1 + draw(state) % plan.bytes; };
	if (plan.mix)
		for (void *&p : window)
			p = memory.take(size());
	auto turn = [&] {
		for (int i = 0; i < kBatch; i++) {
			if (plan.mix) {
				void *&p = window[draw(state) % kWindow];

				memory.give(p);
				p = memory.take(size());
			} else {
				memory.give(memory.take(plan.bytes));
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
			memory.give(p);
}

template <class Memory> void measure(const Plan &plan)
{
	Memory memory(plan, false);
	/* Every other one of twice as many is freed: live and free blocks. */
	std::vector<void *> live(plan.live), holes(plan.live);
	std::vector<std::thread> threads;
	std::vector<uint64_t> pairs(plan.threads);
	std::vector<double> seconds(plan.threads);
	std::atomic<int> phase{0}, ready{0};
	uint64_t state = 12345, total = 0;
	double rate = 0, cost = 0;

	for (long i = 0; i < plan.live; i++) {
		holes[i] = memory.take(512 + draw(state) % 8192);
		live[i] = memory.take(512 + draw(state) % 8192);
	}
	for (void *p : holes)
		memory.give(p);
	memory.settle();
	for (int i = 0; i < plan.threads; i++)
		threads.emplace_back(work<Memory>, std::cref(plan), i,
				     std::ref(phase), std::ref(ready),
				     &pairs[i], &seconds[i]);
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
		memory.give(p);
	memory.settle();
	printf("pair {\"api\": \"%s\", \"mix\": %d, \"size\": %zu, "
	       "\"threads\": %d, \"live\": %ld, \"pairs\": %llu, "
	       "\"ns\": %.1f, \"pairs_per_s\": %.0f}\n",
	       plan.api.c_str(), plan.mix, plan.bytes, plan.threads, plan.live,
	       (unsigned long long)total, cost * 1e9, rate);
	fflush(stdout);
}

inline std::vector<long> numbers(const char *text)
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

struct Options {
	std::vector<long> sizes{4096}, threads{1}, live{0};
	Plan plan;
};

/* `apis`: what --api may be; the first is meant where it is not given. */
inline Options read(int argc, char **argv, const std::vector<std::string> &apis)
{
	Options options;

	options.plan.api = apis[0];
	for (int i = 1; i + 1 < argc; i += 2) {
		std::string key = argv[i], value = argv[i + 1];

		if (key == "--api" &&
		    std::find(apis.begin(), apis.end(), value) != apis.end())
			options.plan.api = value;
		else if (key == "--sizes")
			options.sizes = numbers(value.c_str());
		else if (key == "--threads")
			options.threads = numbers(value.c_str());
		else if (key == "--live")
			options.live = numbers(value.c_str());
		else if (key == "--ms")
			options.plan.seconds = atof(value.c_str()) / 1e3;
		else if (key == "--mix")
			options.plan.mix = value == "1";
		else
			fprintf(stderr, "unknown option %s %s\n", argv[i],
				argv[i + 1]),
				exit(2);
	}
	return options;
}

/*
 * All combinations, of a `Memory`:
 *
 *   Memory(plan, worker)   of a thread: one of those measured, or the first
 *   take(bytes), give(p)   the pair
 *   settle()               all work is over
 */
template <class Memory> void measure_all(Options options)
{
	for (long live : options.live)
		for (long threads : options.threads)
			for (long size : options.sizes) {
				options.plan.live = live;
				options.plan.threads = (int)threads;
				options.plan.bytes = (size_t)size;
				measure<Memory>(options.plan);
			}
}

} // namespace pairs

#endif
