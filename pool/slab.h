/*
 * Slabs: where requests below 1 MiB live, apart from large ones.
 *
 * A slab is one tile of the arena of up to 2 MiB, tiled in turn by small blocks
 * in granules of 512 B. Free small blocks sit in one bin for each size, under a
 * bitmap of the bins in use: best fit in constant time, however many there are.
 *
 * Slabs belong to parts, each with a lock and bins of its own. All threads begin
 * with the first; one that meets others there again and again gets another.
 * What a part lacks it takes over from the others, slab by slab, before memory
 * is asked for. Slabs come, go and change parts under the pool's lock; lookups
 * take none.
 */
#ifndef GP_POOL_SLAB_H
#define GP_POOL_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/block.h"
#include "pool/lock.h"
#include "pool/objects.h"

#define GP_SLAB_GRANULES 4096u /* 2 MiB */
#define GP_SLAB_PARTS    16u

struct gp_cache;
struct gp_pool;

struct gp_slab {
	/* What it lives in; constant while a slab, else NULL. Both locks. */
	struct gp_block *tile;
	uint64_t first;            /* the tile's granule */
	struct gp_slab_part *part; /* whose it is; atomic, see above */
	/* Below: the part's lock for whoever changes them. */
	struct gp_block *at[GP_SLAB_GRANULES];  /* block that starts; atomic */
	uint64_t starts[GP_SLAB_GRANULES / 64]; /* the same, bits; atomic */
	uint64_t summary; /* words of starts that are not 0; atomic */
	void *link;       /* objects.h */
};

/* Its lock guards all of it, and the blocks in its slabs as long as they are
 * free: neighbours, too, are linked under it. */
struct gp_slab_part {
	struct gp_lock lock __attribute__((aligned(64)));
	uint64_t summary[2];                         /* words not 0 */
	uint64_t used[GP_SLAB_GRANULES / 64 + 1];    /* bins not empty */
	struct gp_block *bins[GP_SLAB_GRANULES + 1]; /* by granules */
	struct gp_objects blocks;                    /* descriptors */
	uint64_t granules;                           /* free ones */
	uint64_t free_blocks;
};

/* Pool's lock, but for what the parts' own guard. */
struct gp_slabs {
	struct gp_slab_part parts[GP_SLAB_PARTS];
	uint32_t num_parts; /* from here on they never had a slab */
	struct gp_objects slabs;
	uint64_t count;      /* slabs */
	uint64_t kept_since; /* pool's clock when the last became idle */
};

/* Of memory that is zero, whose pages are touched as they are needed. */
void gp_slabs_init(struct gp_slabs *slabs);
void gp_slabs_exit(struct gp_slabs *slabs);

/* A HELD block of exactly `granules` from the best fitting free one of the
 * cache's part (NULL: of no thread's); NULL if there is none. The cache's
 * thread. */
struct gp_block *gp_slab_take(struct gp_pool *pool, struct gp_cache *cache,
			      uint32_t granules);

/* The same of any part. Under the pool's lock. */
struct gp_block *gp_slab_find(struct gp_pool *pool, struct gp_cache *cache,
			      uint32_t granules);

/* A HELD tile of at most GP_SLAB_GRANULES becomes a slab of the cache's part,
 * and a block is taken as above. NULL: out of host memory, the tile is as it
 * was. Under the pool's lock. */
struct gp_block *gp_slab_add(struct gp_pool *pool, struct gp_cache *cache,
			     struct gp_block *tile, uint32_t granules);

/* Give back a small block of any owned state. A slab that is wholly free goes
 * back to the free ranges, but for the last of full size: a program that has
 * small and large blocks in turn would move memory to and fro. Under the pool's
 * lock. */
void gp_slab_give(struct gp_pool *pool, struct gp_block *b);

/* The same of a chain by right. No lock is held, and the pool's is taken only
 * where a slab becomes wholly free. */
void gp_slab_give_chain(struct gp_pool *pool, struct gp_block *b);

/* That one, too, if it is wholly free. True if it was. Under the pool's lock. */
bool gp_slabs_drop(struct gp_pool *pool);

/* All parts at once: nothing in any slab changes. Under the pool's lock. */
void gp_slabs_lock(struct gp_slabs *slabs);
void gp_slabs_unlock(struct gp_slabs *slabs);

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
