/* Submissions; see follow.h. */
#include "shim/follow.h"

#include "pool/order.h"
#include "shim/capture.h"
#include "shim/context.h"
#include "shim/follow_impl.h"
#include "shim/green.h"
#include "shim/names.h"
#include "shim/state.h"

#define cold      __attribute__((noinline, cold))
#define likely(x) __builtin_expect(!!(x), 1)
#define RECENT    16

/* Synchronization: atomic. */
static unsigned generation = 1;

/* A stream that this thread used; `context` only where the handle is that of a
 * default stream. */
static __thread struct recent {
	CUstream stream;
	CUcontext context;
	unsigned generation;
	struct gp_slot *slot;
} recent[RECENT];

/*
 * The same of streams about which a submission has nothing to ask: they do not
 * capture, and are no thread's default stream. The legacy one only while the
 * current context cannot be another that has a pool.
 */
static __thread struct direct {
	CUstream stream;
	struct gp_slot *slot;
	unsigned generation;
} direct[RECENT];

static unsigned this_generation(void)
{
	return __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
}

void gp_follow_expire(void)
{
	__atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
}

static inline bool is_default(CUstream stream)
{
	return (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD;
}

/* ---- finding the slot ---------------------------------------------------------- */

struct gp_order *gp_follow_order(const struct gp_context *context)
{
	struct gp_order *order;

	if (!context || !context->pool)
		return NULL;
	order = gp_pool_order(context->pool);
	return gp_order_is(order, GP_ORDER_SYNC) ? NULL : order;
}

static inline unsigned place(CUstream stream)
{
	return (unsigned)((uintptr_t)stream * 0x9e3779b97f4a7c15ull >> 60);
}

/* Work in the default stream of a green context, which none but the thread that
 * has it current can name. What is in no stream of the primary one's order may
 * use its pool's memory all the same: frees wait from now on, as the driver's. */
static void unseen(CUcontext green)
{
	struct gp_order *order;

	if (!green || gp_green_device(green) < 0)
		return;
	order = gp_follow_order(gp_context_known(green));
	if (!order)
		return;
	gp_order_unseen(order);
	gp_follow_expire();
}

static void unseen_in(struct gp_context *context, void *arg)
{
	struct gp_order *order = gp_follow_order(context);

	(void)arg;
	if (order)
		gp_order_unseen(order);
}

/* The context that the stream belongs to. A stream whose context the driver does
 * not tell may be any one's, unless it is none: then no call takes it. */
static struct gp_context *context_of(CUstream stream)
{
	CUcontext handle = NULL;
	CUresult rc;

	if (is_default(stream))
		return gp_context_current();
	rc = gp_real()->cuStreamGetCtx(stream, &handle);
	if (rc == CUDA_SUCCESS)
		return gp_context_known(handle);
	if (rc != CUDA_ERROR_INVALID_HANDLE && rc != CUDA_ERROR_INVALID_VALUE &&
	    rc != CUDA_ERROR_CONTEXT_IS_DESTROYED) {
		gp_context_each(unseen_in, NULL);
		gp_follow_expire();
	}
	return NULL;
}

static cold struct gp_slot *find(CUstream stream, CUcontext context)
{
	unsigned now;
	struct gp_order *order;
	struct recent *r;

	if (!gp_active())
		return NULL;
	unseen(context);
	now = this_generation();
	order = gp_follow_order(context_of(stream));
	r = &recent[place(stream)];
	r->slot = order ? gp_order_slot(order, (uintptr_t)stream) : NULL;
	r->stream = stream;
	r->context = context;
	r->generation = now;
	return r->slot;
}

static inline struct gp_slot *slot_of(CUstream stream)
{
	struct recent *r = &recent[place(stream)];
	CUcontext context = NULL;

	if (is_default(stream) &&
	    gp_real()->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
		return NULL;
	if (likely(r->stream == stream && r->context == context &&
		   r->generation == this_generation()))
		return r->slot;
	return find(stream, context);
}

struct gp_slot *gp_follow_slot(CUstream stream)
{
	return slot_of(stream);
}

/* ---- submissions ----------------------------------------------------------------- */

/* Who submits to the stream. NULL: nobody that is followed, or what comes is no
 * work, as the stream captures. */
static struct gp_slot *submitter(CUstream stream)
{
	unsigned now = this_generation();
	struct direct *d = &direct[place(stream)];
	struct gp_slot *slot = slot_of(stream);

	if (!slot)
		return NULL;
	if (__atomic_load_n(&slot->stream->capturing, __ATOMIC_ACQUIRE) &&
	    gp_order_captures(slot->stream))
		return NULL;
	if (!slot->set_off && (!is_default(stream) || gp_context_alone()))
		*d = (struct direct){stream, slot, now};
	return slot;
}

static cold struct gp_slot *submit_slowly(CUstream stream)
{
	struct gp_slot *slot = NULL;

	if (__atomic_load_n(&gp_work_on, __ATOMIC_RELAXED))
		slot = submitter(stream);
	if (slot)
		gp_order_begin(slot);
	return slot;
}

struct gp_slot *gp_follow_submit(CUstream stream)
{
	const struct direct *d = &direct[place(stream)];
	struct gp_slot *slot = d->slot;

	if (!likely(d->stream == stream && d->generation == this_generation()))
		return submit_slowly(stream);
	gp_order_begin(slot);
	return slot;
}

void gp_follow_shown(struct gp_slot *slot, CUresult rc)
{
	gp_order_end(slot);
	if (rc == CUDA_SUCCESS)
		gp_order_shows(slot);
}

/* A wait may draw its stream into the capture that the event belongs to. */
static void wait_begins(struct gp_work *work)
{
	if (!gp_capture_any()) {
		work->slot = gp_follow_submit(work->stream);
		return;
	}
	work->slot = submitter(work->stream);
	if (!work->slot)
		return;
	work->proves = true;
	gp_order_seize(work->slot->stream, work->slot);
}

static void wait_ended(struct gp_work *work)
{
	if (!work->proves)
		gp_order_end(work->slot);
	else if (gp_order_yield(work->slot->stream, work->slot))
		gp_follow_expire();
}

void gp_follow_begin(struct gp_work *work, const struct gp_work_row *row)
{
	switch (row->class) {
	case GP_WORK_SYNC_SET:
		work->slot = gp_follow_submit(work->stream);
		break;
	case GP_WORK_EVENT_RECORD:
		work->slot = gp_follow_submit(work->stream);
		gp_follow_records(work);
		break;
	case GP_WORK_SYNC_COPY:
		work->slot = gp_follow_submit(work->stream);
		gp_follow_wait_begins(work, row);
		break;
	case GP_WORK_STREAM_WAIT:
		wait_begins(work);
		break;
	default:
		gp_follow_wait_begins(work, row);
	}
}

void gp_follow_end(struct gp_work *work, const struct gp_work_row *row,
		   CUresult rc)
{
	switch (row->class) {
	case GP_WORK_EVENT_RECORD:
		gp_follow_recorded(work, rc);
		gp_work_submitted(work->slot, CUDA_SUCCESS);
		break;
	case GP_WORK_SYNC_SET:
		gp_work_submitted(work->slot, CUDA_SUCCESS);
		break;
	case GP_WORK_SYNC_COPY:
		gp_work_submitted(work->slot, CUDA_SUCCESS);
		gp_follow_wait_ended(work, row, rc);
		break;
	case GP_WORK_STREAM_WAIT:
		if (work->slot)
			wait_ended(work);
		break;
	default:
		gp_follow_wait_ended(work, row, rc);
	}
}

/* ---- green contexts --------------------------------------------------------------- */

struct in_green {
	CUcontext green;
	CUstream found;
};

static bool is_in(uint64_t stream, void *green)
{
	CUcontext handle = NULL;

	return gp_real()->cuStreamGetCtx((CUstream)stream, &handle) ==
		       CUDA_SUCCESS &&
	       handle == green;
}

static void find_in(struct gp_context *context, void *arg)
{
	struct gp_order *order = gp_follow_order(context);
	struct in_green *in = arg;

	if (order && !in->found)
		in->found = (CUstream)gp_order_find(order, is_in, in->green);
}

void gp_follow_leave(CUcontext green)
{
	struct in_green in = {green, NULL};

	do {
		gp_follow_destroy(in.found);
		in.found = NULL;
		gp_context_each(find_in, &in);
	} while (in.found);
}

#ifdef GP_MUTATIONS
static void only_idle(struct gp_context *context, void *arg)
{
	(void)arg;
	if (context->pool)
		gp_order_only_idle(gp_pool_order(context->pool));
}

void gp_mutation_only_idle(void)
{
	gp_context_each(only_idle, NULL);
}

void gp_mutation_tick(void)
{
	gp_context_tick();
}
#endif
