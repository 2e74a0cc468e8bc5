/* What is known complete, and waiting for it; see order.h and ORDER.md. */
#include "pool/order_impl.h"

#define EVENTS 32 /* of a mark; the most that are waited for at a time */

static bool none_active(const struct gp_order *order)
{
	for (const struct gp_stream *s = order->streams.first; s; s = s->next)
		if (gp_stream_active(s))
			return false;
	return true;
}

/* [12] A was empty, but a submission that no fence separates from us may be on
 * its way into it. Looks again, as a mark would, without being one: no free has
 * asked for it, and whoever waited for it would wait for that submission. */
static void settle_empty(struct gp_order *order)
{
	uint64_t word = __atomic_fetch_or(&order->word, GP_ORDER_MARKING,
					  __ATOMIC_SEQ_CST);

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (none_active(order)) {
		gp_order_max(&order->done, word >> GP_ORDER_SHIFT);
		gp_marks_clear(&order->marks);
	}
	__atomic_fetch_and(&order->word, ~(uint64_t)GP_ORDER_MARKING,
			   __ATOMIC_RELEASE);
}

void gp_order_settle(struct gp_order *order)
{
	uint64_t made = gp_order_word(order);

	if (!(made & GP_ORDER_PENDING) &&
	    __atomic_load_n(&order->done, __ATOMIC_RELAXED) >= made >>
		    GP_ORDER_SHIFT)
		return;
	if (!none_active(order))
		gp_order_max(&order->done,
			     gp_marks_poll(&order->marks, order->driver,
					   GP_POLL_STRIDE, true));
	else if (made & GP_ORDER_PENDING)
		gp_order_mark(order);
	else
		settle_empty(order);
}

void gp_order_poll(struct gp_order *order)
{
	if (gp_order_is(order, GP_ORDER_SYNC))
		return;
	gp_lock(&order->lock);
	gp_order_settle(order);
	gp_unlock(&order->lock);
}

/* The events of the oldest mark that covers `stamp`. Under the lock. */
static unsigned hold_events(struct gp_order *order, uint64_t stamp,
			    struct gp_event **events, uint64_t *number)
{
	struct gp_mark *mark = gp_marks_from(&order->marks, stamp);
	unsigned n = 0;

	*number = mark ? mark->number : 0;
	for (struct gp_part *p = mark ? mark->parts : NULL; p && n < EVENTS;
	     p = p->next) {
		p->event->refs++;
		events[n++] = p->event;
	}
	return n;
}

static int wait_for_mark(struct gp_order *order, uint64_t stamp)
{
	const struct gp_driver *driver = order->driver;
	struct gp_event *events[EVENTS];
	uint64_t number;
	unsigned n;
	int rc = 0;

	n = hold_events(order, stamp, events, &number);
	if (!n) {
		rc = gp_order_mark(order);
		if (rc)
			return rc;
		n = hold_events(order, stamp, events, &number);
	}
	gp_unlock(&order->lock);
	gp_rank_assert_none();
	for (unsigned i = 0; i < n && !rc; i++)
		rc = driver->streams->event_sync(driver->dev, events[i]->id);
	gp_lock(&order->lock);
	if (!rc)
		gp_order_max(&order->done,
			     gp_marks_prove(&order->marks, number, events, n));
	for (unsigned i = 0; i < n; i++)
		gp_event_put(&order->marks, events[i]);
	return rc;
}

static bool reached(const struct gp_order *order, uint64_t stamp)
{
	return __atomic_load_n(&order->done, __ATOMIC_ACQUIRE) >= stamp;
}

/* Until the stamp is idle. No lock is held. */
static int wait_until(struct gp_order *order, uint64_t stamp, uint64_t *counter)
{
	int rc = 0;

	if (gp_order_is(order, GP_ORDER_SYNC))
		return gp_order_sync_context(order);
	gp_lock(&order->lock);
	gp_order_settle(order);
	if (!reached(order, stamp))
		gp_order_count(counter);
	while (!rc && !reached(order, stamp)) {
		if (gp_order_word(order) & GP_ORDER_PENDING)
			rc = gp_order_mark(order);
		/* If it was one of nothing there is none to wait for, and one
		 * more could cover what no free is behind [12]. */
		if (!rc && !reached(order, stamp))
			rc = wait_for_mark(order, stamp);
	}
	gp_unlock(&order->lock);
	return rc ? gp_order_sync_context(order) : 0;
}

int gp_order_wait_all(struct gp_order *order, uint64_t *counter)
{
	uint64_t word = gp_order_word(order);

	return wait_until(order,
			  (word >> GP_ORDER_SHIFT) + (word & GP_ORDER_PENDING),
			  counter);
}

void gp_order_complete(struct gp_order *order, uint64_t stamp)
{
	if (!gp_order_idle(order, stamp))
		wait_until(order, stamp, &order->counters.wait_results);
}

bool gp_order_await(struct gp_order *order, uint64_t stamp)
{
	return wait_until(order, stamp, &order->counters.wait_memory) == 0 &&
	       gp_order_idle(order, stamp);
}

/* What is needed so far is behind frees of the program, for which it would have
 * waited. Where another thread needs more meanwhile, all is waited for. */
void gp_order_unseen(struct gp_order *order)
{
	gp_order_complete(order,
			  __atomic_load_n(&order->need, __ATOMIC_ACQUIRE));
	gp_order_give_up(order);
	gp_order_complete(order,
			  __atomic_load_n(&order->need, __ATOMIC_ACQUIRE));
}

int gp_order_wait(struct gp_order *order)
{
	return gp_order_wait_all(order, &order->counters.wait_memory);
}
