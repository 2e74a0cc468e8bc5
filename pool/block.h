/*
 * The block: one contiguous piece of the arena and everything known of it.
 *
 * Device memory is never touched; all of this is a side table. Blocks tile the
 * arena without gaps; the blocks inside a slab tile the slab.
 */
#ifndef GP_POOL_BLOCK_H
#define GP_POOL_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define GP_GRANULE_SHIFT 9u  /* 512 B: sizes and small addresses */
#define GP_UNIT_SHIFT    16u /* 64 KiB: large addresses */
#define GP_UNIT_GRANULES (1u << (GP_UNIT_SHIFT - GP_GRANULE_SHIFT))

enum gp_state {
	GP_VACANT,    /* address space without memory behind it */
	GP_FREE,      /* in a bin of the free ranges or of the slabs */
	GP_LIVE,      /* the program's */
	GP_GUARDED,   /* the same, and it begins behind a red zone (aids.h) */
	GP_NOTED,     /* either, and notes.h knows more of it */
	GP_CACHED,    /* in a thread's cache, or on its way there */
	GP_SET_ASIDE, /* freed, but its last use is not known finished */
	GP_LENT,      /* freed, but other processes have it mapped */
	GP_HELD,      /* being grown, moved or given back */
	GP_SLAB,      /* tiled by small blocks */
	GP_STUCK,     /* the driver refused to unmap it; tried again later */
};

struct gp_block {
	/* First granule << 8 | state. Atomic: a free claims the block by one
	 * compare and swap, which cannot hit another block that took over the
	 * descriptor. Other transitions are made by whoever owns the block:
	 * the pool's lock (VACANT, FREE, SLAB, STUCK), that of a slab's part
	 * (FREE in the slab), the operation that holds it (HELD, SET_ASIDE), the cache's lock (CACHED). NOTED and
	 * LENT begin and end under the pool's lock. */
	uint64_t tag;
	uint64_t requested; /* bytes asked for; atomic, valid while live */
	uint64_t stamp;     /* order.h; owned like the state */
	uint32_t granules;  /* size; changes only while not LIVE */
	/* Cache it was served from; set before LIVE. With GP_WATCHED, set
	 * while LIVE and taken away by who claims the block. Atomic: who walks
	 * through the pool looks at it. */
	uint32_t owner;

	/* Neighbours in address order. Guarded by the pool's lock; of blocks in
	 * a slab by that of the slab's part. */
	struct gp_block *prev, *next;

	/* A list's links. Guarded by whatever guards that list. */
	struct gp_block *left, *right;
};

_Static_assert(sizeof(struct gp_block) == 64, "one cache line a block");

/* The block's free is told to stats/sites.h. A mark in a number that every free
 * compares anyway: blocks without it pay nothing. */
#define GP_WATCHED (1u << 31)

static inline uint64_t gp_tag(uint64_t granule, enum gp_state state)
{
	return granule << 8 | (uint64_t)state;
}

static inline uint64_t gp_block_granule(const struct gp_block *b)
{
	return __atomic_load_n(&b->tag, __ATOMIC_RELAXED) >> 8;
}

static inline enum gp_state gp_block_state(const struct gp_block *b)
{
	return (enum gp_state)(__atomic_load_n(&b->tag, __ATOMIC_RELAXED) &
			       0xff);
}

/* Only for the owner of the transition. */
static inline void gp_block_set_state(struct gp_block *b, enum gp_state state)
{
	__atomic_store_n(&b->tag, gp_tag(gp_block_granule(b), state),
			 __ATOMIC_RELEASE);
}

/* Only for who has claimed the block, or is about to hand it out. */
static inline void gp_block_set_owner(struct gp_block *b, uint32_t owner)
{
	__atomic_store_n(&b->owner, owner, __ATOMIC_RELAXED);
}

/* The program's, whatever else. */
static inline bool gp_state_is_live(enum gp_state state)
{
	return state >= GP_LIVE && state <= GP_NOTED;
}

/* Past the last granule. */
static inline uint64_t gp_block_end(const struct gp_block *b)
{
	return gp_block_granule(b) + b->granules;
}

static inline uint64_t gp_block_bytes(const struct gp_block *b)
{
	return (uint64_t)b->granules << GP_GRANULE_SHIFT;
}

#endif
