/*
 * A curve of allocated and reserved memory over a program's whole run, in a
 * fixed number of points.
 *
 * When there is no room left, the point goes that the curve misses least: what
 * is flat or straight takes few points, what changes takes many. Not
 * thread-safe: guarded by its owner. Allocates nothing.
 */
#ifndef GP_STATS_TIMELINE_H
#define GP_STATS_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#define GP_TIMELINE_POINTS 512
#define GP_TIMELINE_LEAST  24

struct gp_timeline_point {
	uint64_t ns;                  /* any clock that does not go back */
	uint64_t allocated, reserved; /* bytes */
};

/* Points of which the next one goes, if it is before `bound`: a point at
 * `bound_at` that the curve misses so much. All others go after that, as their
 * triangles only get wider, and what is measured anew is looked at before the
 * next one goes. So most go without a look at all. */
struct gp_timeline_least {
	uint16_t n;
	uint16_t at[GP_TIMELINE_LEAST];
	size_t bound_at;
	double bound;
};

struct gp_timeline {
	size_t n;
	struct gp_timeline_point points[GP_TIMELINE_POINTS];
	/* How far a point is off the line between its neighbours, bytes, and
	 * the time between those. Of the ends: nothing. */
	double off[GP_TIMELINE_POINTS], span[GP_TIMELINE_POINTS];
	double width; /* that every triangle has at least; ns, only grows */
	struct gp_timeline_least least;
};

/* What is allocated and reserved at this time, not earlier than the last. */
void gp_timeline_add(struct gp_timeline *timeline, uint64_t ns,
		     uint64_t allocated, uint64_t reserved);

#endif
