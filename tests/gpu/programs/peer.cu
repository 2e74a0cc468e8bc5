/*
 * Two cards: copies between them, and kernels of one that read the other's
 * memory, for memory allocated before peer access was enabled, after it, and
 * after more had been taken. Prints a sum for each.
 */
#include "gpu.cuh"

static constexpr size_t kWords = 3u << 20;

__global__ void fill(uint32_t *p, size_t n, uint32_t key)
{
	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += gridDim.x * blockDim.x)
		p[i] = pattern(key, (uint32_t)i);
}

__global__ void sum(const uint32_t *p, size_t n, Count *out)
{
	Count mine = 0;

	for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += gridDim.x * blockDim.x)
		mine += p[i];
	add_to(out, mine);
}

static uint32_t *block(int card, uint32_t key)
{
	uint32_t *p;

	CHECK(cudaSetDevice(card));
	CHECK(cudaMalloc(&p, kWords * 4));
	fill<<<256, kBlockSize>>>(p, kWords, key);
	CHECK(cudaDeviceSynchronize());
	return p;
}

/* On `card`, whoever has the memory. */
static Count sum_on(int card, const uint32_t *p)
{
	Count *out, host;

	CHECK(cudaSetDevice(card));
	CHECK(cudaMalloc(&out, sizeof(*out)));
	CHECK(cudaMemset(out, 0, sizeof(*out)));
	sum<<<256, kBlockSize>>>(p, kWords, out);
	CHECK(cudaMemcpy(&host, out, sizeof(host), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(out));
	return host;
}

static void copies(const char *when, const uint32_t *from)
{
	uint32_t *to = block(1, 0);
	Count got[2];

	CHECK(cudaMemcpyPeer(to, 1, from, 0, kWords * 4));
	got[0] = sum_on(1, to);
	CHECK(cudaMemset(to, 0, kWords * 4));
	CHECK(cudaMemcpyPeerAsync(to, 1, from, 0, kWords * 4, nullptr));
	CHECK(cudaDeviceSynchronize());
	got[1] = sum_on(1, to);
	CHECK(cudaSetDevice(1));
	CHECK(cudaFree(to));
	printf("result when=%s copy=%llu async=%llu\n", when, got[0], got[1]);
}

/* A copy that names no card; and a kernel of the other card. */
static void reads(const char *when, const uint32_t *from)
{
	uint32_t *to = block(1, 0);
	Count by_copy;

	CHECK(cudaMemcpy(to, from, kWords * 4, cudaMemcpyDefault));
	by_copy = sum_on(1, to);
	CHECK(cudaFree(to));
	printf("result when=%s default=%llu kernel=%llu\n", when, by_copy,
	       sum_on(1, from));
}

int main()
{
	uint32_t *before, *after, *grown[8];
	int can = 0;

	before = block(0, 11);
	copies("without", before);
	CHECK(cudaDeviceCanAccessPeer(&can, 1, 0));
	printf("result can=%d\n", can);
	if (!can)
		return 0;
	CHECK(cudaSetDevice(1));
	CHECK(cudaDeviceEnablePeerAccess(0, 0));
	copies("enabled", before);
	reads("before", before);
	after = block(0, 12);
	reads("after", after);
	for (int i = 0; i < 8; i++)
		grown[i] = block(0, 100 + i);
	for (int i = 0; i < 8; i++)
		reads("grown", grown[i]);
	CHECK(cudaSetDevice(0));
	for (int i = 0; i < 8; i += 2)
		CHECK(cudaFree(grown[i]));
	for (int i = 0; i < 8; i += 2)
		grown[i] = block(0, 200 + i);
	for (int i = 0; i < 8; i++)
		reads("again", grown[i]);
	CHECK(cudaSetDevice(1));
	CHECK(cudaDeviceDisablePeerAccess(0));
	copies("disabled", before);
	return 0;
}
