/*
 * The arena: one address range, tiled by blocks, and the way from an address
 * to its block.
 *
 * Large blocks start at units of 64 KiB. A table has one word a unit: the
 * block that starts there, or the slab that covers it. A bitmap of starts,
 * summarised 64 to 1, finds the block around an interior address. Lookups
 * take no lock; changes are made under the pool's lock.
 */
#ifndef GP_POOL_ARENA_H
#define GP_POOL_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "pool/block.h"
#include "pool/objects.h"

#define GP_ARENA_LEVELS 5
/* Granule numbers fit 32 bits. */
#define GP_ARENA_MAX    (((uint64_t)1 << (32 + GP_GRANULE_SHIFT)) - (1ull << 30))

struct gp_slab;

struct gp_arena {
	uint64_t units;                    /* size in units; constant */
	uintptr_t *table;                  /* one word a unit; atomic */
	uint64_t *starts[GP_ARENA_LEVELS]; /* bitmaps; atomic words */
	size_t table_bytes, starts_bytes;
	struct gp_objects blocks; /* descriptors; pool's lock */
	struct gp_block *first;   /* the lowest tile; constant */
};

/* One vacant tile of `bytes`, a multiple of 2 MiB up to GP_ARENA_MAX.
 * 0 or -ENOMEM. */
int gp_arena_init(struct gp_arena *arena, uint64_t bytes);
void gp_arena_exit(struct gp_arena *arena);

/* Cut a tile in two: b keeps its first `granules`, the rest is returned with
 * the same state and stamp, in no list. Needs a reserved descriptor.*/
struct gp_block *gp_tile_split(struct gp_arena *arena, struct gp_block *b,
			       uint32_t granules);

/* Join a tile with the next one, whose descriptor goes; neither is in a
 * list. */
void gp_tile_join(struct gp_arena *arena, struct gp_block *b);

/* The slab takes over, or gives back, the units of its tile. */
void gp_arena_set_slab(struct gp_arena *arena, struct gp_block *b,
		       struct gp_slab *slab);
void gp_arena_clear_slab(struct gp_arena *arena, struct gp_block *b);

/* What starts at, or covers, a granule: the slab, or the block that starts at
 * this very unit, or NULL. Any thread. */
static inline struct gp_block *gp_arena_at(const struct gp_arena *arena,
					   uint64_t granule,
					   struct gp_slab **slab)
{
	uint64_t unit = granule / GP_UNIT_GRANULES;
	uintptr_t word = __atomic_load_n(&arena->table[unit], __ATOMIC_ACQUIRE);

	if (word & 1) {
		*slab = (struct gp_slab *)(word - 1);
		return NULL;
	}
	*slab = NULL;
	return (struct gp_block *)word;
}

/* The tile that contains a granule outside slabs. Exact when that tile is
 * live, else possibly NULL or stale: the caller checks. Any thread. */
struct gp_block *gp_arena_around(const struct gp_arena *arena,
				 uint64_t granule);

#endif
