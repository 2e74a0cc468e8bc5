/*
 * Does a site only ever grow? The lowest level of each stretch of the run, in a
 * bounded series: when it is full, neighbours become one, and stretches are
 * twice as long from then on. A site that frees what it allocates comes back to
 * its lows; one that leaks never does. Levels are bytes.
 *
 * Not thread-safe: guarded by the lock of the sites.
 */
#ifndef GP_STATS_GROWTH_H
#define GP_STATS_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#define GP_GROWTH_BINS 32u

/* Of all sites together. */
struct gp_growth_clock {
	uint64_t start; /* ns */
	uint64_t width; /* of a bin, ns */
};

struct gp_growth {
	uint16_t first, last; /* bins with a figure: first..last */
	bool used;
	double low[GP_GROWTH_BINS];
};

void gp_growth_start(struct gp_growth_clock *clock, uint64_t now_ns);

/* The bin of this moment. From GP_GROWTH_BINS on every series must be folded
 * and the clock widened, until it is below. */
uint64_t gp_growth_bin(const struct gp_growth_clock *clock, uint64_t now_ns);
void gp_growth_fold(struct gp_growth *growth);
void gp_growth_widen(struct gp_growth_clock *clock);

/* In this bin the level went from `before` to `after`. */
void gp_growth_note(struct gp_growth *growth, unsigned bin, double before,
		    double after);

/* Up to this bin, where the level is `now`: did it only ever grow, and in the
 * later half too? Then by how much from the first bin on. */
bool gp_growth_grows(const struct gp_growth *growth, unsigned bin, double now,
		     double *grown, unsigned *bins);

#endif
