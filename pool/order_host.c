/*
 * What the host may look at after a free: [17].
 *
 * A program may read, after cuMemFree, what an asynchronous copy, a graph or a
 * host function brought it before, and overwrite what such a copy was reading.
 * An event behind each of these, the last of a stream for all, is what a free
 * waits for, and nothing else.
 */
#include <stddef.h>

#include "pool/order_impl.h"

#define cold __attribute__((noinline, cold))

/* No event is behind a result: a free waits for everything instead. Under the
 * lock. */
static cold void lose(struct gp_order *order)
{
	if (order->lost++ == order->found)
		__atomic_fetch_add(&order->num_host, 1, __ATOMIC_RELAXED);
}

/* All up to `lost` are over. Under the lock. */
static cold void find(struct gp_order *order, uint64_t lost)
{
	if (order->found >= lost)
		return;
	order->found = lost;
	if (order->lost == lost)
		__atomic_fetch_sub(&order->num_host, 1, __ATOMIC_RELAXED);
}

static bool record(struct gp_order *order, struct gp_stream *stream,
		   const struct gp_event *event)
{
	const struct gp_driver *driver = order->driver;

	return event &&
	       !driver->streams->record(driver->dev, event->id,
					gp_order_name(order, stream->key));
}

void gp_order_shows(struct gp_slot *slot)
{
	struct gp_stream *stream = slot->stream;
	struct gp_order *order = stream->order;
	const struct gp_driver *driver = order->driver;
	struct gp_part *part;

	gp_lock(&order->lock);
	part = stream->host;
	if (!part) {
		part = gp_part_new(&order->marks, stream);
		if (!part) {
			lose(order);
			goto out;
		}
		part->next = order->host;
		order->host = part;
		stream->host = part;
		__atomic_fetch_add(&order->num_host, 1, __ATOMIC_RELAXED);
	}
	/* A free that waits keeps the event it found: it must not wait for
	 * what came after it. */
	if (!part->event || part->event->refs > 1) {
		gp_event_put(&order->marks, part->event);
		part->event = gp_event_get(&order->marks, driver);
	}
	if (!record(order, stream, part->event))
		lose(order);
out:
	gp_unlock(&order->lock);
}

void gp_order_host_orphan(struct gp_order *order, struct gp_stream *stream)
{
	(void)order;
	if (stream->host)
		stream->host->stream = NULL;
	stream->host = NULL;
}

static void drop(struct gp_order *order, struct gp_part **link)
{
	struct gp_part *part = *link;

	*link = part->next;
	part->next = NULL;
	if (part->stream)
		part->stream->host = NULL;
	gp_parts_free(&order->marks, part);
	__atomic_fetch_sub(&order->num_host, 1, __ATOMIC_RELAXED);
}

#define EVENTS 32

/* What is not complete yet, each held once more; the rest leaves. */
static unsigned hold_busy(struct gp_order *order, struct gp_event **events)
{
	const struct gp_driver *driver = order->driver;
	struct gp_part **link = &order->host;
	unsigned n = 0;

	while (*link && n < EVENTS) {
		struct gp_part *part = *link;

		if (!part->event ||
		    !driver->streams->query(driver->dev, part->event->id)) {
			drop(order, link);
			continue;
		}
		part->event->refs++;
		events[n++] = part->event;
		link = &part->next;
	}
	return n;
}

/* Those that were waited for, or are lost, leave, unless more came behind. */
static void release(struct gp_order *order, struct gp_event **events,
		    unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct gp_part **link = &order->host;

		while (*link && (*link)->event != events[i])
			link = &(*link)->next;
		if (*link)
			drop(order, link);
		gp_event_put(&order->marks, events[i]);
	}
}

/* Up to EVENTS at a time; *n: so many were not complete. */
static uint64_t show_some(struct gp_order *order, unsigned *n)
{
	const struct gp_driver *driver = order->driver;
	struct gp_event *events[EVENTS];
	uint64_t waits = 0;
	bool failed = false;

	gp_lock(&order->lock);
	*n = hold_busy(order, events);
	gp_unlock(&order->lock);
	if (!*n)
		return 0;
	gp_rank_assert_none();
	for (unsigned i = 0; i < *n; i++)
		if (!driver->streams->event_sync(driver->dev, events[i]->id))
			waits++;
		else
			failed = true;
	gp_lock(&order->lock);
	if (failed)
		lose(order);
	release(order, events, *n);
	gp_unlock(&order->lock);
	return waits;
}

static uint64_t wait_for_lost(struct gp_order *order)
{
	uint64_t lost;
	bool all_found;

	gp_lock(&order->lock);
	lost = order->lost;
	all_found = order->found == lost;
	gp_unlock(&order->lock);
	if (all_found ||
	    gp_order_wait_all(order, &order->counters.wait_results))
		return 0;
	gp_lock(&order->lock);
	find(order, lost);
	gp_unlock(&order->lock);
	return 1;
}

uint64_t gp_order_show(struct gp_order *order)
{
	uint64_t waits = 0;
	unsigned n;

	do
		waits += show_some(order, &n);
	while (n == EVENTS);
	__atomic_fetch_add(&order->counters.wait_results, waits,
			   __ATOMIC_RELAXED);
	return waits + wait_for_lost(order);
}
