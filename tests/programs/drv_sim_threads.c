/*
 * Description: many threads, streams and allocations at once, plain and
 * virtual; nothing is lost, and all of it is given back.
 */
#include <pthread.h>

#include "tests/sim/simtest.h"

#define THREADS 6
#define ROUNDS  300
#define BLOCKS  8

static CUcontext ctx;
static CUfunction fill;

static uint32_t draw(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

struct block {
	CUdeviceptr p;
	CUmemGenericAllocationHandle handle; /* 0: plain */
	bool async;
	uint32_t value;
};

static void take(struct block *b, uint32_t kind, uint32_t size, CUstream stream)
{
	CUmemAllocationProp prop = {0};
	CUmemAccessDesc desc = {0};

	memset(b, 0, sizeof(*b));
	if (kind == 0) {
		prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
		prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		desc.location = prop.location;
		desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		NEED(cuMemAddressReserve(&b->p, 2 * MIB, 0, 0, 0));
		NEED(cuMemCreate(&b->handle, 2 * MIB, &prop, 0));
		NEED(cuMemMap(b->p, 2 * MIB, 0, b->handle, 0));
		NEED(cuMemSetAccess(b->p, 2 * MIB, &desc, 1));
	} else if (kind == 1) {
		b->async = true;
		NEED(cuMemAllocAsync(&b->p, size, stream));
	} else {
		NEED(cuMemAlloc(&b->p, size));
	}
}

static void give(struct block *b, CUstream stream)
{
	if (b->handle) {
		NEED(cuStreamSynchronize(stream));
		NEED(cuMemUnmap(b->p, 2 * MIB));
		NEED(cuMemRelease(b->handle));
		NEED(cuMemAddressFree(b->p, 2 * MIB));
	} else if (b->async) {
		NEED(cuMemFreeAsync(b->p, stream));
	} else {
		NEED(cuMemFree(b->p));
	}
	b->p = 0;
}

static void use(struct block *b, uint32_t words, CUstream stream)
{
	size_t n = words;
	void *args[] = {&b->p, &b->value, &n};

	b->value++;
	if (b->value & 1)
		NEED(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, args,
				    NULL));
	else
		NEED(cuMemsetD32Async(b->p, b->value, words, stream));
}

static void check(struct block *b, CUstream stream)
{
	uint32_t word = 0;

	NEED(cuMemcpyDtoHAsync(&word, b->p, 4, stream));
	NEED(cuStreamSynchronize(stream));
	IS(word, b->value);
}

static void *thread(void *arg)
{
	uint32_t state = (uint32_t)(uintptr_t)arg;
	struct block block[BLOCKS] = {{0}};
	CUevent event;
	CUstream stream;

	NEED(cuCtxSetCurrent(ctx));
	NEED(cuStreamCreate(&stream, state & 1 ? CU_STREAM_NON_BLOCKING : 0));
	NEED(cuEventCreate(&event, 0));
	for (int i = 0; i < ROUNDS; i++) {
		struct block *b = &block[draw(&state) % BLOCKS];

		if (!b->p) {
			take(b, draw(&state) % 4, 64 + draw(&state) % 100000,
			     stream);
			use(b, 16, stream);
		} else if (draw(&state) % 3) {
			use(b, 16, stream);
			NEED(cuEventRecord(event, stream));
			NEED(cuStreamWaitEvent(NULL, event, 0));
		} else {
			check(b, stream);
			give(b, stream);
		}
	}
	for (int i = 0; i < BLOCKS; i++)
		if (block[i].p)
			give(&block[i], stream);
	NEED(cuEventDestroy(event));
	NEED(cuStreamDestroy(stream));
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	ctx = sim_test_begin("memory:1GiB,kernel_us:30,copy_us:10");
	fill = sim_test_kernel("fill32");
	for (uintptr_t i = 0; i < THREADS; i++)
		NEED(pthread_create(&threads[i], NULL, thread,
				    (void *)(i + 1)));
	for (int i = 0; i < THREADS; i++)
		NEED(pthread_join(threads[i], NULL));
	NEED(cuCtxSynchronize());
	IS(gpusim_pending(), 0);
	IS(gpusim_used_bytes(0), 0);
	NEED(cuDevicePrimaryCtxReset(0));
	IS(gpusim_context_bytes(0), 0);
	return sim_test_end();
}
