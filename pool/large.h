/*
 * Large blocks and free ranges: tiles, the bins of the free ones, and the
 * use of the handles below them, changed together.
 *
 * All under the pool's lock. Each call may need two descriptors, reserved
 * beforehand.
 */
#ifndef GP_POOL_LARGE_H
#define GP_POOL_LARGE_H

#include <stdint.h>

#include "pool/block.h"

struct gp_pool;

struct gp_region;

/* Divides a new arena into its regions. 0 or -ENOMEM. */
int gp_large_init(struct gp_pool *pool);

/* A HELD tile of exactly `granules` (whole units) by best fit, at the end of
 * the range where it breaks into less idle memory; NULL if no free range is
 * long enough. */
struct gp_block *gp_large_take(struct gp_pool *pool, struct gp_region *region,
			       uint32_t granules);

/* A free range of at least `granules`, but less than a slab, as a whole and
 * HELD; NULL if there is none. */
struct gp_block *gp_large_scrap(struct gp_pool *pool, struct gp_region *region,
				uint32_t granules);

/* A tile of any owned state becomes free and joins its free neighbours. */
void gp_large_give(struct gp_pool *pool, struct gp_block *b);

/* A HELD tile keeps its first `granules`; the rest becomes free. Leaves it as
 * it is when the host has no memory for a descriptor. */
void gp_large_shrink(struct gp_pool *pool, struct gp_block *b,
		     uint32_t granules);

/* Exactly this part of a free range becomes a HELD tile. */
struct gp_block *gp_large_carve(struct gp_pool *pool, uint64_t granule,
				uint32_t granules);

/* A HELD tile that has no memory behind it any more becomes vacant. */
void gp_large_vacate(struct gp_pool *pool, struct gp_block *b);

/* A vacant tile becomes HELD. */
void gp_large_claim(struct gp_pool *pool, struct gp_block *vacant);

/* A free range becomes HELD as a whole. */
void gp_large_hold(struct gp_pool *pool, struct gp_block *b);

#endif
