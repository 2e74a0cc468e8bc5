/*
 * Plain driver allocations instead of virtual memory, under PyTorch's classic
 * rules.
 *
 * For devices without virtual memory and for expandable_segments:False. A
 * segment is a handle that never moves; in the arena's numbers it lies
 * anywhere, its addresses are the driver's. Under the pool's lock.
 */
#ifndef GP_POOL_SEGMENTS_H
#define GP_POOL_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

struct gp_block;
struct gp_pool;

/* A HELD tile of at least `granules` by best fit, within the rules for
 * splitting; NULL if no free range may serve. `slab`: for small blocks. */
struct gp_block *gp_segment_take(struct gp_pool *pool, uint32_t granules,
				 bool slab);

/* A new segment, and in it a HELD tile as from gp_segment_take(). Releases the
 * lock around the driver call. 0, -ENOMEM or -EIO; -EAGAIN: the device is
 * full, but idle segments are left that could go. */
int gp_segment_grow(struct gp_pool *pool, uint32_t granules, bool slab,
		    struct gp_block **tile);

#endif
