/*
 * Slabs: where requests below 1 MiB live, apart from large ones.
 *
 * A slab is one tile of the arena of up to 2 MiB, tiled in turn by small blocks
 * in granules of 512 B. Free small blocks sit in one bin for each size, under a
 * bitmap of the bins in use: best fit in constant time, however many there are.
 * Guarded by the pool's lock; lookups take none.
 */
#ifndef GP_POOL_SLAB_H
#define GP_POOL_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/block.h"
#include "pool/objects.h"

#define GP_SLAB_GRANULES 4096u /* 2 MiB */

struct gp_pool;

struct gp_slab {
	struct gp_block *tile; /* what it lives in; constant while a slab */
	uint64_t first;        /* the tile's granule */
	struct gp_block *at[GP_SLAB_GRANULES];  /* block that starts; atomic */
	uint64_t starts[GP_SLAB_GRANULES / 64]; /* the same, bits; atomic */
	uint64_t summary; /* words of starts that are not 0; atomic */
	void *link;       /* objects.h */
};

struct gp_slabs {
	struct gp_block *bins[GP_SLAB_GRANULES + 1]; /* by granules */
	uint64_t used[GP_SLAB_GRANULES / 64 + 1];    /* bins not empty */
	uint64_t summary[2];                         /* words not 0 */
	struct gp_objects slabs;
	uint64_t count;      /* slabs */
	uint64_t kept_since; /* pool's clock when the last became idle */
	uint64_t granules;   /* free ones */
	uint64_t free_blocks;
};

/* Of memory that is zero, whose pages are touched as they are needed. */
void gp_slabs_init(struct gp_slabs *slabs);
void gp_slabs_exit(struct gp_slabs *slabs);

/* A HELD block of exactly `granules` from the best fitting free one; NULL if
 * there is none. Needs a reserved descriptor. */
struct gp_block *gp_slab_take(struct gp_pool *pool, uint32_t granules);

/* A HELD tile of at most GP_SLAB_GRANULES becomes a slab with everything free.
 * 0 or -ENOMEM. */
int gp_slab_add(struct gp_pool *pool, struct gp_block *tile);

/* Give back a small block of any owned state. A slab that is wholly free goes
 * back to the free ranges, but for the last of full size: a program that has
 * small and large blocks in turn would move memory to and fro. */
void gp_slab_give(struct gp_pool *pool, struct gp_block *b);

/* That one, too, if it is wholly free. True if it was. */
bool gp_slabs_drop(struct gp_pool *pool);

/* The block that starts at a granule of the slab, or NULL. Any thread. */
static inline struct gp_block *gp_slab_at(const struct gp_slab *slab,
					  uint64_t granule)
{
	return __atomic_load_n(
		&slab->at[(granule - slab->first) % GP_SLAB_GRANULES],
		__ATOMIC_ACQUIRE);
}

/* The block around a granule: exact when it is live. Any thread. */
struct gp_block *gp_slab_around(const struct gp_slab *slab, uint64_t granule);

#endif
