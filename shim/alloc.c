/*
 * cuMemAlloc, cuMemAllocPitch, cuMemFree and kin.
 *
 * Whatever is unusual (zero bytes, NULL, no context, a capture, an element
 * size the driver would refuse) is forwarded: the driver's own answer is the
 * right one.
 */
#include <errno.h>
#include <string.h>

#include "pool/order.h"
#include "shim/alloc.h"
#include "shim/capture.h"
#include "shim/context.h"
#include "shim/driver_impl.h"
#include "shim/driver_pool.h"
#include "shim/follow.h"
#include "shim/libraries.h"
#include "shim/names.h"
#include "shim/reporter.h"
#include "shim/stacks.h"
#include "shim/room.h"
#include "shim/devices.h"
#include "shim/special.h"
#include "shim/state.h"
#include "shim/take.h"
#include "shim/tracer.h"
#include "stats/log.h"
#include "stats/ring.h"

#define cold  __attribute__((noinline, cold))

/* Rows of cuMemAllocPitch start at multiples of this (measured). */
#define PITCH 512u

static __thread struct {
	bool set;
	CUresult rc;
} answer;

void gp_repeat_answer(CUresult rc)
{
	answer.set = true;
	answer.rc = rc;
}

void gp_forget_answer(void)
{
	answer.set = false;
}

static bool repeat_answer(CUresult *rc)
{
	if (__builtin_expect(!answer.set, 1))
		return false;
	answer.set = false;
	*rc = answer.rc;
	return true;
}

/* check:True, after every step. Told even when quiet: tests look for it. */
static cold void check(struct gp_pool *pool, const char *step)
{
	char why[200];

	if (gp_pool_check(pool, why, sizeof(why)))
		gp_warn("check after %s: %s", step, why);
}

static inline void checked(struct gp_pool *pool, const char *step)
{
	if (gp_special() & GP_SPECIAL_CHECK)
		check(pool, step);
}

/* ---- allocations --------------------------------------------------------- */

/* The pool could not serve: out of memory is the program's answer, anything
 * else is our own failure and the driver serves instead. */
static cold enum gp_served alloc_failed(const struct gp_context *context,
					int error, size_t bytes,
					const char *call, CUresult *rc)
{
	checked(context->pool, "an allocation");
	if (error == -ENOMEM) {
		bool limit = gp_room_limit_refused();

		if (limit)
			gp_limit_refused(context->cuda.limit);
		gp_tracer_oom(bytes);
		gp_ring_add(GP_RING_oom, context->cuda.driver.device, 0, bytes,
			    0, gp_pool_allocated(context->pool),
			    gp_pool_reserved(context->pool));
		gp_reporter_oom(bytes, context->cuda.device, call, limit);
		*rc = CUDA_ERROR_OUT_OF_MEMORY;
		return GP_SERVED;
	}
	if (error == -EIO && gp_cuda_last_error() == CUDA_ERROR_DEINITIALIZED)
		return GP_FORWARD; /* the process ends: the driver says so, too */
	if (error == -EIO)
		gp_warn("the pool could not serve %zu bytes (error %d from "
			"%s); the driver serves them",
			bytes, (int)gp_cuda_last_error(), gp_cuda_last_call());
	else
		gp_warn("the pool could not serve %zu bytes (%s); the driver "
			"serves them",
			bytes, strerror(-error));
	return GP_FORWARD;
}

/* Something is special. False: the driver is to answer. */
static cold bool may_alloc(void)
{
	const struct gp_context *context;

	if (!gp_active())
		return false;
	if (gp_special() & GP_SPECIAL_LOADS)
		gp_libraries_look_again();
	if (gp_capture_any())
		return false;
	if (!(gp_special() & GP_SPECIAL_FAULT))
		return true;
	context = gp_context_current();
	return context && gp_context_probe(context) == CUDA_SUCCESS;
}

/* Something is special, and the pool served. */
static cold void was_allocated(struct gp_pool *pool, uint64_t va, size_t bytes)
{
	checked(pool, "an allocation");
	gp_tracer_alloc(va, bytes);
}

/* backend:cudaMallocAsync. What the driver refuses but for lack of memory it may
 * still serve plainly, or say why not. */
static cold enum gp_served serve_otherwise(const struct gp_context *context,
					   CUdeviceptr *address, size_t bytes,
					   const char *call, CUresult *rc)
{
	if (!context->driver_pool || bytes > GP_NO_LIMIT / 2 ||
	    __atomic_load_n(&context->driver_pool->left, __ATOMIC_ACQUIRE))
		return GP_FORWARD;
	*rc = gp_driver_pool_alloc(context->driver_pool, address, bytes, call);
	return *rc == CUDA_SUCCESS || *rc == CUDA_ERROR_OUT_OF_MEMORY
		       ? GP_SERVED
		       : GP_FORWARD;
}

enum gp_served gp_serve_alloc(CUdeviceptr *address, size_t bytes,
			      const char *call, CUresult *rc)
{
	struct gp_context *context;
	uint64_t va;
	int error;

	if (!address || !bytes || (gp_special() && !may_alloc()))
		return GP_FORWARD;
	context = gp_context_current();
	if (!context)
		return GP_FORWARD;
	if (__builtin_expect(!context->pool, 0))
		return serve_otherwise(context, address, bytes, call, rc);
	error = gp_pool_alloc(context->pool, bytes, &va);
	if (__builtin_expect(error, 0))
		return alloc_failed(context, error, bytes, call, rc);
	*address = va;
	*rc = CUDA_SUCCESS;
	gp_stacks_alloc(context->pool, va, bytes);
	if (gp_special())
		was_allocated(context->pool, va, bytes);
	return GP_SERVED;
}

enum gp_served gp_serve_pitch(CUdeviceptr *address, size_t *pitch, size_t width,
			      size_t height, unsigned element_size,
			      const char *call, CUresult *rc)
{
	size_t row, bytes;
	enum gp_served served;

	if (!pitch || !width || !height ||
	    (element_size != 4 && element_size != 8 && element_size != 16) ||
	    width > SIZE_MAX - PITCH)
		return GP_FORWARD;
	row = (width + PITCH - 1) / PITCH * PITCH;
	if (__builtin_mul_overflow(row, height, &bytes))
		return GP_FORWARD;
	served = gp_serve_alloc(address, bytes, call, rc);
	if (served == GP_SERVED && *rc == CUDA_SUCCESS)
		*pitch = row;
	return served;
}

/* ---- frees ------------------------------------------------------------------ */

/* A stream captures: the real cuMemFree would be refused in most modes, and
 * invalidate the capture. Or there was a fault, and all is refused. Ask the
 * driver with a call of the same class. */
static CUresult free_allowed(const struct gp_pool *pool, unsigned special)
{
	const struct gp_context *context;

	if (!(special & GP_SPECIAL_FAULT) && !gp_capture_any())
		return CUDA_SUCCESS;
	context = gp_context_of_pool(pool);
	return context ? gp_context_probe(context) : CUDA_SUCCESS;
}

static inline CUresult free_result(int error)
{
	if (__builtin_expect(error == 0, 1))
		return CUDA_SUCCESS;
	return error == -ENOENT /* interior, or freed before */
		       ? CUDA_ERROR_INVALID_VALUE
		       : gp_cuda_last_error();
}

/* A trace holds only frees that will succeed. */
static void trace_free(struct gp_pool *pool, uint64_t address)
{
	uint64_t base, bytes;

	if (gp_tracer_on() && !gp_pool_find(pool, address, &base, &bytes) &&
	    base == address)
		gp_tracer_free(address);
}

static inline bool follows(void)
{
	return __atomic_load_n(&gp_work_on, __ATOMIC_RELAXED) != 0;
}

static inline int pool_free(struct gp_pool *pool, uint64_t address,
			    const void *caller)
{
	return gp_follow_orders_itself(caller) ? gp_pool_free_own(pool, address)
					       : gp_pool_free(pool, address);
}

/* Something is special. */
static cold CUresult free_specially(struct gp_pool *pool, uint64_t address,
				    const void *caller)
{
	unsigned special = gp_special();
	CUresult rc;

	if (special & GP_SPECIAL_LOADS)
		gp_libraries_look_again();
	rc = free_allowed(pool, special);
	if (rc != CUDA_SUCCESS)
		return rc;
	trace_free(pool, address);
	/* Work may come through entry points that are not known here: the free
	 * waits. */
	if (special & GP_SPECIAL_UNKNOWN)
		gp_order_give_up(gp_pool_order(pool));
	if (special & (GP_SPECIAL_UNKNOWN | GP_SPECIAL_UNWATCHED))
		rc = free_result(gp_pool_free(pool, address));
	else
		rc = free_result(pool_free(pool, address, caller));
	checked(pool, "a free");
	return rc;
}

enum gp_served gp_serve_free(CUdeviceptr address, const void *caller,
			     CUresult *rc)
{
	struct gp_pool *pool = gp_pool_of(address);
	unsigned special = gp_special();
	CUcontext current;

	/* No context need be current (measured, driver 580); but at the end of
	 * the process the driver answers nothing else any more. */
	if (!pool || (special & GP_SPECIAL_PHASE) ||
	    gp_real()->cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return GP_FORWARD;
	*rc = special ? free_specially(pool, address, caller)
		      : free_result(pool_free(pool, address, caller));
	return GP_SERVED;
}

/* ---- the driver's entry points ------------------------------------------ */

/* The trace has what the driver serves, too. */
static void took(struct gp_take *take, CUresult rc, const CUdeviceptr *address,
		 size_t bytes)
{
	if (rc != CUDA_SUCCESS) {
		gp_take_end(take, rc, 0);
		return;
	}
	gp_take_end(take, rc, *address);
	if (take->on)
		gp_tracer_alloc(*address, bytes);
}

static cold CUresult alloc_plainly(CUdeviceptr *address, size_t bytes,
				   const char *call)
{
	struct gp_take take;
	CUresult rc;

	if (!gp_take_begin(&take, GP_KIND_plain, bytes, call))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = gp_real()->cuMemAlloc_v2(address, bytes);
	if (gp_room_made_for(bytes, rc))
		rc = gp_real()->cuMemAlloc_v2(address, bytes);
	took(&take, rc, address, bytes);
	return rc;
}

CUresult gp_alloc(CUdeviceptr *address, size_t bytes, const char *call)
{
	CUresult rc;

	if (gp_serve_alloc(address, bytes, call, &rc) == GP_SERVED)
		return rc;
	return alloc_plainly(address, bytes, call);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	CUresult rc;

	if (repeat_answer(&rc))
		return rc;
	if (gp_serve_alloc(address, bytes, "cuMemAlloc_v2", &rc) == GP_SERVED)
		return rc;
	return alloc_plainly(address, bytes, "cuMemAlloc_v2");
}

/* What the rows take, as the driver pads them. */
static uint64_t pitched(size_t width, size_t height)
{
	uint64_t bytes;

	return __builtin_mul_overflow(width > SIZE_MAX - PITCH
					      ? width
					      : (width + PITCH - 1) / PITCH *
							PITCH,
				      height, &bytes)
		       ? SIZE_MAX
		       : bytes;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width,
			    size_t height, unsigned element_size)
{
	struct gp_take take;
	CUresult rc;

	if (repeat_answer(&rc))
		return rc;
	if (gp_serve_pitch(address, pitch, width, height, element_size,
			   "cuMemAllocPitch_v2", &rc) == GP_SERVED)
		return rc;
	if (!gp_take_begin(&take, GP_KIND_plain, pitched(width, height),
			   "cuMemAllocPitch_v2"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = gp_real()->cuMemAllocPitch_v2(address, pitch, width, height,
					   element_size);
	if (gp_room_made_for(pitched(width, height), rc))
		rc = gp_real()->cuMemAllocPitch_v2(address, pitch, width,
						   height, element_size);
	took(&take, rc, address, rc == CUDA_SUCCESS ? *pitch * height : 0);
	return rc;
}

/* The driver has waited, but not where the memory was asynchronous. [18] */
static void freed_plainly(const struct gp_foreign *entry)
{
	if (entry->kind == GP_KIND_plain || entry->kind == GP_KIND_managed)
		gp_follow_freed((CUcontext)(uintptr_t)entry->context);
	if (entry->kind == GP_KIND_managed)
		gp_follow_managed();
}

static cold CUresult free_plainly(CUdeviceptr address)
{
	struct gp_foreign entry;
	bool known = gp_take_out(address, &entry);
	CUresult rc;

	if (known)
		gp_tracer_free(address);
	rc = known && entry.owner ? gp_driver_pool_free(address, &entry)
				  : gp_real()->cuMemFree_v2(address);
	gp_take_freed(known, address, &entry, rc);
	if (rc == CUDA_SUCCESS && known && !entry.owner && follows())
		freed_plainly(&entry);
	return rc;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	const void *caller =
		gp_free_caller ? gp_free_caller : __builtin_return_address(0);
	CUresult rc;

	if (repeat_answer(&rc))
		return rc;
	if (gp_serve_free(address, caller, &rc) == GP_SERVED)
		return rc;
	return free_plainly(address);
}

/* It comes back in stream order: nothing but its next use is ordered then. */
static CUresult free_in_order(struct gp_pool *pool, CUdeviceptr address)
{
	bool unknown = gp_special() & GP_SPECIAL_UNKNOWN;
	CUresult rc;

	trace_free(pool, address);
	if (unknown) /* as for other frees */
		gp_order_give_up(gp_pool_order(pool));
	rc = free_result(follows() && !unknown ? gp_pool_free_own(pool, address)
					       : gp_pool_free(pool, address));
	checked(pool, "a free in stream order");
	return rc;
}

CUresult gp_free_in_order(CUdeviceptr address)
{
	struct gp_pool *pool = gp_pool_of(address);
	struct gp_ease e;
	CUresult rc;

	if (pool && gp_running())
		return free_in_order(pool, address);
	e = gp_ease();
	rc = free_plainly(address);
	gp_unease(&e);
	return rc;
}

typedef __typeof__(cuMemFreeAsync) free_async_fn;

/* A pool block is never forwarded: the driver does not know it. */
static CUresult free_async(free_async_fn *real, CUdeviceptr address,
			   CUstream stream, enum gp_work_id id)
{
	struct gp_pool *pool = gp_pool_of(address);
	struct gp_foreign entry;
	struct gp_slot *slot;
	bool known;
	CUresult rc;

	/* Of what no graph allocated a stream that captures frees nothing: the
	 * driver says so. While others capture this is forbidden where cuMemFree
	 * is (measured, driver 580). */
	if (pool && gp_running() &&
	    !gp_capture_of(stream ? stream : gp_work_rows[id].default_stream)) {
		rc = gp_special() ? free_allowed(pool, gp_special())
				  : CUDA_SUCCESS;
		return rc == CUDA_SUCCESS ? free_in_order(pool, address) : rc;
	}
	known = gp_take_out(address, &entry);
	slot = gp_work_submit(stream, gp_work_rows[id].default_stream);
	rc = real(address, stream);
	gp_work_submitted(slot, rc);
	gp_take_freed(known, address, &entry, rc);
	return rc;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	return free_async(gp_real()->cuMemFreeAsync, address, stream,
			  GP_WORK_ID_cuMemFreeAsync);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
	return free_async(gp_real()->cuMemFreeAsync_ptsz, address, stream,
			  GP_WORK_ID_cuMemFreeAsync_ptsz);
}
