/* Operations on memory of all kinds. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "tests/sim/gpusim.h"
#include "tests/soak/soak.h"

static void alloc(struct thread *t, enum kind kind)
{
	struct block **place = draw_place(t);

	if (place)
		*place = new_block(t, kind);
}

void op_alloc(struct thread *t)
{
	alloc(t, PLAIN);
}

void op_async(struct thread *t)
{
	alloc(t, ASYNC);
}

void op_managed(struct thread *t)
{
	alloc(t, MANAGED);
}

void op_free(struct thread *t)
{
	struct block **b = draw_block(t);

	if (!b)
		return;
	if (!below(t, 4))
		verify(t, *b);
	free_block(t, *b);
	*b = NULL;
}

void op_verify(struct thread *t)
{
	struct block **b = draw_block(t);

	if (b)
		verify(t, *b);
}

void op_refill(struct thread *t)
{
	struct block **b = draw_block(t);

	if (b)
		fill(t, *b);
}

/* One becomes the other. */
void op_copy(struct thread *t)
{
	struct block **from = draw_block(t), **to = draw_block(t);
	CUstream s = any_stream(t);

	if (!from || !to || from == to || (*to)->fixed ||
	    (*to)->bytes > (*from)->bytes)
		return;
	order(t, *from, s);
	order(t, *to, s);
	GOOD(t, cuMemcpyDtoDAsync((*to)->at, (*from)->at, (*to)->bytes, s));
	(*to)->word = (*from)->word;
}

void op_swap(struct thread *t)
{
	swap_shared(t);
}

static bool rt_got(struct thread *t, cudaError_t rc, const char *what)
{
	cudaError_t last = cudaGetLastError();

	if (rc != last)
		wrong(t, "%s: %d, and the last error is %d", what, (int)rc,
		      (int)last);
	return got(t, (CUresult)rc, what);
}

/* A block of the runtime's, whole in one operation. */
void op_runtime(struct thread *t)
{
	size_t bytes = draw_size(t), n = bytes < 4096 ? bytes : 4096;
	unsigned char *p = NULL, value = (unsigned char)below(t, 256);

	if (!rt_got(t, cudaMalloc((void **)&p, bytes), "cudaMalloc"))
		return;
	GOOD(t, (CUresult)cudaMemset(p, value, bytes));
	GOOD(t, (CUresult)cudaMemcpy(t->host, p + bytes - n, n,
				     cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < n; i++)
		if (((unsigned char *)t->host)[i] != value)
			wrong(t, "byte %zu of %zu is %u, not %u", i, bytes,
			      ((unsigned char *)t->host)[i], value);
	GOOD(t, (CUresult)cudaFree(p));
}

void op_pitch(struct thread *t)
{
	size_t width = 4 + (below(t, 3000) & ~3ull), height = 1 + below(t, 200);
	size_t pitch = 0;
	CUdeviceptr p = 0;
	uint32_t word = (uint32_t)next_random(&t->rng);

	if (!GOT(t, cuMemAllocPitch(&p, &pitch, width, height, 4)))
		return;
	if (pitch < width || pitch % 4)
		wrong(t, "pitch %zu of width %zu", pitch, width);
	GOOD(t, cuMemsetD2D32Async(p, pitch, word, width / 4, height,
				   t->streams[0]));
	verify_bytes(t, p + (height - 1) * pitch, width, word, t->streams[0]);
	GOOD(t, cuMemFree(p));
}

/* It is no mapping of the program's. */
static void past_mapping(struct thread *t, CUdeviceptr at)
{
	const CUmemAccessDesc none = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
			     .id = t->lane->device},
	};
	CUdeviceptr page = at & ~(CUdeviceptr)(2 * MIB - 1);
	CUmemGenericAllocationHandle handle;
	CUresult rc = cuMemRetainAllocationHandle(&handle, (void *)at);

	if (rc != CUDA_ERROR_INVALID_VALUE)
		wrong(t, "a handle of plain memory: %d", (int)rc);
	rc = cuMemSetAccess(page, 2 * MIB, &none, 1);
	if (rc != CUDA_ERROR_INVALID_VALUE && got(t, rc, "cuMemSetAccess"))
		wrong(t, "access to plain memory: %d", (int)rc);
	rc = cuMemUnmap(page, 2 * MIB);
	if (rc != CUDA_ERROR_INVALID_VALUE)
		wrong(t, "unmap of plain memory: %d", (int)rc);
}

/* What must be refused, and do no harm. */
void op_past(struct thread *t)
{
	struct block **b = draw_block(t);
	CUresult rc;

	if (!b || (*b)->kind != PLAIN)
		return;
	rc = cuMemFree((*b)->at + 4);
	if (rc != CUDA_ERROR_INVALID_VALUE)
		wrong(t, "free of a middle: %d", (int)rc);
	rc = cuMemsetD8Async((*b)->at, 1, (*b)->bytes + 64 * MIB,
			     t->streams[0]);
	if (rc != CUDA_ERROR_INVALID_VALUE)
		wrong(t, "set past the end: %d", (int)rc);
	rc = cuMemFree(16);
	if (rc != CUDA_ERROR_INVALID_VALUE)
		wrong(t, "free of 16: %d", (int)rc);
	past_mapping(t, (*b)->at);
}

void op_query(struct thread *t)
{
	struct block **b = draw_block(t);
	unsigned long long id = 0;
	CUcontext context = NULL;
	CUdeviceptr base = 0;
	size_t size = 0;
	int device = -1;

	if (!b || (*b)->kind != PLAIN)
		return;
	GOOD(t, cuMemGetAddressRange(&base, &size,
				     (*b)->at + below(t, (*b)->bytes)));
	if (base != (*b)->at || size != (*b)->bytes)
		wrong(t, "range of %zu bytes: %zu at offset %lld", (*b)->bytes,
		      size, (long long)(base - (*b)->at));
	GOOD(t, cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT,
				      (*b)->at));
	GOOD(t,
	     cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				   (*b)->at));
	if (context != t->lane->context || device != t->lane->device)
		wrong(t, "context %p on %d, not %p on %d", (void *)context,
		      device, (void *)t->lane->context, t->lane->device);
	GOOD(t, cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
				      (*b)->at));
	if (!id || ((*b)->id && id != (*b)->id))
		wrong(t, "buffer %llu became %llu", (*b)->id, id);
	(*b)->id = id;
}

/* Under a limit: what the simulated card itself says. One look is none: the
 * two figures are not of one moment, and what a pool of the driver's took too
 * much of goes back. */
static void check_limit(struct thread *t)
{
	uint64_t limit = soak.limit_mib * MIB, held = 0;
	int device = t->lane->device;

	for (int i = 0; i < 1000; i++) {
		held = gpusim_used_bytes(device) + gpusim_context_bytes(device);
		if (held <= limit)
			return;
		usleep(1000);
	}
	wrong(t, "%llu bytes held on device %d under a limit of %llu",
	      (unsigned long long)held, device, (unsigned long long)limit);
}

void op_looks(struct thread *t)
{
	size_t left = 0, total = 0;
	CUcontext context = NULL;

	GOOD(t, cuMemGetInfo(&left, &total));
	if (left > total)
		wrong(t, "%zu bytes free of %zu", left, total);
	GOOD(t, cuCtxGetCurrent(&context));
	if (context != t->lane->context)
		wrong(t, "another context is current");
	if (soak.limit_mib)
		check_limit(t);
}

void op_stream(struct thread *t)
{
	unsigned i = (unsigned)below(t, 2);
	CUstream old = t->streams[i];

	if (below(t, 2))
		GOOD(t, cuStreamSynchronize(old));
	/* Its work goes on; a block's next work is ordered by an event. */
	for (unsigned n = 0; n < OWN; n++) {
		struct block *b = t->own[n];

		if (!b || b->event || b->stream != old)
			continue;
		GOOD(t, cuEventCreate(&b->event, CU_EVENT_DISABLE_TIMING));
		GOOD(t, cuEventRecord(b->event, old));
		b->stream = NULL;
	}
	GOOD(t, cuStreamDestroy(old));
	GOOD(t, cuStreamCreate(&t->streams[i],
			       i ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

void op_sync(struct thread *t)
{
	CUresult rc;

	switch (below(t, 3)) {
	case 0:
		synchronize(t);
		break;
	case 1:
		GOOD(t, cuStreamSynchronize(any_stream(t)));
		break;
	default:
		rc = cuStreamQuery(any_stream(t));
		if (rc != CUDA_ERROR_NOT_READY)
			good(t, rc, "cuStreamQuery");
	}
}

void op_event(struct thread *t)
{
	CUevent first, last;
	CUresult rc;
	float ms;

	GOOD(t, cuEventCreate(&first, CU_EVENT_DEFAULT));
	GOOD(t, cuEventCreate(&last, CU_EVENT_DEFAULT));
	GOOD(t, cuEventRecord(first, t->streams[0]));
	op_refill(t);
	GOOD(t, cuEventRecord(last, t->streams[0]));
	rc = cuEventQuery(last);
	if (rc != CUDA_ERROR_NOT_READY)
		good(t, rc, "cuEventQuery");
	GOOD(t, cuEventSynchronize(last));
	GOOD(t, cuEventElapsedTime(&ms, first, last));
	GOOD(t, cuEventDestroy(first));
	GOOD(t, cuEventDestroy(last));
}

static void count(void *arg)
{
	__atomic_fetch_add((unsigned *)arg, 1, __ATOMIC_RELEASE);
}

void op_host(struct thread *t)
{
	unsigned done = 0, times = 1 + (unsigned)below(t, 4);
	CUstream s = any_stream(t);

	for (unsigned i = 0; i < times; i++)
		GOOD(t, cuLaunchHostFunc(s, count, &done));
	GOOD(t, cuStreamSynchronize(s));
	if (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != times)
		wrong(t, "%u host functions ran, not %u", done, times);
}

/* What a free lets the host see without any other wait. */
void op_barrier(struct thread *t)
{
	struct block **b = draw_block(t);
	CUstream s = any_stream(t);
	CUdeviceptr other = 0;
	size_t n;

	if (!b || !soak.barrier)
		return;
	n = (*b)->bytes < HOST_BYTES ? (*b)->bytes : HOST_BYTES;
	if (!GOT(t, cuMemAlloc(&other, 4 + below(t, MIB))))
		return;
	order(t, *b, s);
	memset(t->pinned, 0, n);
	GOOD(t, cuMemcpyDtoHAsync(t->pinned, (*b)->at, n, s));
	GOOD(t, cuMemFree(other));
	for (size_t i = 0; i < n / 4; i++)
		if (t->pinned[i] != (*b)->word)
			wrong(t, "after a free, word %zu of a copy is %08x", i,
			      t->pinned[i]);
}

/* Another device may reach the pool, or no more. */
static void change_access(struct thread *t, CUmemoryPool pool)
{
	int other = soak.lanes[below(t, soak.num_lanes)].device;
	CUmemAccessDesc desc = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = other},
		.flags = below(t, 2) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				     : CU_MEM_ACCESS_FLAGS_PROT_NONE,
	};

	if (soak.peers && other != t->lane->device)
		GOOD(t, cuMemPoolSetAccess(pool, &desc, 1));
}

void op_pool(struct thread *t)
{
	CUmemoryPool pool;
	cuuint64_t keep;

	GOOD(t, cuDeviceGetDefaultMemPool(&pool, t->lane->device));
	switch (below(t, 3)) {
	case 0:
		GOOD(t, cuMemPoolTrimTo(pool, 0));
		break;
	case 1:
		keep = below(t, 2) ? 0 : below(t, 64 * MIB);
		GOOD(t, cuMemPoolSetAttribute(pool,
					      CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					      &keep));
		break;
	default:
		change_access(t, pool);
	}
}

void op_pinned(struct thread *t)
{
	size_t bytes = 4 + below(t, MIB);
	char *p = NULL, *mine;

	if (GOT(t, cuMemHostAlloc((void **)&p, bytes, 0))) {
		p[0] = p[bytes - 1] = 1;
		GOOD(t, cuMemFreeHost(p));
	}
	mine = aligned_alloc(4096, 8192);
	if (mine && GOT(t, cuMemHostRegister(mine, 8192, 0)))
		GOOD(t, cuMemHostUnregister(mine));
	free(mine);
}

void op_array(struct thread *t)
{
	CUDA_ARRAY_DESCRIPTOR desc = {.Width = 1 + below(t, 500),
				      .Height = 1 + below(t, 500),
				      .Format = CU_AD_FORMAT_UNSIGNED_INT32,
				      .NumChannels = 1};
	CUarray array;

	if (GOT(t, cuArrayCreate(&array, &desc)))
		GOOD(t, cuArrayDestroy(array));
}

/* The program's own mapping. */
void op_virtual(struct thread *t)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	size_t bytes = 2 * MIB * (1 + below(t, 3));
	CUmemGenericAllocationHandle handle;
	uint32_t word = (uint32_t)next_random(&t->rng);
	CUdeviceptr at = 0;

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = t->lane->device;
	desc.location = prop.location;
	if (!soak.virtual || !GOT(t, cuMemCreate(&handle, bytes, &prop, 0)))
		return;
	if (GOT(t, cuMemAddressReserve(&at, bytes, 0, 0, 0))) {
		if (GOT(t, cuMemMap(at, bytes, 0, handle, 0))) {
			if (GOT(t, cuMemSetAccess(at, bytes, &desc, 1))) {
				GOOD(t, cuMemsetD32Async(at, word, bytes / 4,
							 t->streams[0]));
				verify_bytes(t, at, bytes, word, t->streams[0]);
			}
			GOOD(t, cuMemUnmap(at, bytes));
		}
		GOOD(t, cuMemAddressFree(at, bytes));
	}
	GOOD(t, cuMemRelease(handle));
}
