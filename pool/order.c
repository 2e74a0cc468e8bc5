/* Stamps, marks and joins; see order.h and ORDER.md. */
#include "pool/order.h"

#include <errno.h>
#include <stddef.h>

#include "pool/order_impl.h"
#include "stats/log.h"

#define cold    __attribute__((noinline, cold))

/* Contexts in which a thread's last free is remembered. */
#define RECORDS 8

static __thread struct {
	uint64_t stamp;
	unsigned serial; /* of the order */
} freed[RECORDS];

static unsigned serials; /* atomic */

void gp_order_init(struct gp_order *order, const struct gp_driver *driver,
		   enum gp_free_barrier barrier, bool sync)
{
	*order = (struct gp_order){
		.strict = sync || !driver->streams ? GP_ORDER_SYNC : 0,
		.driver = driver,
		.barrier = barrier,
		.serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED),
	};
	gp_lock_init(&order->lock, GP_RANK_ORDER);
	gp_streams_init(&order->streams);
	gp_marks_init(&order->marks);
	pthread_mutex_init(&order->reading, NULL);
}

void gp_order_exit(struct gp_order *order)
{
	gp_marks_exit(&order->marks);
	pthread_mutex_destroy(&order->reading);
	gp_streams_exit(&order->streams);
	pthread_mutex_destroy(&order->lock.mutex);
}

void gp_order_give_up(struct gp_order *order)
{
	__atomic_fetch_or(&order->strict, GP_ORDER_SYNC, __ATOMIC_SEQ_CST);
}

void gp_order_only_idle(struct gp_order *order)
{
	__atomic_fetch_or(&order->strict, GP_ORDER_ONLY_IDLE, __ATOMIC_SEQ_CST);
}

void gp_order_host_sees_all(struct gp_order *order, bool all)
{
	__atomic_store_n(&order->see_all, all, __ATOMIC_RELAXED);
}

void gp_order_lend(struct gp_order *order)
{
	__atomic_store_n(&order->lent, GP_HOLDS(LENT_WAITS), __ATOMIC_SEQ_CST);
	if (GP_HOLDS(LEND_WAITS) && !gp_order_is(order, GP_ORDER_SYNC))
		gp_order_wait_all(order, &order->counters.wait_results);
}

void gp_order_touch(struct gp_order *order)
{
	gp_lock(&order->lock);
	if (gp_order_word(order) & GP_ORDER_PENDING)
		gp_order_mark(order);
	gp_unlock(&order->lock);
}

/* ---- waiting for the whole context ------------------------------------------- */

/* The highest stamp given so far. One that stands for a mark not made yet is
 * spent: later frees get another, so that none of them can take the coming wait
 * for its own. */
static uint64_t spend(struct gp_order *order)
{
	uint64_t word = gp_order_word(order);

	while (word & GP_ORDER_PENDING) {
		uint64_t next = (word + (1u << GP_ORDER_SHIFT)) &
				~(uint64_t)GP_ORDER_PENDING;

		if (__atomic_compare_exchange_n(&order->word, &word, next, true,
						__ATOMIC_SEQ_CST,
						__ATOMIC_ACQUIRE))
			word = next;
	}
	return word >> GP_ORDER_SHIFT;
}

/* Inline: in sync mode it comes with every free. */
static inline int sync_context(struct gp_order *order)
{
	const struct gp_driver *driver = order->driver;
	uint64_t covered = spend(order);
	int rc;

	gp_rank_assert_none();
	rc = driver->ops->sync(driver->dev);
	if (!rc)
		gp_order_max(&order->done, covered);
	return rc;
}

int gp_order_sync_context(struct gp_order *order)
{
	return sync_context(order);
}

/* ---- blocks -------------------------------------------------------------------- */

/* As cuMemFree does. A block that could not be waited for gets a stamp of its
 * own. */
static inline int free_in_sync(struct gp_order *order, uint64_t *stamp,
			       uint64_t *waits)
{
	int rc = sync_context(order);

	*stamp = 0;
	*waits = 1;
	if (__builtin_expect(rc != 0, 0)) {
		*stamp = __atomic_add_fetch(&order->word, 1u << GP_ORDER_SHIFT,
					    __ATOMIC_SEQ_CST) >>
			 GP_ORDER_SHIFT;
		*waits = 0;
		return rc == -EBUSY ? 0 : rc;
	}
	return 0;
}

/* What cuMemFree gives besides: results that the host may look at. */
static cold uint64_t show(struct gp_order *order)
{
	uint64_t waits = gp_order_show(order);

	if (order->barrier == GP_BARRIER_ALWAYS || gp_order_sees_all(order) ||
	    __atomic_load_n(&order->lent, __ATOMIC_RELAXED)) {
		gp_order_wait_all(order, &order->counters.wait_results);
		waits++;
	}
	return waits;
}

static inline bool must_show(const struct gp_order *order)
{
	if (order->barrier != GP_BARRIER_AUTO)
		return order->barrier == GP_BARRIER_ALWAYS;
	return (__atomic_load_n(&order->num_host, __ATOMIC_RELAXED) |
		__atomic_load_n(&order->see_all, __ATOMIC_RELAXED) |
		__atomic_load_n(&order->lent, __ATOMIC_RELAXED)) != 0;
}

/* A full fence, behind an atomic read-modify-write: where that is one already,
 * as on x86, only the compiler needs to know. */
static inline void fence_after_claim(void)
{
#ifdef __x86_64__
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

int gp_order_free(struct gp_order *order, enum gp_free_how how, uint64_t *stamp,
		  uint64_t *waits)
{
	uint64_t word;

	if (__builtin_expect(gp_order_is(order, GP_ORDER_SYNC), 0))
		return free_in_sync(order, stamp, waits);
	*waits = 0;
	/* [1] Whoever makes the mark sees what was submitted before this. */
	fence_after_claim();
	word = gp_order_word(order);
	if (!(word & GP_ORDER_PENDING) && GP_HOLDS(FREE_PENDS))
		word = __atomic_fetch_or(&order->word, GP_ORDER_PENDING,
					 __ATOMIC_SEQ_CST);
	*stamp = (word >> GP_ORDER_SHIFT) + 1;
	if (how == GP_FREE_OWN)
		return 0;
	/* [2] */
	if (GP_HOLDS(FREE_RAISES_NEED))
		gp_order_max(&order->need, *stamp);
	freed[order->serial % RECORDS].stamp = *stamp;
	freed[order->serial % RECORDS].serial = order->serial;
	if (__builtin_expect(must_show(order), 0) && how == GP_FREE_FULL &&
	    GP_HOLDS(FREE_WAITS_FOR_HOST))
		*waits = show(order); /* [17] */
	return 0;
}

uint64_t gp_order_last_free(const struct gp_order *order)
{
	unsigned i = order->serial % RECORDS;

	return freed[i].serial == order->serial ? freed[i].stamp : 0;
}

bool gp_order_raise(struct gp_order *order, uint64_t stamp)
{
	/* In sync mode not all work is seen: none of it can be ordered. */
	if (__atomic_load_n(&order->strict, __ATOMIC_RELAXED) &&
	    GP_HOLDS(STRICT_WANTS_DONE))
		return false;
	/* [3] The mark may not be made yet: PENDING makes the next submission
	 * make it. */
	if (GP_HOLDS(REISSUE_RAISES_NEED))
		gp_order_max(&order->need, stamp);
	return true;
}

/* ---- marks ------------------------------------------------------------------------ */

struct gp_event *gp_order_record(struct gp_order *order, uint64_t key)
{
	const struct gp_driver *driver = order->driver;
	struct gp_event *event = gp_event_get(&order->marks, driver);

	if (event && driver->streams->record(driver->dev, event->id, key)) {
		gp_event_put(&order->marks, event);
		event = NULL;
	}
	return event;
}

uint64_t gp_order_name(struct gp_order *order, uint64_t key)
{
	const struct gp_driver *driver = order->driver;

	if (key != GP_STREAM_LEGACY)
		return key;
	if (!order->beside &&
	    driver->streams->stream_create(driver->dev, true, &order->beside))
		order->beside = 0;
	return order->beside ? order->beside : key;
}

/* [7] One stream of A takes part. */
static int take_part(struct gp_order *order, struct gp_stream *s,
		     struct gp_part **parts)
{
	struct gp_part *part;

	/* What it had before was set off; what is in it now is none. And a
	 * thread's default stream sets itself off: no other thread can name
	 * it. A call in either has not returned, so no free is behind it. */
	if (s->capturing || s->thread)
		return 0;
	part = gp_part_new(&order->marks, s);
	if (!part)
		return -ENOMEM;
	part->next = *parts;
	*parts = part;
	part->event = gp_order_record(order, gp_order_name(order, s->key));
	return part->event ? 0 : -EIO;
}

/* Everything in A. *parts: NULL when A is empty. */
static int collect(struct gp_order *order, struct gp_part **parts)
{
	struct gp_stream *s, *next;
	int rc = 0;

	for (s = order->streams.first; s && !rc; s = next) {
		next = s->next;
		if (gp_stream_active(s))
			rc = take_part(order, s, parts);
		else if (s->thread && !s->host && !gp_thread_alive(s->thread))
			gp_stream_remove(&order->streams, s);
		if (!GP_HOLDS(MARK_COVERS_ALL) && *parts)
			break;
	}
	if (rc) {
		gp_parts_free(&order->marks, *parts);
		*parts = NULL;
	}
	return rc;
}

int gp_order_mark(struct gp_order *order)
{
	uint64_t word = gp_order_word(order), number;
	struct gp_part *parts = NULL;
	int rc;

	/* [6] From here on submissions come after this mark; [5] frees from
	 * here on want another. */
	do
		number = (word >> GP_ORDER_SHIFT) + 1;
	while (!__atomic_compare_exchange_n(
		&order->word, &word,
		number << GP_ORDER_SHIFT | GP_ORDER_MARKING, true,
		__ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	rc = collect(order, &parts);
	if (!rc) {
		gp_marks_push(&order->marks, number, parts);
		if (!parts)
			gp_order_max(&order->done, number);
		for (; parts && !GP_HOLDS(MARKS_NEST); parts = parts->next)
			for (unsigned i = 0; i < parts->num_seen; i++)
				gp_slot_drain(parts->seen[i].slot,
					      parts->seen[i].finished);
	}
	__atomic_fetch_and(&order->word, ~(uint64_t)GP_ORDER_MARKING,
			   __ATOMIC_RELEASE);
	gp_order_count(&order->counters.marks);
	if (order->marks.count > GP_POLL_STRIDE && number % GP_POLL_STRIDE == 0)
		gp_order_max(&order->done,
			     gp_marks_poll(&order->marks, order->driver,
					   GP_POLL_STRIDE, false));
	return rc;
}

bool gp_order_mark_alone(struct gp_order *order, struct gp_part *parts)
{
	uint64_t word = gp_order_word(order);
	uint64_t number = (word >> GP_ORDER_SHIFT) + 1;

	if (word & GP_ORDER_PENDING ||
	    !__atomic_compare_exchange_n(
		    &order->word, &word,
		    number << GP_ORDER_SHIFT | GP_ORDER_MARKING, false,
		    __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
		return false;
	gp_marks_push(&order->marks, number, parts);
	if (GP_HOLDS(ZERO_IS_WAITED_FOR))
		gp_order_max(&order->need, number);
	__atomic_fetch_and(&order->word, ~(uint64_t)GP_ORDER_MARKING,
			   __ATOMIC_RELEASE);
	return true;
}

/* ---- joins ------------------------------------------------------------------------ */

int gp_order_wait_for(struct gp_order *order, const struct gp_stream *stream,
		      const struct gp_mark *mark)
{
	const struct gp_driver *driver = stream->order->driver;
	const struct gp_event *last = NULL;

	for (const struct gp_part *p = mark->parts; p; p = p->next) {
		if (p->event == last ||
		    (stream->order == order && p->serial == stream->serial))
			continue;
		last = p->event;
		if (driver->streams->wait(driver->dev, stream->key,
					  p->event->id))
			return -EIO;
		gp_order_count(&order->counters.stream_waits);
	}
	return 0;
}

int gp_order_mark_from(struct gp_order *order, uint64_t number,
		       struct gp_mark **mark)
{
	int rc = 0;

	*mark = gp_marks_from(&order->marks, number);
	if (!*mark) {
		rc = gp_order_mark(order);
		*mark = gp_marks_from(&order->marks, number);
	}
	return rc;
}

int gp_order_follow_newest(struct gp_order *order, struct gp_stream *stream)
{
	uint64_t made;
	struct gp_mark *mark;
	int rc = 0;

	if (gp_order_word(order) & GP_ORDER_PENDING)
		rc = gp_order_mark(order);
	made = gp_order_made(order);
	if (rc || stream->joined >= made)
		return rc;
	if (__atomic_load_n(&order->done, __ATOMIC_ACQUIRE) < made) {
		rc = gp_order_mark_from(order, made, &mark);
		if (!rc && mark)
			rc = gp_order_wait_for(order, stream, mark);
	}
	if (!rc)
		__atomic_store_n(&stream->joined, made, __ATOMIC_RELEASE);
	return rc;
}

/* [9] The stream gets behind the mark that is needed now. Under the lock. */
static int join(struct gp_order *order, const struct gp_stream *stream,
		uint64_t *joined)
{
	uint64_t need = __atomic_load_n(&order->need, __ATOMIC_ACQUIRE);
	struct gp_mark *mark;
	int rc;

	*joined = stream->joined;
	if (stream->joined >= need)
		return 0;
	if (__atomic_load_n(&order->done, __ATOMIC_ACQUIRE) < need) {
		rc = gp_order_mark_from(order, need, &mark);
		if (rc)
			return rc;
		if (!GP_HOLDS(JOIN_ENOUGH) && order->marks.count)
			mark = gp_marks_at(&order->marks, 0);
		if (mark && GP_HOLDS(JOIN_WAITS)) {
			rc = gp_order_wait_for(order, stream, mark);
			if (rc)
				return rc;
		}
		if (mark && mark->number > need)
			need = mark->number;
	}
	*joined = need;
	return 0;
}

int gp_order_join(struct gp_order *order, struct gp_stream *stream,
		  uint64_t *joined)
{
	int rc = 0;

	if (gp_order_word(order) & GP_ORDER_PENDING && GP_HOLDS(SUBMIT_MARKS))
		rc = gp_order_mark(order); /* [5] */
	return rc ? rc : join(order, stream, joined);
}

cold void gp_order_wait_instead(struct gp_order *order)
{
	static int told;

	gp_order_count(&order->counters.wait_streams);
	if (gp_order_sync_context(order) &&
	    !__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		gp_warn("work could not be ordered behind freed memory");
}

cold void gp_order_submit_slow(struct gp_slot *slot)
{
	struct gp_stream *stream = slot->stream;
	struct gp_order *order = stream->order;
	uint64_t joined;
	int rc;

	gp_lock(&stream->launch);
	gp_lock(&order->lock);
	rc = gp_order_join(order, stream, &joined);
	if (!rc)
		__atomic_store_n(&stream->joined, joined, __ATOMIC_RELEASE);
	gp_unlock(&order->lock);
	gp_unlock(&stream->launch);
	if (__builtin_expect(rc != 0, 0))
		gp_order_wait_instead(order);
}
