/*
 * Zeros in memory that is handed out, where the program asked for them: [19].
 *
 * Fresh memory of the driver is zero, and programs exist that count on it. A
 * stream of our own fills a block when it is handed out: behind the newest
 * mark, as that covers whatever used the block. What the program submits later
 * waits for that one event. It is a mark like any other: the stream was behind
 * all earlier ones.
 */
#include <errno.h>
#include <stddef.h>

#include "pool/order_impl.h"

static struct gp_slot *zeros(struct gp_order *order)
{
	const struct gp_driver *driver = order->driver;
	struct gp_stream *stream;
	uint64_t key;

	if (order->zeros)
		return order->zeros;
	if (driver->streams->stream_create(driver->dev, false, &key))
		return NULL;
	stream = gp_stream_add(&order->streams, key, 0, false);
	if (stream) {
		stream->order = order;
		order->zeros = gp_slot_get(&order->streams, stream, 0);
	}
	if (!order->zeros)
		driver->streams->stream_destroy(driver->dev, key);
	return order->zeros;
}

/* The event behind the fill becomes a mark. A free may come in between: its
 * mark is made first, and the stream follows that one too. */
static int publish(struct gp_order *order, struct gp_stream *stream)
{
	struct gp_part *part;
	int rc;

	for (;;) {
		rc = gp_order_follow_newest(order, stream);
		if (rc)
			return rc;
		part = gp_part_new(&order->marks, stream);
		if (!part)
			return -ENOMEM;
		part->event = gp_order_record(order, stream->key);
		if (part->event && gp_order_mark_alone(order, part))
			return 0;
		rc = part->event ? 0 : -EIO;
		gp_parts_free(&order->marks, part);
		if (rc)
			return rc;
	}
}

/* Under the lock. */
static int fill(struct gp_order *order, struct gp_slot *slot, uint64_t va,
		uint64_t bytes)
{
	const struct gp_driver *driver = order->driver;
	struct gp_stream *stream = slot->stream;
	int rc = 0;

	if (GP_HOLDS(ZERO_WAITS) &&
	    !__atomic_load_n(&order->strict, __ATOMIC_RELAXED))
		rc = gp_order_follow_newest(order, stream);
	if (rc)
		return rc;
	__atomic_store_n(&slot->started, slot->started + 1, __ATOMIC_RELEASE);
	rc = driver->streams->zero(driver->dev, stream->key, va, bytes);
	__atomic_store_n(&slot->finished, slot->finished + 1, __ATOMIC_RELEASE);
	return rc;
}

/* Not all work is seen, or may be reached without a stream: the block is idle,
 * and the host waits for the fill. */
static int fill_and_wait(struct gp_order *order, uint64_t va, uint64_t bytes)
{
	const struct gp_driver *driver = order->driver;
	struct gp_event *event = NULL;
	struct gp_slot *slot;
	int rc = -EIO;

	gp_lock(&order->lock);
	slot = zeros(order);
	if (slot)
		rc = fill(order, slot, va, bytes);
	if (!rc) {
		event = gp_order_record(order, slot->stream->key);
		rc = event ? 0 : -EIO;
	}
	gp_unlock(&order->lock);
	if (rc)
		return rc;
	gp_rank_assert_none();
	rc = driver->streams->event_sync(driver->dev, event->id);
	gp_lock(&order->lock);
	gp_event_put(&order->marks, event);
	gp_unlock(&order->lock);
	return rc;
}

int gp_order_zero(struct gp_order *order, uint64_t va, uint64_t bytes)
{
	struct gp_slot *slot;
	int rc = -EIO;

	if (!order->driver->streams || !order->driver->streams->zero)
		return 0; /* nothing is computed there */
	if (__atomic_load_n(&order->strict, __ATOMIC_RELAXED))
		return fill_and_wait(order, va, bytes);
	gp_lock(&order->lock);
	slot = zeros(order);
	if (slot)
		rc = fill(order, slot, va, bytes);
	if (!rc)
		rc = publish(order, slot->stream);
	gp_unlock(&order->lock);
	return rc;
}
