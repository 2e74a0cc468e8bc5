/*
 * The streams of one context that the program has put work into, and which of
 * them may still have unfinished work: the set A.
 *
 * Each thread counts its submissions to a stream in a slot of its own, with
 * plain stores, so that submitting takes no lock and no locked instruction.
 * A slot's work is over when everything it started was seen to drain; a stream
 * is in A while any of its slots is not over. There is no flag that could be
 * cleared while somebody sets it.
 */
#ifndef GP_POOL_STREAMS_H
#define GP_POOL_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/lock.h"
#include "pool/mutation.h"
#include "pool/objects.h"

/* Keys of streams are the driver's handles; the default ones are these. */
#define GP_STREAM_LEGACY     1u
#define GP_STREAM_PER_THREAD 2u

#define GP_STREAM_BUCKETS    64u

struct gp_part;
struct gp_order;
struct gp_stream;

struct gp_slot {
	/* Submissions begun and returned. Atomic; only the owner writes. */
	uint64_t started, finished;
	uint64_t drained; /* the first so many are over; atomic maximum */
	bool set_off;     /* of a thread's default stream; constant */
	struct gp_stream *stream; /* constant while the stream is known */
	struct gp_slot *next;     /* of the stream; constant once published */
	uint64_t owner;           /* thread; order's lock */
	uint64_t moving;          /* of gp_stream_note(); order's lock */
	void *link;               /* objects.h */
} __attribute__((aligned(64)));

struct gp_stream {
	/* The mark that later work in it is ordered behind. Atomic; written
	 * under the order's lock, after the waits were put, for a submission:
	 * the program put nothing in since marks from here on were made. */
	uint64_t joined;
	uint64_t joining; /* what a wait that may be captured joins; lock */
	struct gp_order *order; /* constant */
	uint64_t key;           /* constant while known */
	uint64_t thread;        /* whose default stream it is, else 0 */
	uint64_t serial;        /* never the same for two streams */
	bool blocking;          /* waits for the legacy stream; constant */
	bool capturing;         /* or did; atomic, written under lock */
	struct gp_slot *slots;  /* atomic; grows at the head */
	struct gp_part *host;   /* what the host may see of it; lock */
	struct gp_lock launch;  /* [9]: no wait meets a graph's launch */
	struct gp_stream *next, *chain; /* all; of a bucket. Lock. */
	void *link;                     /* objects.h */
};

/* Guarded by the order's lock. */
struct gp_streams {
	struct gp_stream *first;
	struct gp_stream *buckets[GP_STREAM_BUCKETS];
	uint64_t count, serial;
	struct gp_objects streams, slots;
};

/* ---- threads ---------------------------------------------------------------- */

/* A number of the calling thread that no other thread ever has; 0 when there
 * are too many threads. Any thread. */
uint64_t gp_thread_self(void);

/* Is it still running? Any thread. */
bool gp_thread_alive(uint64_t thread);

/* ---- streams: under the order's lock where nothing else is said ------------- */

void gp_streams_init(struct gp_streams *streams);
void gp_streams_exit(struct gp_streams *streams);

/* `thread`: of GP_STREAM_PER_THREAD its owner, else 0. NULL: not known. */
struct gp_stream *gp_stream_find(const struct gp_streams *streams, uint64_t key,
				 uint64_t thread);

/* NULL without host memory. */
struct gp_stream *gp_stream_add(struct gp_streams *streams, uint64_t key,
				uint64_t thread, bool blocking);

/* Its slots go too; nobody may use them any more. */
void gp_stream_remove(struct gp_streams *streams, struct gp_stream *stream);

/* The thread's slot: its own, one whose thread is gone, or a new one. NULL
 * without host memory. */
struct gp_slot *gp_slot_get(struct gp_streams *streams,
			    struct gp_stream *stream, uint64_t thread);

/* Any thread: may the stream have unfinished work? */
bool gp_stream_active(const struct gp_stream *stream);

/* Is there work whose call has returned? Any thread. */
bool gp_stream_returned(const struct gp_stream *stream);

/* Notes how much has returned; what follows in the driver's order of the
 * stream is behind that. Then, once that is over elsewhere: drains it. */
void gp_stream_note(struct gp_stream *stream);
void gp_stream_drain_noted(struct gp_stream *stream);

/* The slot's first `finished` submissions are over. Any thread. */
void gp_slot_drain(struct gp_slot *slot, uint64_t finished);

static inline uint64_t gp_slot_finished(const struct gp_slot *slot)
{
	return __atomic_load_n(&slot->finished, __ATOMIC_ACQUIRE);
}

static inline struct gp_slot *gp_stream_slots(const struct gp_stream *stream)
{
	return __atomic_load_n(&stream->slots, __ATOMIC_ACQUIRE);
}

#endif
