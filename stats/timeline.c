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

/* So many are found at a time of those that go next. */
#define FOUND 8

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

/* ---- which one goes ---------------------------------------------------------- */

/* So much the curve misses the point. */
static double area(const struct gp_timeline *t, size_t i)
{
	return t->off[i] * (t->span[i] + t->width);
}

/* Of equal ones the earlier. */
static bool goes_before(double a, size_t i, double b, size_t j)
{
	return a < b || (a == b && i < j);
}

/* Of all points, of which there are more. */
static void find_least(struct gp_timeline *t)
{
	struct gp_timeline_least *least = &t->least;
	double areas[FOUND + 1] = {0};
	size_t n = 0;

	for (size_t i = 1; i + 1 < t->n; i++) {
		double a = area(t, i);
		size_t k;

		if (n > FOUND && a >= areas[FOUND])
			continue;
		k = n > FOUND ? FOUND : n++;
		for (; k && a < areas[k - 1]; k--) {
			areas[k] = areas[k - 1];
			least->at[k] = least->at[k - 1];
		}
		areas[k] = a;
		least->at[k] = (uint16_t)i;
	}
	least->n = FOUND;
	least->bound = areas[FOUND];
	least->bound_at = least->at[FOUND];
}

/* A point that was measured anew may be one that goes next. Ends stay. */
static void look_at(struct gp_timeline *t, size_t i)
{
	struct gp_timeline_least *least = &t->least;

	if (i == 0 || i + 1 >= t->n ||
	    !goes_before(area(t, i), i, least->bound, least->bound_at))
		return;
	for (unsigned k = 0; k < least->n; k++)
		if (least->at[k] == i)
			return;
	if (least->n < GP_TIMELINE_LEAST) {
		least->at[least->n++] = (uint16_t)i;
	} else {
		least->n = 0; /* found again when one has to go */
		least->bound = 0;
		least->bound_at = 0;
	}
}

/* That point has gone, and all behind it have moved. */
static void gone(struct gp_timeline *t, size_t i)
{
	struct gp_timeline_least *least = &t->least;
	unsigned n = 0;

	for (unsigned k = 0; k < least->n; k++) {
		unsigned at = least->at[k];

		least->at[n] = (uint16_t)(at - (at > i));
		n += at != i;
	}
	least->n = (uint16_t)n;
	least->bound_at -= least->bound_at > i;
}

/* 0: it is not among those that are known. */
static size_t first_to_go(const struct gp_timeline *t)
{
	const struct gp_timeline_least *least = &t->least;
	double most = least->bound;
	size_t which = least->bound_at;

	for (unsigned k = 0; k < least->n; k++) {
		double a = area(t, least->at[k]);

		if (goes_before(a, least->at[k], most, which)) {
			most = a;
			which = least->at[k];
		}
	}
	return which == least->bound_at ? 0 : which;
}

/* ---- points ------------------------------------------------------------------ */

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
	gone(t, i);
	measure(t, i - 1);
	measure(t, i);
	look_at(t, i - 1);
	look_at(t, i);
}

static void make_room(struct gp_timeline *t)
{
	size_t which;

	t->width = (double)(t->points[t->n - 1].ns - t->points[0].ns) /
		   GP_TIMELINE_POINTS;
	/* What was added and merged since measured no others anew. */
	look_at(t, t->n - 3);
	look_at(t, t->n - 2);
	which = first_to_go(t);
	if (!which) {
		find_least(t);
		which = first_to_go(t);
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
