/*
 * See timeline.h. To drop the point of the smallest triangle with its
 * neighbours is Visvalingam's way to simplify a line. A triangle is taken as
 * at least one point's share of the run wide: a peak of a moment is what
 * people look for.
 */
#include "stats/timeline.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* In such a part of a point's share of the run there are three points at most:
 * the first, the highest and the last. To make room for more would cost a busy
 * program time, and nobody could see them. */
#define CLOSE 2

static double magnitude(double value)
{
	return value < 0 ? -value : value;
}

/* From the line through a and c, at b. */
static double distance(uint64_t a, uint64_t b, uint64_t c, double share)
{
	double line = (double)a + ((double)c - (double)a) * share;

	return magnitude((double)b - line);
}

/* An end has but one neighbour. */
static void measure(struct gp_timeline *t, size_t i)
{
	if (i == 0 || i + 1 >= t->n)
		return;
	const struct gp_timeline_point *p = &t->points[i];
	double span = (double)(p[1].ns - p[-1].ns);
	double share = span > 0 ? (double)(p->ns - p[-1].ns) / span : 0;

	t->span[i] = span;
	t->off[i] =
		distance(p[-1].allocated, p->allocated, p[1].allocated, share) +
		distance(p[-1].reserved, p->reserved, p[1].reserved, share);
}

static void drop(struct gp_timeline *t, size_t i)
{
	size_t rest = t->n - i - 1;

	memmove(&t->points[i], &t->points[i + 1], rest * sizeof(t->points[0]));
	memmove(&t->off[i], &t->off[i + 1], rest * sizeof(t->off[0]));
	memmove(&t->span[i], &t->span[i + 1], rest * sizeof(t->span[0]));
	t->n--;
	measure(t, i - 1);
	measure(t, i);
}

static void make_room(struct gp_timeline *t)
{
	double least = INFINITY;
	double width = (double)(t->points[t->n - 1].ns - t->points[0].ns) /
		       GP_TIMELINE_POINTS;
	size_t which = 1;

	for (size_t i = 1; i + 1 < t->n; i++) {
		double area = t->off[i] * (t->span[i] + width);

		if (area < least) {
			least = area;
			which = i;
		}
	}
	drop(t, which);
}

/* Are the last three points of about the same moment, in a run up to `ns`? */
static bool is_crowded(const struct gp_timeline *t, uint64_t ns)
{
	const struct gp_timeline_point *last = &t->points[t->n - 1];

	return last->ns - last[-2].ns <
	       (ns - t->points[0].ns) / GP_TIMELINE_POINTS / CLOSE;
}

/* The last point goes, and the one before becomes the peak of both. */
static void merge_last(struct gp_timeline *t)
{
	const struct gp_timeline_point *last = &t->points[--t->n];
	struct gp_timeline_point *p = &t->points[t->n - 1];

	if (last->allocated > p->allocated) {
		p->ns = last->ns;
		p->allocated = last->allocated;
	}
	if (last->reserved > p->reserved)
		p->reserved = last->reserved;
	measure(t, t->n - 2);
}

void gp_timeline_add(struct gp_timeline *t, uint64_t ns, uint64_t allocated,
		     uint64_t reserved)
{
	struct gp_timeline_point *last = t->n ? &t->points[t->n - 1] : NULL;

	/* As long as nothing changes, the end of the line moves on. */
	if (t->n > 1 && last->allocated == allocated &&
	    last->reserved == reserved && last[-1].allocated == allocated &&
	    last[-1].reserved == reserved) {
		last->ns = ns;
		measure(t, t->n - 2);
		return;
	}
	if (t->n > 3 && is_crowded(t, ns))
		merge_last(t);
	if (t->n == GP_TIMELINE_POINTS)
		make_room(t);
	t->points[t->n++] = (struct gp_timeline_point){
		.ns = ns,
		.allocated = allocated,
		.reserved = reserved,
	};
	if (t->n > 2)
		measure(t, t->n - 2);
}
