/*
 * What the programs here share: calls that must succeed (exit status 3; 1 for
 * a kernel's assert), random numbers, a pattern, waiting on the device,
 * options.
 */
#ifndef GPU_CUH
#define GPU_CUH

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using Count = unsigned long long;

#define CHECK(call) check((call), #call, __FILE__, __LINE__)

inline void check(cudaError_t status, const char *what, const char *file,
		  int line)
{
	if (status == cudaSuccess)
		return;
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what,
		cudaGetErrorString(status));
	_Exit(status == cudaErrorAssert ? 1 : 3);
}

struct Random {
	uint64_t state;

	explicit Random(uint64_t seed)
	    : state(seed * 0x2545f4914f6cdd1dull + 88172645463325252ull)
	{
		for (int i = 0; i < 8; i++)
			next();
	}
	uint64_t next()
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		return state;
	}
	/* 0 to n - 1 */
	uint32_t below(uint64_t n)
	{
		return (uint32_t)((next() >> 11) % n);
	}
};

__host__ __device__ inline uint32_t pattern(uint32_t key, uint32_t i)
{
	uint32_t x = key ^ (i * 2654435761u);

	x ^= x >> 15;
	return x * 2246822519u;
}

#ifdef __CUDACC__
__device__ inline uint64_t device_ns()
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
	return ns;
}

/* Keep the stream busy for so long. */
__device__ inline void spin_us(uint32_t us)
{
	uint64_t start = us ? device_ns() : 0;

	while (us && device_ns() - start < us * 1000ull)
		;
}

/* One atomic a warp. All its threads must call. */
__device__ inline void add_to(Count *sum, Count value)
{
	for (int offset = 16; offset; offset /= 2)
		value += __shfl_down_sync(~0u, value, offset);
	if (threadIdx.x % 32 == 0 && value)
		atomicAdd(sum, value);
}
#endif

constexpr unsigned kBlockSize = 256;

inline unsigned grid_for(size_t words, unsigned most)
{
	size_t blocks = (words + kBlockSize - 1) / kBlockSize;

	return blocks > most ? most : blocks ? (unsigned)blocks : 1;
}

inline double now_ms()
{
	return std::chrono::duration<double, std::milli>(
		       std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

inline uint64_t hash_of(const Count *values, size_t count)
{
	uint64_t hash = 1469598103934665603ull;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ values[i]) * 1099511628211ull;
	return hash;
}

/* The number after `--name`, if that is where argv[i] is; i goes on then. */
inline bool number_option(int argc, char **argv, int *i, const char *name,
			  long least, long *value)
{
	char *end;

	if (strcmp(argv[*i], name) || *i + 1 >= argc)
		return false;
	*value = strtol(argv[*i + 1], &end, 10);
	if (*end || end == argv[*i + 1] || *value < least) {
		fprintf(stderr, "%s wants a number from %ld up, not '%s'\n",
			name, least, argv[*i + 1]);
		exit(2);
	}
	++*i;
	return true;
}

inline bool text_option(int argc, char **argv, int *i, const char *name,
			const char **value)
{
	if (strcmp(argv[*i], name) || *i + 1 >= argc)
		return false;
	*value = argv[++*i];
	return true;
}

#endif
