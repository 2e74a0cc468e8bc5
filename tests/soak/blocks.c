/* Blocks of memory, and the order of the work on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soak/soak.h"

void streams_begin(struct thread *t)
{
	GOOD(t, cuStreamCreate(&t->streams[0], CU_STREAM_NON_BLOCKING));
	GOOD(t, cuStreamCreate(&t->streams[1], CU_STREAM_DEFAULT));
	t->streams[2] = NULL;
	t->streams[3] = CU_STREAM_PER_THREAD;
}

void streams_end(struct thread *t)
{
	for (int i = 0; i < 2; i++)
		GOOD(t, cuStreamDestroy(t->streams[i]));
}

CUstream any_stream(struct thread *t)
{
	return t->streams[below(t, 8) % (below(t, 4) ? 2 : STREAMS)];
}

struct block **draw_block(struct thread *t)
{
	struct block **b = &t->own[below(t, OWN)];

	return *b ? b : NULL;
}

struct block **draw_place(struct thread *t)
{
	unsigned from = (unsigned)below(t, OWN);

	for (unsigned i = 0; i < OWN; i++)
		if (!t->own[(from + i) % OWN])
			return &t->own[(from + i) % OWN];
	return NULL;
}

/* Mostly small, now and then tens of MiB. */
size_t draw_size(struct thread *t)
{
	unsigned kind = (unsigned)below(t, 32);
	size_t top = kind < 20   ? 64 * KIB
		     : kind < 27 ? MIB
		     : kind < 31 ? 3 * MIB
				 : 16 * MIB;

	return (4 + below(t, top)) & ~(size_t)3;
}

void order(struct thread *t, struct block *b, CUstream s)
{
	CUevent event = b->event;

	if (event) {
		GOOD(t, cuStreamWaitEvent(s, event, 0));
		GOOD(t, cuEventDestroy(event));
		b->event = NULL;
	} else if (b->stream != s) {
		GOOD(t, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		GOOD(t, cuEventRecord(event, b->stream));
		GOOD(t, cuStreamWaitEvent(s, event, 0));
		GOOD(t, cuEventDestroy(event));
	}
	b->stream = s;
}

static void fill_by_kernel(struct thread *t, struct block *b, CUstream s)
{
	size_t words = b->bytes / 4;
	void *args[] = {&b->at, &b->word, &words};

	GOOD(t,
	     cuLaunchKernel(t->lane->fill, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

void fill(struct thread *t, struct block *b)
{
	CUstream s = any_stream(t);

	if (b->fixed)
		return;
	order(t, b, s);
	b->word = (uint32_t)next_random(&t->rng);
	if (!below(t, 3)) {
		fill_by_kernel(t, b, s);
	} else if (b->bytes <= HOST_BYTES && !below(t, 3)) {
		for (size_t i = 0; i < b->bytes / 4; i++)
			t->host[i] = b->word;
		GOOD(t, cuMemcpyHtoDAsync(b->at, t->host, b->bytes, s));
		GOOD(t, cuStreamSynchronize(s));
	} else {
		GOOD(t, cuMemsetD32Async(b->at, b->word, b->bytes / 4, s));
	}
}

void verify_bytes(struct thread *t, CUdeviceptr at, size_t bytes, uint32_t word,
		  CUstream s)
{
	size_t n = bytes < HOST_BYTES ? bytes : HOST_BYTES;
	size_t places[] = {0, (bytes - n) / 2 & ~(size_t)3, bytes - n};

	for (int i = 0; i < (n < bytes ? 3 : 1); i++) {
		GOOD(t, cuMemcpyDtoHAsync(t->host, at + places[i], n, s));
		GOOD(t, cuStreamSynchronize(s));
		for (size_t w = 0; w < n / 4; w++)
			if (t->host[w] != word)
				wrong(t,
				      "%zu bytes at %llx: word %zu is %08x, "
				      "not %08x",
				      bytes, (unsigned long long)at,
				      places[i] / 4 + w, t->host[w], word);
	}
}

void verify(struct thread *t, struct block *b)
{
	CUstream s = any_stream(t);

	order(t, b, s);
	verify_bytes(t, b->at, b->bytes, b->word, s);
}

static CUresult take(struct thread *t, struct block *b)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};

	if (b->kind == MANAGED)
		return cuMemAllocManaged(&b->at, b->bytes,
					 CU_MEM_ATTACH_GLOBAL);
	if (b->kind == PLAIN)
		return cuMemAlloc(&b->at, b->bytes);
	b->stream = any_stream(t);
	if (below(t, 4))
		return cuMemAllocAsync(&b->at, b->bytes, b->stream);
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.location.id = t->lane->device;
	if (!GOT(t, cuMemPoolCreate(&b->pool, &props)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return cuMemAllocFromPoolAsync(&b->at, b->bytes, b->pool, b->stream);
}

struct block *new_block(struct thread *t, enum kind kind)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b)
		wrong(t, "no host memory");
	b->kind = kind;
	b->bytes = draw_size(t);
	if (!got(t, take(t, b), "allocation")) {
		if (b->pool)
			GOOD(t, cuMemPoolDestroy(b->pool));
		free(b);
		return NULL;
	}
	if (kind != ASYNC)
		b->stream = t->streams[0];
	fill(t, b);
	return b;
}

void free_block(struct thread *t, struct block *b)
{
	CUstream s;

	if (b->kind != MANAGED && !below(t, b->kind == ASYNC ? 2 : 6)) {
		s = any_stream(t);
		order(t, b, s);
		GOOD(t, cuMemFreeAsync(b->at, s));
	} else {
		if (b->kind == ASYNC) /* a plain free of it does not wait */
			GOOD(t, b->event ? cuEventSynchronize(b->event)
					 : cuStreamSynchronize(b->stream));
		if (b->event)
			GOOD(t, cuEventDestroy(b->event));
		GOOD(t, cuMemFree(b->at));
	}
	if (b->pool)
		GOOD(t, cuMemPoolDestroy(b->pool));
	free(b);
}

void swap_shared(struct thread *t)
{
	struct block **own = &t->own[below(t, OWN)];
	struct block **shared = &t->lane->shared[below(t, SHARED)];
	struct block *b = *own;

	if (b && !b->event) {
		if (below(t, 2))
			GOOD(t, cuStreamSynchronize(b->stream));
		GOOD(t, cuEventCreate(&b->event, CU_EVENT_DISABLE_TIMING));
		GOOD(t, cuEventRecord(b->event, b->stream));
	}
	*own = __atomic_exchange_n(shared, b, __ATOMIC_ACQ_REL);
	if (*own)
		(*own)->stream = NULL; /* that was the other's */
}

void drop_shared(struct lane *lane)
{
	for (unsigned i = 0; i < SHARED; i++) {
		struct block *b = __atomic_exchange_n(&lane->shared[i], NULL,
						      __ATOMIC_ACQ_REL);

		/* Pools of their own outlive a context. */
		if (b && b->pool)
			cuMemPoolDestroy(b->pool);
		free(b);
	}
}
