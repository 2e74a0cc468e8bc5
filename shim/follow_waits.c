/*
 * The program's own waits and questions, and streams that go or capture; see
 * follow.h.
 */
#include <pthread.h>
#include <stdlib.h>

#include "pool/order.h"
#include "shim/capture.h"
#include "shim/context.h"
#include "shim/events.h"
#include "shim/follow_impl.h"
#include "stats/kinds.h"

/* Made at a thread's first wait, and freed with the thread: what is
 * thread-local lies on its stack, which may be small. */
static __thread struct gp_proof *proof;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

static void forget_proof(void *own)
{
	proof = NULL;
	free(own);
}

static void make_key(void)
{
	have_key = pthread_key_create(&key, forget_proof) == 0;
}

static __attribute__((noinline, cold)) bool make_proof(void)
{
	struct gp_proof *made;

	pthread_once(&once, make_key);
	made = have_key ? malloc(sizeof(*made)) : NULL;
	if (made && pthread_setspecific(key, made)) {
		free(made);
		made = NULL;
	}
	proof = made;
	return made;
}

/* False: no memory; the wait proves nothing then. */
static bool have_proof(void)
{
	return __builtin_expect(proof != NULL, 1) || make_proof();
}

/* ---- events ----------------------------------------------------------------------- */

void gp_follow_records(struct gp_work *work)
{
	work->record = work->event ? gp_event_records(work->event) : 0;
}

void gp_follow_recorded(struct gp_work *work, CUresult rc)
{
	struct gp_slot *slot = work->slot;
	struct gp_recorded where;

	if (rc != CUDA_SUCCESS) {
		gp_event_unplaced(work->event, work->record);
		return;
	}
	if (!slot) {
		gp_event_recorded(work->event, work->record, NULL);
		return;
	}
	where = (struct gp_recorded){
		.order = slot->stream->order,
		.order_serial = slot->stream->order->serial,
		.slot = slot,
		.serial = slot->stream->serial,
		/* The record itself is this thread's latest submission. */
		.finished = slot->finished + 1,
		.generation = gp_context_generation(),
	};
	gp_event_recorded(work->event, work->record, &where);
}

/* The event of an attribute of a launch. Where it is recorded is no place that
 * the work before it is known to have passed: blocks may start it early. */
static CUevent recorded_by(const CUlaunchAttribute *attribute)
{
	switch ((int)attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
		return attribute->value.programmaticEvent.event;
#if CUDA_VERSION >= 12030
	case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
		return attribute->value.launchCompletionEvent.event;
#endif
	default:
		return NULL;
	}
}

void gp_follow_launch(const CUlaunchConfig *config, const struct gp_slot *slot)
{
	struct gp_recorded where = {.generation = gp_context_generation()};

	if (slot) {
		where.order = slot->stream->order;
		where.order_serial = where.order->serial;
	}
	for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
		CUevent event = recorded_by(&config->attrs[i]);

		if (event)
			gp_event_loosen(event, slot ? &where : NULL);
	}
}

static void seek(struct gp_context *context, void *arg)
{
	struct gp_recorded *where = arg;
	const struct gp_order *order = gp_follow_order(context);

	if (order && order == where->order &&
	    order->serial == where->order_serial &&
	    !gp_context_is_leaving(context->cuda.context))
		where->generation = gp_context_generation();
}

/* Some context has gone since it was recorded. Was it another one? */
static __attribute__((noinline, cold)) bool is_there(struct gp_recorded *where)
{
	unsigned now = gp_context_generation();

	where->generation = now - 1;
	gp_context_each(seek, where);
	return where->generation == now;
}

static bool look(CUevent event, struct gp_recorded *where)
{
	return event && gp_event_look(event, where) &&
	       (where->generation == gp_context_generation() ||
		is_there(where));
}

/* [18] After a cuMemFree everything before it is complete, and what follows it
 * finds the streams empty. A question after this thread's last free must not be
 * answered by work that the free would have waited for. */
static void complete(struct gp_order *order)
{
	if (GP_HOLDS(QUERY_AFTER_FREE))
		gp_order_complete(order, gp_order_last_free(order));
}

void gp_follow_freed(CUcontext context)
{
	struct gp_order *order = gp_follow_order(gp_context_known(context));
	uint64_t stamp, waits;

	if (!order)
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	gp_order_free(order, GP_FREE_WAITED, &stamp, &waits);
}

/* Marks of other threads' frees may have left an event in the stream which is
 * not over, when nothing of the program is in it any more. */
bool gp_follow_is_empty(const struct gp_work *work)
{
	struct gp_slot *slot = gp_follow_slot(work->stream);
	struct gp_order *order;
	uint64_t stamp;

	if (!slot)
		return false;
	order = slot->stream->order;
	stamp = gp_order_last_free(order);
	return stamp && gp_order_idle(order, stamp) &&
	       gp_order_untouched(order, slot->stream->key, stamp);
}

/* Before a wait or a question. The record that the event stands for; 0: which
 * one is not known. */
static uint64_t expect_event(CUevent event, bool asked)
{
	struct gp_recorded where;

	if (!look(event, &where))
		return 0;
	if (asked)
		complete(where.order);
	return where.record;
}

/* [11] If another record began meanwhile the driver may have answered for that
 * or for the earlier one. */
static void event_complete(CUevent event, uint64_t record)
{
	struct gp_recorded where;

	if (record && look(event, &where) && where.record == record)
		gp_order_proven_slot(where.order, where.slot, where.serial,
				     where.finished);
}

/* ---- waits ------------------------------------------------------------------------- */

static void expect_stream(struct gp_work *work)
{
	struct gp_slot *slot = gp_follow_slot(work->stream);

	if (!slot || !have_proof())
		return;
	gp_order_expect_stream(slot->stream->order, slot->stream->key, proof);
	work->proves = true;
}

static void expect_context(struct gp_work *work)
{
	const struct gp_context *context =
		work->object ? gp_context_known(work->object)
			     : gp_context_current();
	struct gp_order *order = gp_follow_order(context);

	/* A green context is waited for alone: what its primary one has, whose
	 * pool serves it, is not proven. */
	if (!order || (work->object && context->cuda.context != work->object) ||
	    !have_proof())
		return;
	gp_order_expect_all(order, proof);
	work->proves = true;
}

static void touch(struct gp_context *context, void *arg)
{
	struct gp_order *order = gp_follow_order(context);

	(void)arg;
	if (order)
		gp_order_touch(order);
}

/* No stream is named, and a green context names none that has a pool: every
 * context's order is told. */
static void touch_all(void)
{
	gp_context_each(touch, NULL);
}

void gp_follow_wait_begins(struct gp_work *work, const struct gp_work_row *row)
{
	struct gp_slot *slot;

	switch (row->class) {
	case GP_WORK_SYNC_COPY:
		/* A copy to managed memory may be one on the device. */
		if (work->slot && row->flags & GP_WORK_DRAINS &&
		    !gp_order_sees_all(work->slot->stream->order))
			expect_stream(work);
		break;
	case GP_WORK_CTX_RECORD:
	case GP_WORK_GREEN_RECORD:
		gp_follow_records(work);
		touch_all();
		break;
	case GP_WORK_CTX_WAIT:
	case GP_WORK_GREEN_WAIT:
		touch_all();
		break;
	case GP_WORK_STREAM_QUERY:
		slot = gp_follow_slot(work->stream);
		if (slot)
			complete(slot->stream->order);
		expect_stream(work);
		break;
	case GP_WORK_STREAM_SYNC:
		expect_stream(work);
		break;
	case GP_WORK_EVENT_SYNC:
	case GP_WORK_EVENT_QUERY:
		work->record = expect_event(work->event,
					    row->class == GP_WORK_EVENT_QUERY);
		break;
	case GP_WORK_EVENT_ELAPSED:
		work->other_record = expect_event(work->object, true);
		work->record = expect_event(work->event, true);
		break;
	case GP_WORK_CTX_SYNC:
		expect_context(work);
		break;
	case GP_WORK_DESTROY:
		if (work->event)
			gp_event_forget(work->event);
		break;
	default:
		break;
	}
}

void gp_follow_wait_ended(struct gp_work *work, const struct gp_work_row *row,
			  CUresult rc)
{
	if (row->class == GP_WORK_CTX_RECORD ||
	    row->class == GP_WORK_GREEN_RECORD)
		gp_event_unplaced(work->event, work->record);
	if (rc != CUDA_SUCCESS)
		return;
	if (work->proves)
		gp_order_proven(proof);
	switch (row->class) {
	case GP_WORK_SYNC_COPY:
		/* The copy waited for itself too. */
		if (work->proves)
			gp_order_proven_slot(work->slot->stream->order,
					     work->slot,
					     work->slot->stream->serial,
					     work->slot->finished);
		break;
	case GP_WORK_EVENT_SYNC:
	case GP_WORK_EVENT_QUERY:
		event_complete(work->event, work->record);
		break;
	case GP_WORK_EVENT_ELAPSED:
		event_complete(work->object, work->other_record);
		event_complete(work->event, work->record);
		break;
	case GP_WORK_CREATE:
		/* It is another process's, too. */
		if (work->id == GP_WORK_ID_cuIpcOpenEventHandle)
			gp_event_loosen(*(CUevent *)work->object, NULL);
		break;
	default:
		break;
	}
}

/* ---- captures, streams that go ------------------------------------------------------ */

struct gp_slot *gp_follow_capture(CUstream stream)
{
	struct gp_slot *slot = gp_follow_slot(stream);

	if (!slot)
		return NULL;
	gp_order_seize(slot->stream, NULL);
	return slot;
}

void gp_follow_captured(struct gp_slot *slot)
{
	if (slot && gp_order_yield(slot->stream, NULL))
		gp_follow_expire();
}

void gp_follow_capture_ended(CUstream stream)
{
	struct gp_slot *slot = gp_follow_slot(stream);

	if (slot)
		gp_order_recheck(slot->stream->order);
}

static void destroy_in(struct gp_context *context, void *arg)
{
	struct gp_order *order = gp_follow_order(context);
	struct gp_stream *stream;

	if (!order)
		return;
	stream = gp_order_known(order, (uintptr_t)arg);
	if (!stream)
		return;
	gp_order_set_off(order, stream);
	/* Before the driver destroys it: the handle may come back at once, on
	 * another thread. */
	gp_order_forget(order, stream);
	gp_follow_expire();
}

void gp_follow_destroy(CUstream stream)
{
	if ((uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD)
		gp_context_each(destroy_in, stream);
}

static void see_all(struct gp_context *context, void *arg)
{
	if (context->pool)
		gp_order_host_sees_all(gp_pool_order(context->pool),
				       *(bool *)arg ||
					       context->cuda.host_sees_all);
}

void gp_follow_managed(void)
{
	struct gp_kind_stats managed;
	bool any;

	gp_kind_get(GP_KIND_managed, &managed);
	any = managed.count.current != 0;
	gp_context_each(see_all, &any);
}
