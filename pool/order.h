/*
 * When may a freed block be used again?
 *
 * The only place that knows. A program may free memory that work in flight
 * still uses, because cuMemFree waits for it. Here a free does not wait: it
 * gives the block a stamp, the number of a mark (marks.h), and whatever is
 * submitted later, to any stream, is ordered on the device behind that mark.
 * ORDER.md states the protocol as numbered invariants; they are marked [n] in
 * the code.
 *
 * Where the driver's streams are not at hand, or the program asks for it, a
 * free waits on the host as cuMemFree does ("sync"). Where it must not wait (a
 * stream captures) or cannot, the block is set aside until a later wait.
 *
 * A stamp up to `done` is idle: nothing uses the block. 0 always is.
 */
#ifndef GP_POOL_ORDER_H
#define GP_POOL_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/lock.h"
#include "pool/marks.h"
#include "pool/mutation.h"
#include "pool/pool.h"
#include "pool/streams.h"

#define GP_ORDER_PENDING   1u /* a free since the last mark */
#define GP_ORDER_MARKING   2u /* a mark is being made */
#define GP_ORDER_SHIFT     2u

/* gp_order.strict */
#define GP_ORDER_SYNC      1u /* frees wait on the host */
#define GP_ORDER_ONLY_IDLE 2u /* nothing is handed out before it is idle */

struct gp_order_counters { /* atomic */
	uint64_t marks, stream_waits;
	uint64_t wait_results, wait_memory, wait_streams;
};

struct gp_order {
	/* Atomic. Marks made << 2 | MARKING | PENDING. */
	uint64_t word __attribute__((aligned(64)));
	uint64_t need;   /* later work is behind this mark; only rises */
	uint64_t done;   /* marks up to this one are complete; only rises */
	uint32_t strict; /* bits that are set once */
	/* Streams with results the host may look at, and one more while some
	 * result is lost. */
	uint32_t num_host;
	uint32_t see_all; /* the host may look at anything */
	uint32_t lent;    /* others reach the memory, or it theirs; set once */

	/* Constant after gp_order_init(). */
	const struct gp_driver *driver __attribute__((aligned(64)));
	enum gp_free_barrier barrier;
	unsigned serial; /* never the same for two orders */

	/* Taken on slow paths only, also by a submission that has to mark or
	 * to join; held across driver calls that do not wait. Guards all
	 * below. */
	struct gp_lock lock;
	struct gp_streams streams;
	struct gp_marks marks;
	/* A stream of our own that holds what streams had which are gone or
	 * capture: it waits for an event behind each. NULL: none yet. */
	struct gp_slot *anchor;
	/* A stream of our own that waits for the legacy one and never has
	 * work. 0: none yet. */
	uint64_t beside;
	struct gp_slot *filler; /* a stream of our own that fills memory */
	uint64_t reader;        /* and one that reads it. 0: none yet */
	/* Taken before `lock`, also across waits: only debug aids read. */
	pthread_mutex_t reading;
	struct gp_part *host; /* results the host may look at */
	uint64_t lost, found; /* results with no event; waited for of these */
	struct gp_order_counters counters;
};

/* `driver` must outlive the order. `sync`: frees wait on the host; also chosen
 * when the driver has no streams to offer. */
void gp_order_init(struct gp_order *order, const struct gp_driver *driver,
		   enum gp_free_barrier barrier, bool sync);
/* Its events and its stream go with the context. */
void gp_order_exit(struct gp_order *order);

/* From now on frees wait on the host: not all work is seen. Any thread. */
void gp_order_give_up(struct gp_order *order);

/* The same, and work that no stream here stands for comes next on this thread:
 * what it must be behind is over then. Waits on the host; no lock is held. */
void gp_order_unseen(struct gp_order *order);

/* From now on a block is handed out only when nothing uses it any more: there
 * is somebody who reaches memory without any stream. Nor is memory moved. Any
 * thread. */
void gp_order_only_idle(struct gp_order *order);

static inline bool gp_order_is(const struct gp_order *order, uint32_t bit)
{
	return (__atomic_load_n(&order->strict, __ATOMIC_RELAXED) & bit) != 0;
}

/* While there is managed memory the host may look at anything. Any thread. */
void gp_order_host_sees_all(struct gp_order *order, bool all);

static inline bool gp_order_sees_all(const struct gp_order *order)
{
	return __atomic_load_n(&order->see_all, __ATOMIC_RELAXED) != 0;
}

/* [20] From now on work of other contexts, which this order does not see, may
 * reach the memory, or work of this one theirs: a free of the full kind waits
 * on the host. What earlier ones stand behind is waited for now. Any thread, no
 * lock held. */
void gp_order_lend(struct gp_order *order);

/* ---- blocks ------------------------------------------------------------------ */

enum gp_free_how {
	GP_FREE_FULL,   /* as cuMemFree: orders the device, shows results */
	GP_FREE_OWN,    /* by a caller that orders its own streams */
	GP_FREE_WAITED, /* by the driver, of its memory: results were shown */
};

/* A block is freed now, which the caller claimed a moment ago by an atomic
 * read-modify-write or with a full fence; *stamp says when it can be used.
 * *waits: so many times it was waited for work. Returns 0, or -EIO when a wait
 * in sync mode failed (the block must then be set aside). No lock is held. */
int gp_order_free(struct gp_order *order, enum gp_free_how how, uint64_t *stamp,
		  uint64_t *waits);

/* [12] May memory of this stamp be moved or unmapped? Any thread. */
static inline bool gp_order_idle(const struct gp_order *order, uint64_t stamp)
{
	return stamp <= __atomic_load_n(&order->done, __ATOMIC_ACQUIRE) ||
	       !GP_HOLDS(MOVE_WANTS_DONE);
}

/* Is later work ordered behind it already? Then it may be handed out. */
static inline bool gp_order_ready(const struct gp_order *order, uint64_t stamp)
{
	if (stamp <= __atomic_load_n(&order->done, __ATOMIC_ACQUIRE))
		return true;
	return __builtin_expect(
		stamp <= __atomic_load_n(&order->need, __ATOMIC_ACQUIRE) &&
			!__atomic_load_n(&order->strict, __ATOMIC_RELAXED),
		1);
}

/* Out of line: the rest of gp_order_reissue(). */
bool gp_order_raise(struct gp_order *order, uint64_t stamp);

/* A free block of this stamp is handed out: later work is ordered behind it.
 * False: not before it is idle. Any thread, under any lock. */
static inline bool gp_order_reissue(struct gp_order *order, uint64_t stamp)
{
	return gp_order_ready(order, stamp) || gp_order_raise(order, stamp);
}

struct gp_fill {
	uint64_t va, bytes; /* 0 bytes: nothing */
	uint8_t value;
};

/* Fills memory that nothing but us may use now: a block that is handed out, or
 * one that was just freed. After its last use, and before whatever is submitted
 * from now on. *stamp: of a freed block, what its free gave it; becomes that of
 * the fill, also where that failed. NULL: it is handed out. No lock is held. 0,
 * or -EIO or -ENOMEM: it is not all filled. */
int gp_order_fill(struct gp_order *order, const struct gp_fill *fills,
		  unsigned n, uint64_t *stamp);

/* Reads what a block that was just freed, with that stamp, has after its last
 * use. Waits for that on the host; one at a time. No lock is held. */
int gp_order_read(struct gp_order *order, uint64_t stamp, uint64_t va,
		  uint64_t bytes, void *to);

/* Waits on the host until it is idle: true, unless it cannot. No lock is held. */
bool gp_order_await(struct gp_order *order, uint64_t stamp);

/* Is there a stamp that is not idle yet, as far as is known? */
static inline bool gp_order_outstanding(const struct gp_order *order)
{
	uint64_t word = __atomic_load_n(&order->word, __ATOMIC_ACQUIRE);

	return !gp_order_is(order, GP_ORDER_SYNC) &&
	       (word >> GP_ORDER_SHIFT) + (word & GP_ORDER_PENDING) >
		       __atomic_load_n(&order->done, __ATOMIC_ACQUIRE);
}

/* In sync mode a block that could not be waited for is no use yet. */
static inline bool gp_order_keeps_back(const struct gp_order *order,
				       uint64_t stamp)
{
	return __builtin_expect(
		gp_order_is(order, GP_ORDER_SYNC) &&
			stamp > __atomic_load_n(&order->done, __ATOMIC_ACQUIRE),
		0);
}

/* Looks what has completed meanwhile; does not wait. No lock is held. */
void gp_order_poll(struct gp_order *order);

/* Waits on the host until every stamp given so far is idle. 0, -EBUSY while a
 * stream captures (in sync mode), or -EIO. No lock is held. */
int gp_order_wait(struct gp_order *order);

/* The same up to this stamp, on behalf of a call that asks whether work is
 * complete. */
void gp_order_complete(struct gp_order *order, uint64_t stamp);

/* The stamp of the calling thread's last full free in this context, else 0. */
uint64_t gp_order_last_free(const struct gp_order *order);

/* ---- the program's work (shim/) -----------------------------------------------
 *
 * Any thread, where nothing else is said. They take the order's lock, but for
 * those that are inline. */

/* The calling thread's slot of a stream. NULL: not to be had, and the order
 * gave up. The caller keeps it until the stream or the context goes. */
struct gp_slot *gp_order_slot(struct gp_order *order, uint64_t key);

/* [9] Around a graph's launch into the slot's stream, after gp_order_begin().
 * NULL allowed. Only the slot's thread, which submits nothing else meanwhile.
 * The stream's launch lock is held in between. */
static inline void gp_order_launch_begin(struct gp_slot *slot)
{
	if (slot)
		gp_lock(&slot->stream->launch);
}

static inline void gp_order_launch_end(struct gp_slot *slot)
{
	if (slot)
		gp_unlock(&slot->stream->launch);
}

/* Out of line: the rest of gp_order_begin(). */
void gp_order_submit_slow(struct gp_slot *slot);

/* Around every submission. Only the slot's thread. */
static inline void gp_order_begin(struct gp_slot *slot)
{
	struct gp_stream *stream = slot->stream;
	struct gp_order *order = stream->order;
	uint64_t word;

	/* [4] Before the look at the word: a mark that this look misses counts
	 * this submission among those that it may cover. */
	if (GP_HOLDS(SUBMIT_JOINS))
		__atomic_store_n(&slot->started, slot->started + 1,
				 __ATOMIC_RELEASE);
	word = __atomic_load_n(&order->word, __ATOMIC_ACQUIRE);
	if (!GP_HOLDS(SUBMIT_MARKS))
		word &= ~(uint64_t)GP_ORDER_PENDING;
	if (!GP_HOLDS(MARK_EXCLUDES))
		word &= ~(uint64_t)GP_ORDER_MARKING;
	if (__builtin_expect(
		    (word & (GP_ORDER_PENDING | GP_ORDER_MARKING)) != 0 ||
			    __atomic_load_n(&stream->joined, __ATOMIC_ACQUIRE) <
				    __atomic_load_n(&order->need,
						    __ATOMIC_ACQUIRE),
		    0))
		gp_order_submit_slow(slot);
}

/* The end of one to a thread's default stream, which hands it to the anchor. */
void gp_order_end_set_off(struct gp_slot *slot);

/* Whether the program put nothing into the stream since the full free with
 * this stamp; for the legacy one nothing into any blocking one either. */
bool gp_order_untouched(struct gp_order *order, uint64_t key, uint64_t stamp);

static inline void gp_order_count_end(struct gp_slot *slot)
{
	if (GP_HOLDS(SUBMIT_JOINS))
		__atomic_store_n(&slot->finished, slot->finished + 1,
				 __ATOMIC_RELEASE);
}

static inline void gp_order_end(struct gp_slot *slot)
{
	if (__builtin_expect(slot->set_off, 0))
		gp_order_end_set_off(slot);
	else
		gp_order_count_end(slot);
}

/* A submission that the host may see something of has returned. */
void gp_order_shows(struct gp_slot *slot);

/* What a synchronisation by the program proves: read before it, applied once
 * it has succeeded. */
#define GP_PROOF_SLOTS 64u

struct gp_proof {
	struct gp_order *order;
	unsigned n;
	struct {
		struct gp_slot *slot;
		uint64_t serial; /* of its stream: either may be gone by then */
		uint64_t finished;
	} at[GP_PROOF_SLOTS];
};

/* One stream; the legacy one, too, stands for itself only. */
void gp_order_expect_stream(struct gp_order *order, uint64_t key,
			    struct gp_proof *proof);
/* All streams of the context. */
void gp_order_expect_all(struct gp_order *order, struct gp_proof *proof);
void gp_order_proven(struct gp_proof *proof);
/* An event is complete that this slot's thread recorded after `finished` of its
 * submissions had returned; `serial` is the stream's, as it was then. */
void gp_order_proven_slot(struct gp_order *order, struct gp_slot *slot,
			  uint64_t serial, uint64_t finished);

/* [20] Around work in a stream of another context that is known to reach memory
 * of this one; within the slot's submission, on its thread. NULL: one that is
 * not followed; frees wait on the host then, from now on. `covered`: frees here
 * cover it. `shows`: the host may see something of it. */
void gp_order_visit_begin(struct gp_order *order, struct gp_slot *by);
void gp_order_visit_end(struct gp_order *order, struct gp_slot *by,
			bool covered, bool shows);

/* Something is about to be ordered that is no submission to one stream: what is
 * pending is marked first. */
void gp_order_touch(struct gp_order *order);

/* The number a mark has that is made next: what is submitted now is behind
 * every mark below it, as far as `need` says. */
static inline uint64_t gp_order_made(const struct gp_order *order)
{
	return __atomic_load_n(&order->word, __ATOMIC_ACQUIRE) >>
	       GP_ORDER_SHIFT;
}

/* What the stream has goes to the anchor: it is about to be destroyed. */
void gp_order_set_off(struct gp_order *order, struct gp_stream *stream);

/* Around a call that may begin a capture in the stream, or draw it into one.
 * The lock is held from seize to yield, so that nothing of ours is put into a
 * stream that captures; the call must not wait. `slot`: of a call that is a
 * submission unless it is captured, else NULL. True: the stream captures
 * now. */
void gp_order_seize(struct gp_stream *stream, struct gp_slot *slot);
bool gp_order_yield(struct gp_stream *stream, struct gp_slot *slot);

/* Does it capture? Asks the driver. Not of another thread's default stream. */
bool gp_order_captures(struct gp_stream *stream);
/* A capture has ended: asks about every stream. */
void gp_order_recheck(struct gp_order *order);

/* The key of a known stream that is none of a default one's, and of which `is`,
 * called with the order's lock held, says so; 0: there is none. */
uint64_t gp_order_find(struct gp_order *order,
		       bool (*is)(uint64_t key, void *arg), void *arg);
/* The stream, if it is known. */
struct gp_stream *gp_order_known(struct gp_order *order, uint64_t key);
/* It was destroyed: its slots are void. */
void gp_order_forget(struct gp_order *order, struct gp_stream *stream);

#endif
