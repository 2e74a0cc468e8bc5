/*
 * Free ranges of the arena: best fit by size.
 *
 * A bin for each size in units, and one for all that are longer; in a bin a
 * list. Ranges are whole units, so those of a bin are equally long, but for the
 * last one, which is sorted: ranges that long are few. Of equals the first has
 * the lower address or was there before: full order kept memory no tighter, and
 * the tree that it takes cost half of a miss. Guarded by the pool's lock.
 */
#ifndef GP_POOL_RANGES_H
#define GP_POOL_RANGES_H

#include <stdint.h>

#include "pool/block.h"

#define GP_RANGES_BINS 2048u /* the last: from 128 MiB on */

struct gp_ranges {
	struct gp_block *bins[GP_RANGES_BINS]; /* linked by left, right */
	uint64_t used[GP_RANGES_BINS / 64];    /* bins not empty */
	uint64_t summary;                      /* words not 0 */
};

void gp_ranges_insert(struct gp_ranges *ranges, struct gp_block *b);
void gp_ranges_remove(struct gp_ranges *ranges, struct gp_block *b);

/* The smallest range of at least `granules`, or NULL. */
struct gp_block *gp_ranges_best(const struct gp_ranges *ranges,
				uint32_t granules);

/* The range after b in this order, or NULL. */
struct gp_block *gp_ranges_next(const struct gp_ranges *ranges,
				const struct gp_block *b);

#endif
