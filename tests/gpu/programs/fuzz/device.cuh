/*
 * What the fuzz does on the device: write a tenant's words, look whether they
 * are still there, hand them on. A word that is wrong is told in memory of the
 * host, which no pool serves.
 *
 * Built with -DFUZZ_SIM (as C++, without nvcc) the kernels are those of the
 * simulated driver, to try the program itself without a card; then all words
 * of a tenant are the same.
 */
#ifndef FUZZ_DEVICE_CUH
#define FUZZ_DEVICE_CUH

#include "../gpu.cuh"

namespace fuzz
{

/* What a range holds: words that follow from the key, or the key itself. */
struct Content {
	uint32_t key;
	uint32_t flat;
};

/* A word that was not as expected, and who looked. */
struct Fault {
	const void *at;
	uint32_t index, expected, seen;
	uint32_t key; /* of who looked */
};

constexpr unsigned kFaults = 8;

/* In mapped host memory; the device writes, the host reads. */
struct Faults {
	unsigned count;
	Fault fault[kFaults];
};

inline Faults *faults_on_host, *faults_on_device;

inline void find_faults()
{
	CHECK(cudaHostAlloc((void **)&faults_on_host, sizeof(Faults),
			    cudaHostAllocMapped));
	memset(faults_on_host, 0, sizeof(Faults));
	CHECK(cudaHostGetDevicePointer((void **)&faults_on_device,
				       faults_on_host, 0));
}

inline unsigned num_faults()
{
	return *(volatile unsigned *)&faults_on_host->count;
}

#ifdef FUZZ_SIM
} // namespace fuzz

#include <cuda.h>

namespace fuzz
{

inline uint32_t word(Content content, uint32_t)
{
	return content.key;
}

namespace device
{

inline CUfunction kernel(const char *name)
{
	CUmodule module;
	CUfunction function;

	if (cuModuleLoadData(&module, "any image will do") ||
	    cuModuleGetFunction(&function, module, name))
		_Exit(3);
	return function;
}

inline void launch(CUfunction function, cudaStream_t stream, void **args)
{
	CUresult status = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream,
					 args, nullptr);

	if (status) {
		fprintf(stderr, "cuLaunchKernel: %d\n", status);
		_Exit(status == CUDA_ERROR_ASSERT ? 1 : 3);
	}
}

inline void spin(cudaStream_t stream, uint32_t us)
{
	static CUfunction function = kernel("spin");
	void *args[] = {&us};

	if (us)
		launch(function, stream, args);
}

inline void fill(cudaStream_t stream, uint32_t *p, size_t words,
		 Content content, uint32_t us)
{
	static CUfunction function = kernel("fill32");
	void *args[] = {&p, &content.key, &words};

	spin(stream, us);
	launch(function, stream, args);
}

inline void verify(cudaStream_t stream, uint32_t *p, size_t words,
		   Content content, uint32_t us, uint32_t)
{
	static CUfunction function = kernel("expect32");
	void *args[] = {&p, &content.key, &words};

	spin(stream, us);
	launch(function, stream, args);
}

inline void exchange(cudaStream_t stream, uint32_t *p, size_t words,
		     Content old, Content fresh, uint32_t us, uint32_t op)
{
	verify(stream, p, words, old, us, op);
	fill(stream, p, words, fresh, 0);
}

inline void copy(cudaStream_t stream, uint32_t *to, const uint32_t *from,
		 size_t words, uint32_t us)
{
	static CUfunction function = kernel("copy32");
	void *args[] = {&to, &from, &words};

	spin(stream, us);
	launch(function, stream, args);
}

} // namespace device

#else

__host__ __device__ inline uint32_t word(Content content, uint32_t i)
{
	return content.flat ? content.key : pattern(content.key, i);
}

namespace kernels
{

#define EACH(i, words)                                      \
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; \
	i < (words);                                        \
	i += gridDim.x * blockDim.x

__device__ inline void compare(const uint32_t *p, uint32_t i, Content content,
			       uint32_t key, Faults *faults)
{
	uint32_t seen = *(volatile const uint32_t *)(p + i);
	uint32_t expected = word(content, i);

	if (seen == expected)
		return;
	unsigned n = atomicAdd(&faults->count, 1);

	if (n < kFaults)
		faults->fault[n] = {p + i, i, expected, seen, key};
}

__global__ void fill(uint32_t *p, uint32_t words, Content content, uint32_t us)
{
	spin_us(us);
	for (EACH(i, words))
		p[i] = word(content, i);
}

__global__ void verify(const uint32_t *p, uint32_t words, Content content,
		       uint32_t us, uint32_t key, Faults *faults)
{
	spin_us(us);
	for (EACH(i, words))
		compare(p, i, content, key, faults);
}

__global__ void exchange(uint32_t *p, uint32_t words, Content old,
			 Content fresh, uint32_t us, uint32_t key,
			 Faults *faults)
{
	spin_us(us);
	for (EACH(i, words)) {
		compare(p, i, old, key, faults);
		p[i] = word(fresh, i);
	}
}

__global__ void copy(uint32_t *to, const uint32_t *from, uint32_t words,
		     uint32_t us)
{
	spin_us(us);
	for (EACH(i, words))
		to[i] = from[i];
}

#undef EACH

} // namespace kernels

namespace device
{

constexpr unsigned kMostBlocks = 64; /* room for kernels of other streams */

inline void fill(cudaStream_t stream, uint32_t *p, size_t words,
		 Content content, uint32_t us)
{
	kernels::fill<<<grid_for(words, kMostBlocks), kBlockSize, 0, stream>>>(
		p, (uint32_t)words, content, us);
	CHECK(cudaGetLastError());
}

inline void verify(cudaStream_t stream, uint32_t *p, size_t words,
		   Content content, uint32_t us, uint32_t key)
{
	kernels::
		verify<<<grid_for(words, kMostBlocks), kBlockSize, 0, stream>>>(
			p, (uint32_t)words, content, us, key, faults_on_device);
	CHECK(cudaGetLastError());
}

inline void exchange(cudaStream_t stream, uint32_t *p, size_t words,
		     Content old, Content fresh, uint32_t us, uint32_t key)
{
	kernels::exchange<<<grid_for(words, kMostBlocks), kBlockSize, 0,
			    stream>>>(p, (uint32_t)words, old, fresh, us, key,
				      faults_on_device);
	CHECK(cudaGetLastError());
}

inline void copy(cudaStream_t stream, uint32_t *to, const uint32_t *from,
		 size_t words, uint32_t us)
{
	kernels::copy<<<grid_for(words, kMostBlocks), kBlockSize, 0, stream>>>(
		to, from, (uint32_t)words, us);
	CHECK(cudaGetLastError());
}

} // namespace device

#endif

/* Kernels are loaded when they are launched first, and that may wait. */
inline void load_kernels()
{
	uint32_t *p;

	CHECK(cudaMalloc((void **)&p, 4096));
	device::fill(nullptr, p, 64, {1, 0}, 0);
	device::exchange(nullptr, p, 64, {1, 0}, {2, 0}, 0, 0);
	device::copy(nullptr, p + 64, p, 64, 0);
	device::verify(nullptr, p + 64, 64, {2, 0}, 0, 0);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(p));
}

/* Whose word this is, as pattern() can be undone. */
inline uint32_t key_of(uint32_t value, uint32_t i)
{
	uint32_t inverse = 1, x;

	for (int k = 0; k < 5; k++) /* Newton: of an odd number, modulo 2^32 */
		inverse *= 2 - 2246822519u * inverse;
	x = value * inverse;
	x ^= x >> 15;
	x ^= x >> 30;
	return x ^ (i * 2654435761u);
}

} // namespace fuzz

#endif
