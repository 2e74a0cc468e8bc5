/*
 * Work of one context that reaches the memory of another: [20] of ORDER.md.
 *
 * What is put into a default stream is put into that of the other as well, by
 * the driver, and counts as work of both. Of another stream the order of the
 * memory knows nothing: it is given the waits that its own streams get before a
 * submission, and afterwards the anchor waits for it.
 */
#include <stddef.h>

#include "pool/order_impl.h"

/* The calling thread's slot of this context's own default stream, where the
 * work is in that too; else NULL. */
static struct gp_slot *of_default(struct gp_order *order,
				  const struct gp_slot *by)
{
	return by->stream->key == GP_STREAM_LEGACY
		       ? gp_order_slot(order, GP_STREAM_LEGACY)
		       : NULL;
}

/* The stream gets behind what this order needs now. Under the lock. */
static int follow(struct gp_order *order, const struct gp_stream *stream)
{
	uint64_t need = __atomic_load_n(&order->need, __ATOMIC_ACQUIRE);
	struct gp_mark *mark = NULL;
	int rc = 0;

	if (gp_order_word(order) & GP_ORDER_PENDING)
		rc = gp_order_mark(order);
	if (!rc && __atomic_load_n(&order->done, __ATOMIC_ACQUIRE) < need)
		rc = gp_order_mark_from(order, need, &mark);
	if (!rc && mark)
		rc = gp_order_wait_for(order, stream, mark);
	return rc;
}

void gp_order_visit_begin(struct gp_order *order, struct gp_slot *by)
{
	struct gp_stream *stream = by ? by->stream : NULL;
	struct gp_slot *slot;
	int rc;

	if (gp_order_is(order, GP_ORDER_SYNC))
		return;
	if (!by) {
		gp_order_unseen(order);
		return;
	}
	slot = of_default(order, by);
	if (slot) {
		if (GP_HOLDS(VISIT_IS_WORK))
			gp_order_begin(slot);
		return;
	}
	if (!GP_HOLDS(VISIT_JOINS))
		return;
	gp_lock(&stream->launch); /* [9] */
	gp_lock(&order->lock);
	rc = follow(order, stream);
	gp_unlock(&order->lock);
	gp_unlock(&stream->launch);
	if (rc)
		gp_order_wait_instead(order);
}

/* An event behind all that the stream has. */
static struct gp_event *record(struct gp_stream *stream)
{
	struct gp_order *home = stream->order;
	struct gp_event *event;

	gp_lock(&home->lock);
	event = gp_order_record(home, gp_order_name(home, stream->key));
	gp_unlock(&home->lock);
	return event;
}

static void put(struct gp_order *home, struct gp_event *event)
{
	gp_lock(&home->lock);
	gp_event_put(&home->marks, event);
	gp_unlock(&home->lock);
}

/* Frees here cover what the stream has now. */
static void cover(struct gp_order *order, struct gp_stream *stream, bool shows)
{
	struct gp_order *home = stream->order;
	const struct gp_driver *driver = home->driver;
	struct gp_event *event = record(stream);
	struct gp_slot *anchor;
	int rc = 0;

	if (!event) {
		gp_order_wait_instead(home);
		return;
	}
	gp_lock(&order->lock);
	/* [5] What a free asked for meanwhile comes before this. */
	if (gp_order_word(order) & GP_ORDER_PENDING && GP_HOLDS(VISIT_MARKS))
		rc = gp_order_mark(order);
	if (!rc)
		rc = gp_order_hold(order, event);
	anchor = order->anchor;
	gp_unlock(&order->lock);
	if (rc)
		driver->streams->event_sync(driver->dev, event->id);
	else if (shows)
		gp_order_shows(anchor);
	put(home, event);
}

void gp_order_visit_end(struct gp_order *order, struct gp_slot *by,
			bool covered, bool shows)
{
	struct gp_slot *slot;

	if (gp_order_is(order, GP_ORDER_SYNC) || !by)
		return;
	slot = of_default(order, by);
	if (slot && shows)
		gp_order_shows(slot);
	if (slot && GP_HOLDS(VISIT_IS_WORK))
		gp_order_end(slot);
	else if (!slot && covered && GP_HOLDS(VISIT_IS_COVERED))
		cover(order, by->stream, shows);
}
