/*
 * What a program may lean on after cudaFree although nothing else was waited
 * for, and what it is told when it copies too much.
 *
 *   host_view [--turns N]
 *
 * Lines `result key=value ...`, equal plain and preloaded: counts of wrong
 * words (0), and for copies and sets past a block's end the error of each.
 */
#include "gpu.cuh"

#include <string>
#include <vector>

namespace
{

constexpr uint32_t kWords = 1u << 20;
constexpr uint32_t kSlowUs = 2000;

__global__ void fill(uint32_t *p, uint32_t words, uint32_t key, uint32_t us)
{
	spin_us(us);
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x)
		p[i] = pattern(key, i);
}

__global__ void count_wrong(const uint32_t *p, uint32_t words, uint32_t key,
			    Count *wrong)
{
	Count mine = 0;

	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
	     i += gridDim.x * blockDim.x)
		mine += p[i] != pattern(key, i);
	add_to(wrong, mine);
}

void slow_fill(uint32_t *p, uint32_t key, cudaStream_t stream)
{
	fill<<<64, kBlockSize, 0, stream>>>(p, kWords, key, kSlowUs);
	CHECK(cudaGetLastError());
}

Count wrong_words(const uint32_t *host, uint32_t key)
{
	Count wrong = 0;

	for (uint32_t i = 0; i < kWords; i++)
		wrong += host[i] != pattern(key, i);
	return wrong;
}

struct Things {
	cudaStream_t stream;
	uint32_t *pinned, *device;
	size_t bytes = kWords * sizeof(uint32_t);
	Count *count;

	Things()
	{
		CHECK(cudaStreamCreateWithFlags(&stream,
						cudaStreamNonBlocking));
		CHECK(cudaMallocHost(&pinned, bytes));
		CHECK(cudaMalloc(&device, bytes));
		CHECK(cudaMalloc(&count, sizeof(*count)));
		CHECK(cudaMemset(count, 0, sizeof(*count)));
		CHECK(cudaDeviceSynchronize());
	}
	Count counted()
	{
		Count value;

		CHECK(cudaDeviceSynchronize());
		CHECK(cudaMemcpy(&value, count, sizeof(value),
				 cudaMemcpyDeviceToHost));
		CHECK(cudaMemset(count, 0, sizeof(value)));
		return value;
	}
};

/* A free of something that has nothing to do with what is looked at. */
void free_something()
{
	void *p;

	CHECK(cudaMalloc(&p, 4096));
	CHECK(cudaFree(p));
}

/* ---- results that arrive, sources that are read ------------------------------- */

Count pinned_result(Things &t, uint32_t turn, bool free_source)
{
	uint32_t *source = t.device;

	if (free_source)
		CHECK(cudaMalloc(&source, t.bytes));
	memset(t.pinned, 0xee, t.bytes);
	slow_fill(source, turn, t.stream);
	CHECK(cudaMemcpyAsync(t.pinned, source, t.bytes, cudaMemcpyDeviceToHost,
			      t.stream));
	if (free_source)
		CHECK(cudaFree(source));
	else
		free_something();
	return wrong_words(t.pinned, turn);
}

Count pinned_source(Things &t, uint32_t turn)
{
	for (uint32_t i = 0; i < kWords; i++)
		t.pinned[i] = pattern(turn, i);
	slow_fill(t.device, ~turn, t.stream);
	CHECK(cudaMemcpyAsync(t.device, t.pinned, t.bytes,
			      cudaMemcpyHostToDevice, t.stream));
	count_wrong<<<64, kBlockSize, 0, t.stream>>>(t.device, kWords, turn,
						     t.count);
	CHECK(cudaGetLastError());
	free_something();
	memset(t.pinned, 0xee, t.bytes);
	return t.counted();
}

/* Through a graph, a rectangle, and the default stream of the thread. */
Count graph_result(Things &t, uint32_t turn)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(t.stream, cudaStreamCaptureModeRelaxed));
	slow_fill(t.device, turn, t.stream);
	CHECK(cudaMemcpyAsync(t.pinned, t.device, t.bytes,
			      cudaMemcpyDeviceToHost, t.stream));
	CHECK(cudaStreamEndCapture(t.stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	memset(t.pinned, 0xee, t.bytes);
	CHECK(cudaGraphLaunch(exec, t.stream));
	free_something();
	Count wrong = wrong_words(t.pinned, turn);

	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	return wrong;
}

Count rectangle_result(Things &t, uint32_t turn)
{
	memset(t.pinned, 0xee, t.bytes);
	slow_fill(t.device, turn, cudaStreamPerThread);
	CHECK(cudaMemcpy2DAsync(t.pinned, 4096, t.device, 4096, 4096,
				t.bytes / 4096, cudaMemcpyDeviceToHost,
				cudaStreamPerThread));
	free_something();
	return wrong_words(t.pinned, turn);
}

void set_flag(void *flag)
{
	*static_cast<volatile int *>(flag) = 1;
}

Count function_result(Things &t, uint32_t turn)
{
	volatile int flag = 0;

	slow_fill(t.device, turn, t.stream);
	CHECK(cudaLaunchHostFunc(t.stream, set_flag, (void *)&flag));
	free_something();
	Count wrong = flag != 1;

	CHECK(cudaDeviceSynchronize());
	return wrong;
}

/* A kernel writes managed memory, the host reads it. */
Count managed_result(Things &t, uint32_t turn)
{
	uint32_t *managed;

	CHECK(cudaMallocManaged(&managed, t.bytes));
	slow_fill(managed, turn, t.stream);
	free_something();
	Count wrong = wrong_words(managed, turn);

	CHECK(cudaFree(managed));
	return wrong;
}

/* Event, kernel, event, cudaFree, elapsed time; then all else one may ask. */
Count naive_benchmark(Things &t, uint32_t turn)
{
	cudaEvent_t start, stop;
	uint32_t *scratch;
	float ms = -1;
	Count wrong = 0;

	CHECK(cudaEventCreate(&start));
	CHECK(cudaEventCreate(&stop));
	CHECK(cudaMalloc(&scratch, t.bytes));
	CHECK(cudaEventRecord(start, t.stream));
	slow_fill(scratch, turn, t.stream);
	CHECK(cudaEventRecord(stop, t.stream));
	CHECK(cudaFree(scratch));
	wrong += cudaEventElapsedTime(&ms, start, stop) != cudaSuccess;
	wrong += !(ms >= kSlowUs * 0.9e-3f && ms < kSlowUs * 1e-3f + 100);
	wrong += cudaEventQuery(stop) != cudaSuccess;
	wrong += cudaStreamQuery(t.stream) != cudaSuccess;
	wrong += cudaGetLastError() != cudaSuccess;
	CHECK(cudaEventDestroy(start));
	CHECK(cudaEventDestroy(stop));
	return wrong;
}

/* ---- too much ------------------------------------------------------------------- */

constexpr size_t kHostBytes = 48u << 20;

/* The errors of all sorts of copies and sets of `bytes` at p, which is too
 * much; a word of digits. */
std::string too_much(char *p, size_t bytes, char *other, char *pinned,
		     char *pageable, cudaStream_t stream)
{
	cudaError_t status[] = {
		cudaMemcpy(p, pageable, bytes, cudaMemcpyHostToDevice),
		cudaMemcpy(pageable, p, bytes, cudaMemcpyDeviceToHost),
		cudaMemcpy(p, other, bytes, cudaMemcpyDeviceToDevice),
		cudaMemcpy(other, p, bytes, cudaMemcpyDeviceToDevice),
		cudaMemcpy(pageable, p, bytes, cudaMemcpyDefault),
		cudaMemcpyAsync(p, pinned, bytes, cudaMemcpyHostToDevice,
				stream),
		cudaMemcpyAsync(pinned, p, bytes, cudaMemcpyDeviceToHost,
				stream),
		cudaMemcpyAsync(p, other, bytes, cudaMemcpyDeviceToDevice,
				stream),
		cudaMemset(p, 0, bytes),
		cudaMemsetAsync(p, 0, bytes, stream),
	};
	std::string word;

	for (cudaError_t each : status)
		word += (word.empty() ? "" : ".") + std::to_string(each);
	CHECK(cudaDeviceSynchronize());
	cudaGetLastError();
	return word;
}

/* The neighbours are blocks too. */
void past_the_end(Things &t)
{
	static const size_t sizes[] = {1000,    1024,    4096,    65540,
				       1 << 20, 3 << 20, 40 << 20};
	std::vector<char> pageable(kHostBytes);
	char *pinned, *other;

	CHECK(cudaMallocHost(&pinned, kHostBytes));
	CHECK(cudaMalloc(&other, kHostBytes));
	for (size_t size : sizes) {
		char *blocks[3], *p;

		for (char *&block : blocks)
			CHECK(cudaMalloc(&block, size));
		p = blocks[1];
		printf("result size=%zu all=%s", size,
		       too_much(p, size, other, pinned, pageable.data(),
				t.stream)
			       .c_str());
		/* 2 MiB and more, so that no rounding of the driver's hides
		 * it. */
		printf(" far=%s inner=%s",
		       too_much(p, size + (4 << 20), other, pinned,
				pageable.data(), t.stream)
			       .c_str(),
		       too_much(p + size / 2, size + (4 << 20), other, pinned,
				pageable.data(), t.stream)
			       .c_str());
		printf(" one=%s\n", too_much(p, size + 1, other, pinned,
					     pageable.data(), t.stream)
					    .c_str());
		for (char *block : blocks)
			CHECK(cudaFree(block));
	}
	CHECK(cudaFree(other));
	CHECK(cudaFreeHost(pinned));
}

} // namespace

int main(int argc, char **argv)
{
	long turns = 20;
	Count managed = 0, found[7] = {};
	int concurrent = 0;

	for (int i = 1; i < argc; i++)
		if (!number_option(argc, argv, &i, "--turns", 1, &turns)) {
			fprintf(stderr, "usage: host_view [--turns N]\n");
			return 2;
		}
	CHECK(cudaSetDevice(0));
	Things t;

	for (uint32_t turn = 0; turn < (uint32_t)turns; turn++) {
		found[0] += pinned_result(t, turn, true);
		found[1] += pinned_result(t, turn, false);
		found[2] += pinned_source(t, turn);
		found[3] += graph_result(t, turn);
		found[4] += rectangle_result(t, turn);
		found[5] += function_result(t, turn);
		found[6] += naive_benchmark(t, turn);
	}
	printf("result pinned_freed=%llu pinned_other=%llu source=%llu "
	       "graph=%llu rectangle=%llu function=%llu benchmark=%llu\n",
	       found[0], found[1], found[2], found[3], found[4], found[5],
	       found[6]);
	CHECK(cudaDeviceGetAttribute(&concurrent,
				     cudaDevAttrConcurrentManagedAccess, 0));
	for (uint32_t turn = 0; concurrent && turn < (uint32_t)turns; turn++)
		managed += managed_result(t, turn);
	printf("result managed=%llu\n", managed);
	past_the_end(t);
	for (Count count : found)
		managed += count;
	return managed != 0;
}
