/* Streams that come, are waited for, and go; see order.h. */
#include <errno.h>
#include <stddef.h>

#include "pool/order_impl.h"
#include "stats/log.h"

static uint64_t thread_of(uint64_t key)
{
	return key == GP_STREAM_PER_THREAD ? gp_thread_self() : 0;
}

/* Under the lock, so that no capture begins meanwhile. One that captures is
 * taken for non-blocking: that proves less of it. */
static bool is_blocking(const struct gp_order *order, uint64_t key)
{
	const struct gp_driver *driver = order->driver;

	return !driver->streams->is_capturing(driver->dev, key) &&
	       driver->streams->is_blocking(driver->dev, key);
}

struct gp_slot *gp_order_slot(struct gp_order *order, uint64_t key)
{
	uint64_t self = gp_thread_self();
	struct gp_stream *stream = NULL;
	struct gp_slot *slot = NULL;

	gp_lock(&order->lock);
	if (self)
		stream = gp_stream_find(&order->streams, key, thread_of(key));
	if (self && !stream) {
		stream = gp_stream_add(&order->streams, key, thread_of(key),
				       is_blocking(order, key));
		if (stream)
			stream->order = order;
		if (stream && !GP_HOLDS(JOIN_STARTS_AT_ZERO))
			stream->joined = gp_order_made(order) + 1;
	}
	if (stream)
		slot = gp_slot_get(&order->streams, stream, self);
	if (stream && key == GP_STREAM_LEGACY)
		gp_order_name(order, key); /* there before it is needed */
	gp_unlock(&order->lock);
	if (!slot)
		gp_order_give_up(order);
	return slot;
}

struct gp_stream *gp_order_known(struct gp_order *order, uint64_t key)
{
	struct gp_stream *stream;

	gp_lock(&order->lock);
	stream = gp_stream_find(&order->streams, key, thread_of(key));
	gp_unlock(&order->lock);
	return stream;
}

uint64_t gp_order_find(struct gp_order *order,
		       bool (*is)(uint64_t key, void *arg), void *arg)
{
	uint64_t found = 0;

	gp_lock(&order->lock);
	for (const struct gp_stream *s = order->streams.first; s && !found;
	     s = s->next)
		if (!s->thread && s->key != GP_STREAM_LEGACY && is(s->key, arg))
			found = s->key;
	gp_unlock(&order->lock);
	return found;
}

void gp_order_forget(struct gp_order *order, struct gp_stream *stream)
{
	gp_lock(&order->lock);
	gp_order_host_orphan(order, stream);
	gp_stream_remove(&order->streams, stream);
	gp_unlock(&order->lock);
}

/* ---- the anchor ------------------------------------------------------------------ */

struct gp_slot *gp_order_own_slot(struct gp_order *order, struct gp_slot **slot)
{
	const struct gp_driver *driver = order->driver;
	struct gp_slot *made = *slot;
	struct gp_stream *stream;
	uint64_t key;

	if (made)
		return made;
	if (driver->streams->stream_create(driver->dev, false, &key))
		return NULL;
	stream = gp_stream_add(&order->streams, key, 0, false);
	if (stream) {
		stream->order = order;
		made = gp_slot_get(&order->streams, stream, 0);
		if (!made)
			gp_stream_remove(&order->streams, stream);
	}
	if (!made)
		driver->streams->stream_destroy(driver->dev, key);
	*slot = made;
	return made;
}

int gp_order_hold(struct gp_order *order, const struct gp_event *event)
{
	const struct gp_driver *driver = order->driver;
	struct gp_slot *to = gp_order_own_slot(order, &order->anchor);
	int rc;

	if (!to)
		return -EIO;
	/* Before what it stands for leaves A. */
	__atomic_store_n(&to->started, to->started + 1, __ATOMIC_RELEASE);
	rc = driver->streams->wait(driver->dev, to->stream->key, event->id);
	__atomic_store_n(&to->finished, to->finished + 1, __ATOMIC_RELEASE);
	gp_order_count(&order->counters.stream_waits);
	return rc;
}

/* [13] The anchor waits for all that the stream `key` has. */
static int hold(struct gp_order *order, uint64_t key)
{
	struct gp_event *event = gp_order_record(order, key);
	int rc;

	if (!event)
		return -EIO;
	rc = gp_order_hold(order, event);
	gp_event_put(&order->marks, event);
	return rc;
}

static void tell_loss(void)
{
	static int told;

	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		gp_warn("the work of a stream that goes cannot be followed");
}

/* Under the lock. */
static int move(struct gp_order *order, struct gp_stream *stream, bool keeps)
{
	int rc = 0;

	if (stream->capturing || !gp_stream_returned(stream))
		return 0;
	gp_stream_note(stream);
	if (keeps)
		rc = hold(order, gp_order_name(order, stream->key));
	if (!rc)
		gp_stream_drain_noted(stream);
	return rc;
}

static void sync_instead(struct gp_order *order)
{
	if (gp_order_sync_context(order))
		tell_loss();
}

void gp_order_set_off(struct gp_order *order, struct gp_stream *stream)
{
	int rc;

	gp_lock(&order->lock);
	rc = move(order, stream, GP_HOLDS(DESTROY_KEEPS_TAIL));
	gp_unlock(&order->lock);
	if (rc)
		sync_instead(order);
}

void gp_order_end_set_off(struct gp_slot *slot)
{
	struct gp_stream *stream = slot->stream;
	struct gp_order *order = stream->order;
	int rc;

	gp_lock(&order->lock);
	gp_order_count_end(slot);
	rc = move(order, stream, GP_HOLDS(THREADS_SET_OFF));
	gp_unlock(&order->lock);
	if (rc)
		sync_instead(order);
}

/* ---- captures ---------------------------------------------------------------------- */

/* The call begins as a submission does, but `joined` is not raised yet: where
 * it is captured, nothing came into the stream but waits of ours. [18] */
static int begin(struct gp_order *order, struct gp_slot *slot)
{
	struct gp_stream *stream = slot->stream;

	if (GP_HOLDS(SUBMIT_JOINS))
		__atomic_store_n(&slot->started, slot->started + 1,
				 __ATOMIC_RELEASE);
	stream->joining = stream->joined;
	return gp_order_join(order, stream, &stream->joining);
}

void gp_order_seize(struct gp_stream *stream, struct gp_slot *slot)
{
	struct gp_order *order = stream->order;
	int rc = 0;

	if (slot)
		gp_lock(&stream->launch); /* [9] */
	gp_lock(&order->lock);
	if (slot)
		rc = begin(order, slot);
	if (slot)
		gp_unlock(&stream->launch);
	if (rc) {
		gp_unlock(&order->lock);
		gp_order_wait_instead(order);
		gp_lock(&order->lock);
	}
	rc = move(order, stream, GP_HOLDS(CAPTURE_KEEPS_TAIL));
	if (rc) {
		gp_unlock(&order->lock);
		sync_instead(order);
		gp_lock(&order->lock);
	}
}

/* Under the lock. */
static bool ask(struct gp_order *order, struct gp_stream *s)
{
	const struct gp_driver *driver = order->driver;
	bool captures = driver->streams->is_capturing(driver->dev, s->key);

	__atomic_store_n(&s->capturing, captures, __ATOMIC_RELEASE);
	return captures;
}

bool gp_order_yield(struct gp_stream *stream, struct gp_slot *slot)
{
	struct gp_order *order = stream->order;
	bool captures = ask(order, stream);
	int rc = 0;

	if (slot)
		gp_order_count_end(slot);
	if (slot && captures)
		gp_slot_drain(slot, slot->finished);
	else if (slot)
		__atomic_store_n(&stream->joined, stream->joining,
				 __ATOMIC_RELEASE);
	if (slot && !captures && stream->thread)
		rc = move(order, stream, GP_HOLDS(THREADS_SET_OFF));
	gp_unlock(&order->lock);
	if (rc)
		sync_instead(order);
	return captures;
}

bool gp_order_captures(struct gp_stream *stream)
{
	struct gp_order *order = stream->order;
	bool captures;

	gp_lock(&order->lock);
	captures = ask(order, stream);
	gp_unlock(&order->lock);
	return captures;
}

void gp_order_recheck(struct gp_order *order)
{
	uint64_t self = gp_thread_self();

	gp_lock(&order->lock);
	for (struct gp_stream *s = order->streams.first; s; s = s->next)
		/* Another thread asks about its own default stream itself. */
		if (s->capturing && (!s->thread || s->thread == self))
			ask(order, s);
	gp_unlock(&order->lock);
}

/* ---- proofs: [10] ------------------------------------------------------------------- */

static void expect(struct gp_proof *proof, const struct gp_stream *stream)
{
	for (struct gp_slot *slot = gp_stream_slots(stream); slot;
	     slot = slot->next) {
		if (proof->n == GP_PROOF_SLOTS)
			return; /* the rest is proven some other time */
		proof->at[proof->n].slot = slot;
		proof->at[proof->n].serial = stream->serial;
		proof->at[proof->n++].finished = gp_slot_finished(slot);
	}
}

void gp_order_expect_stream(struct gp_order *order, uint64_t key,
			    struct gp_proof *proof)
{
	uint64_t thread = thread_of(key);

	proof->order = order;
	proof->n = 0;
	gp_lock(&order->lock);
	for (const struct gp_stream *s = order->streams.first; s; s = s->next)
		if ((s->key == key && s->thread == thread) ||
		    (key == GP_STREAM_LEGACY &&
		     !GP_HOLDS(SYNC_NOT_NON_BLOCKING)) ||
		    !GP_HOLDS(SYNC_ONE_STREAM))
			expect(proof, s);
	gp_unlock(&order->lock);
}

bool gp_order_untouched(struct gp_order *order, uint64_t key, uint64_t stamp)
{
	uint64_t thread = thread_of(key);
	bool untouched = true;

	gp_lock(&order->lock);
	for (const struct gp_stream *s = order->streams.first; s; s = s->next) {
		if (!(s->key == key && s->thread == thread) &&
		    !(key == GP_STREAM_LEGACY && s->blocking))
			continue;
		/* Whatever came since had to join that mark. */
		untouched &=
			__atomic_load_n(&s->joined, __ATOMIC_ACQUIRE) < stamp;
	}
	gp_unlock(&order->lock);
	return untouched;
}

void gp_order_expect_all(struct gp_order *order, struct gp_proof *proof)
{
	proof->order = order;
	proof->n = 0;
	gp_lock(&order->lock);
	for (const struct gp_stream *s = order->streams.first; s; s = s->next)
		expect(proof, s);
	gp_unlock(&order->lock);
}

void gp_order_proven(struct gp_proof *proof)
{
	struct gp_order *order = proof->order;

	gp_lock(&order->lock);
	for (unsigned i = 0; i < proof->n; i++) {
		struct gp_slot *slot = proof->at[i].slot;

		if (slot->stream->serial != proof->at[i].serial)
			continue;
		gp_slot_drain(slot, GP_HOLDS(SYNC_READS_FIRST)
					    ? proof->at[i].finished
					    : gp_slot_finished(slot));
	}
	gp_order_settle(order);
	gp_unlock(&order->lock);
}

void gp_order_proven_slot(struct gp_order *order, struct gp_slot *slot,
			  uint64_t serial, uint64_t finished)
{
	gp_lock(&order->lock);
	if (slot->stream->serial == serial) {
		gp_slot_drain(slot,
			      GP_HOLDS(EVENT_IS_A_PLACE)
				      ? finished
				      : gp_slot_finished(slot)); /* [11] */
		gp_order_settle(order);
	}
	gp_unlock(&order->lock);
}
