/*
 * Memory filled by ourselves: zeros where the program asked for them, and what
 * the debug aids write and look at (aids.h): [19].
 *
 * Fresh memory of the driver is zero, and programs exist that count on it. A
 * stream of our own fills a block when it is handed out, or once it was freed:
 * behind the newest mark, as that covers whatever used the block. What the
 * program submits later waits for that one event. It is a mark like any other:
 * the stream was behind all earlier ones.
 */
#include <errno.h>
#include <stddef.h>

#include "pool/order_impl.h"

/* The event behind the fill becomes a mark. A free may come in between: its
 * mark is made first, and the stream follows that one too. */
static int publish(struct gp_order *order, struct gp_stream *stream,
		   uint64_t *stamp)
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
		if (part->event && gp_order_mark_alone(order, part)) {
			if (stamp)
				*stamp = gp_order_made(order);
			return 0;
		}
		rc = part->event ? 0 : -EIO;
		gp_parts_free(&order->marks, part);
		if (rc)
			return rc;
	}
}

/* Under the lock. `behind`: after the newest mark; else all of it is idle. */
static int fill(struct gp_order *order, struct gp_slot *slot,
		const struct gp_fill *fills, unsigned n, bool behind)
{
	const struct gp_driver *driver = order->driver;
	struct gp_stream *stream = slot->stream;
	int rc = 0;

	if (GP_HOLDS(ZERO_WAITS) && behind)
		rc = gp_order_follow_newest(order, stream);
	if (rc)
		return rc;
	__atomic_store_n(&slot->started, slot->started + 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < n && !rc; i++)
		if (fills[i].bytes)
			rc = driver->streams->fill(driver->dev, stream->key,
						   fills[i].va, fills[i].bytes,
						   fills[i].value);
	__atomic_store_n(&slot->finished, slot->finished + 1, __ATOMIC_RELEASE);
	return rc;
}

/* Not all work is seen, or may be reached without a stream, or a peer's: the
 * host waits for the fill. `behind`: the block need not be idle. */
static int fill_and_wait(struct gp_order *order, const struct gp_fill *fills,
			 unsigned n, bool behind)
{
	const struct gp_driver *driver = order->driver;
	struct gp_event *event = NULL;
	struct gp_slot *slot;
	int rc = -EIO;

	gp_lock(&order->lock);
	slot = gp_order_own_slot(order, &order->filler);
	if (slot)
		rc = fill(order, slot, fills, n, behind);
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

static int order_fill(struct gp_order *order, const struct gp_fill *fills,
		      unsigned n, uint64_t *stamp)
{
	uint32_t strict = __atomic_load_n(&order->strict, __ATOMIC_RELAXED);
	struct gp_slot *slot;
	int rc = -EIO;

	if (!order->driver->streams || !order->driver->streams->fill)
		return 0; /* nothing is computed there */
	/* What was freed may be in use still, unless the free has waited. */
	if (stamp ? strict & GP_ORDER_SYNC : strict)
		return fill_and_wait(order, fills, n, false);
	if (__atomic_load_n(&order->lent, __ATOMIC_RELAXED)) /* [20] */
		return fill_and_wait(order, fills, n, true);
	gp_lock(&order->lock);
	slot = gp_order_own_slot(order, &order->filler);
	if (slot)
		rc = fill(order, slot, fills, n, true);
	if (!rc)
		rc = publish(order, slot->stream, stamp);
	gp_unlock(&order->lock);
	return rc;
}

/* Some of it may be written yet, and no mark is behind that: as if the block
 * were freed again. */
static void stamp_anew(struct gp_order *order, uint64_t *stamp)
{
	uint64_t made;

	if (gp_order_is(order, GP_ORDER_SYNC))
		made = __atomic_fetch_add(&order->word, 1u << GP_ORDER_SHIFT,
					  __ATOMIC_SEQ_CST);
	else
		made = __atomic_fetch_or(&order->word, GP_ORDER_PENDING,
					 __ATOMIC_SEQ_CST);
	*stamp = (made >> GP_ORDER_SHIFT) + 1;
}

int gp_order_fill(struct gp_order *order, const struct gp_fill *fills,
		  unsigned n, uint64_t *stamp)
{
	int rc = order_fill(order, fills, n, stamp);

	if (rc && stamp)
		stamp_anew(order, stamp);
	return rc;
}

/* Under the lock: the reader's stream waits for what the block's mark has. */
static int follow(struct gp_order *order, uint64_t stamp)
{
	const struct gp_driver *driver = order->driver;
	struct gp_mark *mark;
	int rc = 0;

	if (!order->reader &&
	    driver->streams->stream_create(driver->dev, false, &order->reader))
		return -EIO;
	if (gp_order_is(order, GP_ORDER_SYNC))
		return 0;
	if (gp_order_word(order) & GP_ORDER_PENDING)
		rc = gp_order_mark(order);
	if (rc || gp_order_idle(order, stamp))
		return rc;
	rc = gp_order_mark_from(order, stamp, &mark);
	for (struct gp_part *p = mark ? mark->parts : NULL; p && !rc;
	     p = p->next)
		rc = driver->streams->wait(driver->dev, order->reader,
					   p->event->id);
	return rc;
}

int gp_order_read(struct gp_order *order, uint64_t stamp, uint64_t va,
		  uint64_t bytes, void *to)
{
	const struct gp_driver *driver = order->driver;
	int rc;

	if (!driver->streams || !driver->streams->read)
		return -ENOSYS;
	pthread_mutex_lock(&order->reading);
	gp_lock(&order->lock);
	rc = follow(order, stamp);
	gp_unlock(&order->lock);
	if (!rc) {
		gp_rank_assert_none();
		rc = driver->streams->read(driver->dev, order->reader, va,
					   bytes, to);
	}
	pthread_mutex_unlock(&order->reading);
	return rc;
}
