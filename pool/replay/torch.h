/*
 * PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp): the part
 * that its native and its expandable rules have in common. Blocks tile
 * segments; free ones wait in the small or the large pool, ordered by
 * (stream, size, address).
 *
 * Played, not linked: a person can see what PyTorch would reserve for a trace
 * without PyTorch. Held against what PyTorch 2.11 reported on an H200 for five
 * models whose driver calls were recorded (cuBLAS's own 64 MiB buffers left
 * out), MiB:
 *
 *                  native, played  reported   expandable, played  reported
 *   GPT-2                   21046     21042                13670     13670
 *   ResNet-50               12134     12132                 6756      6754
 *   Mask R-CNN              23872     23872                16686     16686
 *   GraphSAGE               11912     11912                 6520      6520
 *   MoE                     15962     15962                12494     12494
 */
#ifndef GP_REPLAY_TORCH_H
#define GP_REPLAY_TORCH_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/replay/policy.h"
#include "pool/replay/sorted.h"

#define TORCH_MIN_BLOCK    512ull        /* every size is a multiple */
#define TORCH_SMALL_SIZE   (1ull << 20)  /* largest small request */
#define TORCH_SMALL_BUFFER (2ull << 20)  /* a small segment, or page */
#define TORCH_LARGE_BUFFER (20ull << 20) /* a large expandable page */
#define TORCH_MIN_LARGE    (10ull << 20) /* from here a segment of its own */
#define TORCH_ROUND_LARGE  (2ull << 20)  /* ... rounded up to this */

struct torch_pool {
	bool is_small;
	struct gp_sorted free;     /* mapped: by stream, size, address */
	struct gp_sorted unmapped; /* expandable: by stream, address */
	uint64_t searches;         /* get_free_blocks_call_count */
};

struct torch_segment; /* expandable's */

struct torch_block {
	struct gp_sorted_node node; /* in free or unmapped, unless allocated */
	struct torch_block *prev, *next; /* neighbours in the segment */
	uint64_t va, bytes;
	uint32_t stream;
	struct torch_pool *pool;
	struct torch_segment *segment; /* NULL: a segment of cudaMalloc */
	bool allocated, mapped;
	uint64_t free_since; /* pool->searches when it became free */
};

struct torch {
	struct gp_driver driver;
	struct gp_conf conf;
	struct torch_pool small, large;
	bool expandable;
	uint64_t reserved;              /* bytes, as PyTorch counts them */
	struct torch_segment *segments; /* expandable's */
};

/* A `struct torch` with nothing reserved, for free(). 0 or -ENOMEM. */
int torch_create(const struct gp_driver *driver, const struct gp_conf *conf,
		 bool expandable, void **state);

uint64_t torch_round(const struct torch *t, uint64_t bytes);

static inline struct torch_pool *torch_pool_of(struct torch *t, uint64_t size)
{
	return size <= TORCH_SMALL_SIZE ? &t->small : &t->large;
}

struct torch_block *torch_block_new(struct torch_pool *pool, uint32_t stream,
				    uint64_t va, uint64_t bytes);
static inline struct torch_block *torch_block_of(struct gp_sorted_node *node)
{
	return gp_sorted_entry(node, struct torch_block, node);
}

/* Into or out of the set of the block's pool where its state belongs. */
void torch_insert(struct torch_block *block);
void torch_erase(struct torch_block *block);

/* Links `block` between two neighbours (either may be NULL). */
void torch_link(struct torch_block *block, struct torch_block *prev,
		struct torch_block *next);
/* Merges neighbour `src`, if it is free and as mapped as dst, into dst, which
 * is in no set; src may be NULL. */
void torch_merge(struct torch_block *dst, struct torch_block *src);

/* The best free block of `pool` for `size` on `stream`, out of its set; NULL:
 * none. */
struct torch_block *torch_find(struct torch *t, struct torch_pool *pool,
			       uint64_t size, uint32_t stream);
/* A whole segment: neither split nor merged with anything. */
static inline bool torch_whole(const struct torch_block *block)
{
	return !block->prev && !block->next;
}
/* A block over `bytes` of fresh cudaMalloc memory, in no set. 0 or -errno. */
int torch_segment_alloc(struct torch *t, struct torch_pool *pool,
			uint64_t bytes, uint32_t stream,
			struct torch_block **block);
/* Gives a whole, free block back to the driver. */
void torch_segment_free(struct torch *t, struct torch_block *block);
/* The same for every one in the pool. */
void torch_segments_free(struct torch *t, struct torch_pool *pool);
/* Marks a found block allocated, giving the rest back where the rules split,
 * and says where it is. 0 or -ENOMEM (host). */
int torch_carve(struct torch *t, struct torch_block *block, uint64_t size,
		struct gp_placement *placement);
/* gp_policy.free */
int torch_free(void *state, const struct gp_placement *placement, bool idle);
/* gp_policy.check */
int torch_check(void *state, char *why, size_t why_size);

#endif
