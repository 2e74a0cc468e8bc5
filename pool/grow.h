/*
 * A request that no free range can serve: more memory at a place where it
 * fits.
 *
 * First memory that the pool holds already: wholly free handles elsewhere are
 * moved. Then new memory, only what is missing.
 */
#ifndef GP_POOL_GROW_H
#define GP_POOL_GROW_H

#include <stdbool.h>
#include <stdint.h>

struct gp_block;
struct gp_pool;
struct gp_region;

/* `factor`: how much new memory to take for what is missing, at least 1.
 * With the pool's lock held, which is released around driver calls: *tile is a
 * HELD tile of exactly `granules` (whole units). 0, -ENOMEM, -EIO; -EAGAIN: the
 * device is full, but idle memory is left that did not fit here. After an
 * error everything is as it was, but for handles that the driver would not
 * take back (kept for the next trim). */
int gp_grow(struct gp_pool *pool, struct gp_region *region, uint32_t granules,
	    double factor, struct gp_block **tile);

/* Would it move idle memory rather than take new? */
bool gp_grow_moves(const struct gp_pool *pool);

#endif
