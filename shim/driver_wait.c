/*
 * Plain allocations of the driver, and waiting for a context: the calls of the
 * seam that the driver ties together, as cuMemFree waits for everything.
 */
#include <errno.h>
#include <sched.h>
#include <stddef.h>

#include "shim/driver_impl.h"

/* How often a stream without other work is asked whether a free has passed. */
#define TRIES 100

struct segment {
	uint64_t bytes;
	CUdeviceptr address;
	CUstream stream;
};

static CUresult alloc_body(const struct gp_real *real, void *arg)
{
	struct segment *segment = arg;

	return real->cuMemAlloc_v2(&segment->address, segment->bytes);
}

int gp_cuda_segment_alloc(void *dev, uint64_t bytes, uint64_t *va)
{
	struct segment segment = {.bytes = bytes};
	int rc = gp_cuda_take(dev, bytes);
	CUresult result;

	if (rc)
		return rc;
	result = gp_cuda_in_context(dev, alloc_body, &segment);
	if (gp_cuda_others_gave(dev, bytes, result))
		result = gp_cuda_in_context(dev, alloc_body, &segment);
	rc = gp_cuda_errno(result, "cuMemAlloc_v2");
	gp_cuda_taken(dev, bytes, rc);
	if (!rc)
		*va = segment.address;
	return rc;
}

static bool is_gone(const struct gp_cuda_driver *cuda)
{
	return __atomic_load_n(&cuda->gone, __ATOMIC_RELAXED);
}

static CUresult free_body(const struct gp_real *real, void *arg)
{
	return real->cuMemFree_v2(((struct segment *)arg)->address);
}

static CUresult stream_body(const struct gp_real *real, void *arg)
{
	return real->cuStreamCreate(&((struct segment *)arg)->stream,
				    CU_STREAM_NON_BLOCKING);
}

/* The stream that segments are given back in; NULL: not to be had. */
static CUstream giver(struct gp_cuda_driver *cuda)
{
	CUstream none = NULL,
		 stream = __atomic_load_n(&cuda->giver, __ATOMIC_ACQUIRE);
	struct segment made = {.stream = NULL};

	if (stream)
		return stream;
	if (gp_cuda_in_context(cuda, stream_body, &made) != CUDA_SUCCESS)
		return NULL;
	if (__atomic_compare_exchange_n(&cuda->giver, &none, made.stream, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made.stream;
	gp_real()->cuStreamDestroy_v2(made.stream);
	return none;
}

static CUresult give(struct gp_cuda_driver *cuda, struct segment *segment)
{
	const struct gp_real *real = gp_real();
	CUstream stream = giver(cuda);

	if (!stream ||
	    real->cuMemFreeAsync(segment->address, stream) != CUDA_SUCCESS)
		return gp_cuda_in_context(cuda, free_body, segment);
	for (int i = 0; i < TRIES; i++)
		if (real->cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
			break;
	return CUDA_SUCCESS;
}

/* Nothing uses the segment any more. cuMemFree would wait for all other work,
 * and this may be an allocation, which must not. */
int gp_cuda_segment_free(void *dev, uint64_t va, uint64_t bytes)
{
	struct segment segment = {.bytes = bytes, .address = va};
	struct gp_ease e = gp_ease();
	const struct gp_cuda_driver *cuda = dev;
	/* It went with its context, and the address may be somebody else's. */
	CUresult rc = is_gone(cuda) ? CUDA_SUCCESS : give(dev, &segment);

	gp_unease(&e);
	if (rc == CUDA_SUCCESS)
		gp_cuda_gave(cuda, bytes);
	return gp_cuda_errno(rc, "cuMemFree_v2");
}

/* ---- waiting ------------------------------------------------------------------ */

static CUresult sync_body(const struct gp_real *real, void *arg)
{
	(void)arg;
	return real->cuCtxSynchronize();
}

/*
 * While a stream captures, cuCtxSynchronize would end that. What waits then as
 * it would for the program's own free is a free: of a spare, an allocation of
 * one byte that is on the ledger as the piece that the driver takes for it.
 */
static CUdeviceptr take_spare(struct gp_cuda_driver *cuda, bool must)
{
	struct segment segment = {.bytes = 1};

	if (!gp_cuda_spare_take(cuda, must))
		return 0;
	if (gp_cuda_in_context(cuda, alloc_body, &segment) == CUDA_SUCCESS)
		return segment.address;
	gp_cuda_spare_gave(cuda);
	return 0;
}

static CUdeviceptr kept_spare(struct gp_cuda_driver *cuda)
{
	return __atomic_exchange_n(&cuda->spare, 0, __ATOMIC_ACQ_REL);
}

static void give_spare(struct gp_cuda_driver *cuda, CUdeviceptr address)
{
	struct segment segment = {.address = address};

	give(cuda, &segment);
	gp_cuda_spare_gave(cuda);
}

/* Also before a capture begins: later there may be no memory for it. The
 * program's own call does not wait there, so neither does this: a kernel may be
 * waiting for what the program does next. */
void gp_cuda_keep_spare(struct gp_cuda_driver *cuda)
{
	struct gp_ease e;
	CUdeviceptr address, none = 0;

	if (__atomic_load_n(&cuda->spare, __ATOMIC_ACQUIRE) || is_gone(cuda))
		return;
	e = gp_ease();
	address = take_spare(cuda, false);
	if (address &&
	    !__atomic_compare_exchange_n(&cuda->spare, &none, address, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		give_spare(cuda, address); /* another thread was first */
	gp_unease(&e);
}

void gp_cuda_gone(struct gp_cuda_driver *cuda)
{
	__atomic_store_n(&cuda->gone, true, __ATOMIC_RELAXED);
	if (kept_spare(cuda))
		gp_cuda_spare_gave(cuda);
}

void gp_cuda_discard(struct gp_cuda_driver *cuda)
{
	CUdeviceptr spare = kept_spare(cuda);
	struct gp_ease e = gp_ease();

	if (spare)
		give_spare(cuda, spare);
	if (cuda->giver)
		gp_real()->cuStreamDestroy_v2(cuda->giver);
	gp_unease(&e);
}

/*
 * Where no spare is kept, as the limit was full when the capture began, one is
 * taken for the moment of the wait, and may go beyond the limit by its piece:
 * all of that is in use by the program, and nothing of it can make room. The
 * alternatives are worse: a free that does not wait lets memory be used that a
 * kernel still writes, and one that is refused never happens.
 */
static __attribute__((noinline, cold)) int
free_something(struct gp_cuda_driver *cuda)
{
	struct gp_ease e = gp_ease();
	struct segment segment;
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	for (;;) {
		__atomic_add_fetch(&cuda->spare_users, 1, __ATOMIC_ACQ_REL);
		segment.address = kept_spare(cuda);
		if (!segment.address)
			segment.address = take_spare(cuda, true);
		if (segment.address || !__atomic_sub_fetch(&cuda->spare_users,
							   1, __ATOMIC_ACQ_REL))
			break;
		/* Another thread waits with it, and will have it again. */
		sched_yield();
	}
	if (segment.address) {
		rc = gp_cuda_in_context(cuda, free_body, &segment);
		/* Its place on the ledger is given up last, so that another
		 * spare has it. */
		gp_cuda_keep_spare(cuda);
		gp_cuda_spare_gave(cuda);
		__atomic_sub_fetch(&cuda->spare_users, 1, __ATOMIC_ACQ_REL);
	}
	gp_unease(&e);
	if (rc == CUDA_ERROR_OUT_OF_MEMORY)
		return -EBUSY; /* not now */
	return gp_cuda_errno(rc, "cuMemFree_v2");
}

int gp_cuda_sync(void *dev)
{
	struct gp_cuda_driver *cuda = dev;
	CUresult rc;

	if (!gp_capture_hold_off(cuda->context))
		return free_something(cuda);
	rc = gp_cuda_in_context(cuda, sync_body, NULL);
	gp_capture_go_on();
	return gp_cuda_errno(rc, "cuCtxSynchronize");
}
