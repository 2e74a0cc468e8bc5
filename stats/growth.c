/* Series of lows; see growth.h. */
#include "stats/growth.h"

/* Short enough that a test or a short script has some bins. */
#define FIRST_WIDTH 10000000u /* ns */

#define MIN_BINS    6u /* before anything is said */
#define MIN_STEPS   3u /* upward */

void gp_growth_start(struct gp_growth_clock *clock, uint64_t now_ns)
{
	clock->start = now_ns;
	clock->width = FIRST_WIDTH;
}

uint64_t gp_growth_bin(const struct gp_growth_clock *clock, uint64_t now_ns)
{
	/* Threads' clocks may be read in another order than they get here. */
	return now_ns > clock->start ? (now_ns - clock->start) / clock->width
				     : 0;
}

static double lower(double a, double b)
{
	return a < b ? a : b;
}

void gp_growth_fold(struct gp_growth *growth)
{
	unsigned first = growth->first, last = growth->last;

	if (!growth->used)
		return;
	for (unsigned i = first / 2; i <= last / 2; i++) {
		unsigned a = 2 * i < first ? first : 2 * i;
		unsigned b = 2 * i + 1 > last ? last : 2 * i + 1;

		growth->low[i] = lower(growth->low[a], growth->low[b]);
	}
	growth->first = (uint16_t)(first / 2);
	growth->last = (uint16_t)(last / 2);
}

void gp_growth_widen(struct gp_growth_clock *clock)
{
	clock->width *= 2;
}

void gp_growth_note(struct gp_growth *growth, unsigned bin, double before,
		    double after)
{
	if (!growth->used) {
		growth->used = true;
		growth->first = growth->last = (uint16_t)bin;
		growth->low[bin] = before;
	}
	while (growth->last < bin) /* nothing happened meanwhile */
		growth->low[++growth->last] = before;
	growth->low[growth->last] = lower(growth->low[growth->last], after);
}

bool gp_growth_grows(const struct gp_growth *growth, unsigned bin, double now,
		     double *grown, unsigned *bins)
{
	unsigned first = growth->first, last = growth->last;
	unsigned steps = 0, late = 0, middle = first + (bin - first) / 2;

	if (!growth->used || bin < first + MIN_BINS)
		return false;
	for (unsigned i = first; i < last; i++) {
		if (growth->low[i + 1] < growth->low[i])
			return false;
		if (growth->low[i + 1] > growth->low[i]) {
			steps++;
			late += i + 1 > middle;
		}
	}
	/* The last bin's low is from its beginning. */
	if (now > growth->low[last]) {
		steps++;
		late += last >= middle;
	}
	*grown = now - growth->low[first];
	*bins = bin - first + 1;
	return steps >= MIN_STEPS && late && *grown > 0;
}
