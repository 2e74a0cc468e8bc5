/*
 * Thrust and CUB as programs use them: vectors that come and go, temporary
 * storage taken by the library and by the program, several streams. Whole
 * numbers, so the results are equal each run.
 *
 *   thrust_program [--rounds N]
 */
#include "gpu.cuh"

#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include <vector>

namespace
{

struct Mix {
	uint32_t key;

	__host__ __device__ uint32_t operator()(uint32_t i) const
	{
		return pattern(key, i);
	}
};

struct Low {
	__host__ __device__ uint32_t operator()(uint32_t x) const
	{
		return x & 1023;
	}
};

using Vector = thrust::device_vector<uint32_t>;

uint64_t mixed_in(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 1099511628211ull;
}

Vector numbers(size_t count, uint32_t key)
{
	Vector v(count);

	thrust::sequence(v.begin(), v.end());
	thrust::transform(v.begin(), v.end(), v.begin(), Mix{key});
	return v;
}

/* Sort, scan, reduce, unique; whatever is temporary is freed on the way. */
uint64_t with_thrust(size_t count, uint32_t key)
{
	Vector v = numbers(count, key), scanned(count), few(count);
	uint64_t hash = 1469598103934665603ull;

	thrust::sort(v.begin(), v.end());
	thrust::inclusive_scan(v.begin(), v.end(), scanned.begin());
	hash = mixed_in(hash, scanned.back());
	hash = mixed_in(hash, thrust::reduce(v.begin(), v.end(), (Count)0));
	thrust::transform(v.begin(), v.end(), few.begin(), Low());
	thrust::sort(few.begin(), few.end());
	few.erase(thrust::unique(few.begin(), few.end()), few.end());
	hash = mixed_in(hash, few.size());
	thrust::host_vector<uint32_t> host = few;

	for (uint32_t x : host)
		hash = mixed_in(hash, x);
	{
		Vector values = numbers(count, ~key);

		thrust::sort_by_key(values.begin(), values.end(), v.begin());
	}
	return mixed_in(hash, v[count / 2]);
}

/* The program asks how much CUB wants, takes it, and frees it with the kernels
 * still running. */
uint64_t with_cub(size_t count, uint32_t key, cudaStream_t stream)
{
	Vector in = numbers(count, key);
	uint32_t *sorted, *runs, *lengths;
	Count *sum, answer[2];
	void *scratch = nullptr;
	size_t bytes = 0;
	int n = (int)count, num_runs, *found;

	CHECK(cudaDeviceSynchronize()); /* Thrust used the default stream */
	CHECK(cudaMalloc(&sorted, count * 4));
	CHECK(cudaMalloc(&runs, count * 4));
	CHECK(cudaMalloc(&lengths, count * 4));
	CHECK(cudaMalloc(&sum, sizeof(*sum)));
	CHECK(cudaMalloc(&found, sizeof(*found)));
	const uint32_t *raw = thrust::raw_pointer_cast(in.data());

	CHECK(cub::DeviceRadixSort::SortKeys(scratch, bytes, raw, sorted, n, 0,
					     32, stream));
	CHECK(cudaMalloc(&scratch, bytes));
	CHECK(cub::DeviceRadixSort::SortKeys(scratch, bytes, raw, sorted, n, 0,
					     32, stream));
	CHECK(cudaFree(scratch));
	scratch = nullptr;
	CHECK(cub::DeviceRunLengthEncode::Encode(scratch, bytes, sorted, runs,
						 lengths, found, n, stream));
	CHECK(cudaMalloc(&scratch, bytes));
	CHECK(cub::DeviceRunLengthEncode::Encode(scratch, bytes, sorted, runs,
						 lengths, found, n, stream));
	CHECK(cudaFree(scratch));
	scratch = nullptr;
	CHECK(cub::DeviceReduce::Sum(scratch, bytes, sorted, sum, n, stream));
	CHECK(cudaMalloc(&scratch, bytes));
	CHECK(cub::DeviceReduce::Sum(scratch, bytes, sorted, sum, n, stream));
	CHECK(cudaFree(scratch));
	scratch = nullptr;
	CHECK(cub::DeviceScan::ExclusiveSum(scratch, bytes, sorted, runs, n,
					    stream));
	CHECK(cudaMalloc(&scratch, bytes));
	CHECK(cub::DeviceScan::ExclusiveSum(scratch, bytes, sorted, runs, n,
					    stream));
	CHECK(cudaFree(scratch)); /* after which all of it is complete */
	CHECK(cudaMemcpy(&answer[0], sum, sizeof(*sum),
			 cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&num_runs, found, sizeof(num_runs),
			 cudaMemcpyDeviceToHost));
	uint32_t last;

	CHECK(cudaMemcpy(&last, runs + n - 1, 4, cudaMemcpyDeviceToHost));
	answer[1] = last;
	CHECK(cudaFree(sorted));
	CHECK(cudaFree(runs));
	CHECK(cudaFree(lengths));
	CHECK(cudaFree(sum));
	CHECK(cudaFree(found));
	return mixed_in(hash_of(answer, 2), (uint64_t)num_runs);
}

} // namespace

int main(int argc, char **argv)
{
	long rounds = 60;
	Random random(3);
	uint64_t thrust_hash = 0, cub_hash = 0, kept_hash = 0;
	std::vector<Vector> kept;
	cudaStream_t streams[3];

	for (int i = 1; i < argc; i++)
		if (!number_option(argc, argv, &i, "--rounds", 1, &rounds)) {
			fprintf(stderr, "usage: thrust_program [--rounds N]\n");
			return 2;
		}
	CHECK(cudaSetDevice(0));
	for (auto &stream : streams)
		CHECK(cudaStreamCreateWithFlags(&stream,
						cudaStreamNonBlocking));
	for (long round = 0; round < rounds; round++) {
		size_t count = 1 + random.below(round % 4 ? 200000 : 4000000);
		uint32_t key = (uint32_t)random.next();

		thrust_hash = mixed_in(thrust_hash, with_thrust(count, key));
		cub_hash = mixed_in(cub_hash,
				    with_cub(count, key, streams[round % 3]));
		/* Vectors that grow, are copied, and go in another order. */
		kept.push_back(numbers(count / 2 + 1, key));
		kept.back().push_back(key);
		if (kept.size() > 6) {
			size_t at = random.below(kept.size());
			Vector copy = kept[at];

			kept.erase(kept.begin() + (long)at);
			kept_hash =
				mixed_in(kept_hash, thrust::reduce(copy.begin(),
								   copy.end()));
		}
	}
	for (const Vector &v : kept)
		kept_hash =
			mixed_in(kept_hash, thrust::reduce(v.begin(), v.end()));
	printf("result thrust=%016llx cub=%016llx vectors=%016llx\n",
	       (Count)thrust_hash, (Count)cub_hash, (Count)kept_hash);
	return 0;
}
