/*
 * Between the files of the order.
 */
#ifndef GP_POOL_ORDER_IMPL_H
#define GP_POOL_ORDER_IMPL_H

#include "pool/order.h"

/* So many marks are asked for at a time, and every so many marks. */
#define GP_POLL_STRIDE 8

static inline void gp_order_max(uint64_t *word, uint64_t value)
{
	uint64_t now = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (now < value &&
	       !__atomic_compare_exchange_n(word, &now, value, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static inline void gp_order_count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static inline uint64_t gp_order_word(const struct gp_order *order)
{
	return __atomic_load_n(&order->word, __ATOMIC_ACQUIRE);
}

/* Makes a mark. Under the lock. Where it fails the number is spent, and a later
 * mark covers what this one should have. */
int gp_order_mark(struct gp_order *order);

/* A submission to the stream: what is pending is marked, and the stream waits
 * for the mark that is needed, *joined then. Under the lock. */
int gp_order_join(struct gp_order *order, struct gp_stream *stream,
		  uint64_t *joined);

/* The stream, of whichever context, waits for what the mark has of other
 * streams. Under the lock. */
int gp_order_wait_for(struct gp_order *order, const struct gp_stream *stream,
		      const struct gp_mark *mark);

/* [13] The anchor waits for an event, of whichever context, that something of
 * this one's work is behind. Under the lock. */
int gp_order_hold(struct gp_order *order, const struct gp_event *event);

/* What could not be ordered on the device is waited for on the host. No lock
 * is held. */
void gp_order_wait_instead(struct gp_order *order);

/* The oldest mark that covers `number`; NULL: nothing is in any stream. It is
 * made anew where it could not be made, or where a wait for the whole context
 * is under way in its stead. Under the lock. */
int gp_order_mark_from(struct gp_order *order, uint64_t number,
		       struct gp_mark **mark);

/* The stream waits, on the device, for the newest mark. Under the lock. */
int gp_order_follow_newest(struct gp_order *order, struct gp_stream *stream);

/* Makes a mark of these parts, none but them, and orders what is submitted
 * later behind it. What every mark so far covers is covered by them. False: a
 * free has come in between, and its mark is to be made first. Under the lock. */
bool gp_order_mark_alone(struct gp_order *order, struct gp_part *parts);

/* The stream in which an event is behind all that `key` has, and behind nothing
 * else: an event in the legacy stream would be behind every blocking stream,
 * and they behind it. Under the lock. */
uint64_t gp_order_name(struct gp_order *order, uint64_t key);

/* The slot of a stream of our own, which is made when it is wanted first; *slot
 * is NULL until then. Under the lock. NULL: not to be had. */
struct gp_slot *gp_order_own_slot(struct gp_order *order,
				  struct gp_slot **slot);

/* An event behind all that is in the stream now. Under the lock. NULL: the
 * driver would not. */
struct gp_event *gp_order_record(struct gp_order *order, uint64_t key);

/* After a proof or a poll: done follows, as far as it is known without asking
 * the driver more than once in vain. Under the lock. */
void gp_order_settle(struct gp_order *order);

/* Waits on the host until every stamp given so far is idle; counts in *counter,
 * one of the order's, where it had to. No lock is held. 0, -EBUSY or -EIO. */
int gp_order_wait_all(struct gp_order *order, uint64_t *counter);

/* Waits on the host for results that the host may look at. Returns how often it
 * had to. No lock is held. */
uint64_t gp_order_show(struct gp_order *order);

/* The part's stream is going; the event stays. Under the lock. */
void gp_order_host_orphan(struct gp_order *order, struct gp_stream *stream);

/* The host waits for the whole context. `covered`: what is idle then. No lock
 * is held. 0, -EBUSY or -EIO. */
int gp_order_sync_context(struct gp_order *order);

#endif
