/*
 * Marks: moments that the device's work is measured by.
 *
 * A mark is complete when the events are that were recorded, when it was made,
 * behind every stream of A. Marks nest: what a mark covers and is not over yet
 * is covered by every later one. So a later mark may stand for an earlier, and
 * a complete one says the same of all before it.
 *
 * All under the order's lock; the driver calls made here do not wait.
 */
#ifndef GP_POOL_MARKS_H
#define GP_POOL_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/objects.h"
#include "pool/streams.h"

#define GP_MARKS     64u /* kept apart; then the newest is made anew */
#define GP_PART_SEEN 4u

struct gp_event {
	uint64_t id;           /* the driver's */
	uint32_t refs;         /* 0: spare */
	struct gp_event *next; /* spare */
	void *link;            /* objects.h */
};

/* One stream's share of a mark. */
struct gp_part {
	struct gp_event *event;
	struct gp_stream *stream; /* the same one only while... */
	uint64_t serial;          /* ...it has this serial */
	/* What is over once the event is complete. */
	unsigned num_seen;
	struct {
		struct gp_slot *slot;
		uint64_t finished;
	} seen[GP_PART_SEEN];
	struct gp_part *next;
	void *link; /* objects.h */
};

struct gp_mark {
	uint64_t number;
	struct gp_part *parts;
};

struct gp_marks {
	struct gp_mark ring[GP_MARKS]; /* oldest first, from `first` on */
	unsigned first, count;
	struct gp_event *spare;
	struct gp_objects events, parts;
};

void gp_marks_init(struct gp_marks *marks);
/* The driver's events go with their context. */
void gp_marks_exit(struct gp_marks *marks);

/* An event with one reference, or NULL. */
struct gp_event *gp_event_get(struct gp_marks *marks,
			      const struct gp_driver *driver);
void gp_event_put(struct gp_marks *marks, struct gp_event *event);

/* A share of `stream`, without an event yet, that knows what has returned so
 * far; NULL without host memory. */
struct gp_part *gp_part_new(struct gp_marks *marks, struct gp_stream *stream);
void gp_parts_free(struct gp_marks *marks, struct gp_part *parts);

/* Takes over `parts`. With no parts, all marks up to it are complete. */
void gp_marks_push(struct gp_marks *marks, uint64_t number,
		   struct gp_part *parts);

/* The i-th oldest. */
static inline struct gp_mark *gp_marks_at(struct gp_marks *marks, unsigned i)
{
	return &marks->ring[(marks->first + i) % GP_MARKS];
}

/* The oldest mark of at least this number, or NULL. */
struct gp_mark *gp_marks_from(struct gp_marks *marks, uint64_t number);

/* Asks the driver which of the oldest are complete: of every stride-th while
 * they are, then, if it is to be exact, of those between. A question costs what
 * a launch spends on the host in a tenth (0.2 us and more), and as marks nest
 * the answer of one covers all before it. Returns the highest number found so,
 * else 0. */
uint64_t gp_marks_poll(struct gp_marks *marks, const struct gp_driver *driver,
		       unsigned stride, bool exact);

/* These events are complete. Where they are all that is left of the mark of
 * that number, it is complete, and all before it are, whatever the driver says
 * of their events yet. Returns its number then, else 0. */
uint64_t gp_marks_prove(struct gp_marks *marks, uint64_t number,
			struct gp_event *const *events, unsigned n);

/* Everything is complete. */
void gp_marks_clear(struct gp_marks *marks);

#endif
