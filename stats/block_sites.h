/*
 * The call stacks of the blocks that a report's layouts tell of: each stack is
 * told once, and of all their frames each one once, so that a report grows by a
 * number a block and no more.
 *
 * Plain data, owned by whoever made it. It is large, and its pages are touched
 * as far as they are needed: static, not on a stack.
 */
#ifndef GP_STATS_BLOCK_SITES_H
#define GP_STATS_BLOCK_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "stats/layout.h"
#include "stats/sites.h"

#define GP_BLOCK_FRAMES 8192u /* different ones; a power of two */

struct gp_block_sites {
	size_t num_sites;  /* the first one has no frames: not known */
	size_t num_frames; /* different ones */
	uint64_t left_out; /* of the stacks, for want of room */
	uint64_t frames[GP_BLOCK_FRAMES]; /* stack.h */
	/* Stack after stack, the innermost frame first: which of the frames. */
	uint64_t stacks[GP_SITE_FRAMES];
	uint32_t ends[GP_SITES]; /* of each stack, in `stacks` */

	uint16_t numbers[GP_SITES]; /* by those of sites.h; 0: none */
	uint16_t
		slots[2 * GP_BLOCK_FRAMES]; /* frames hashed, from 1; 0: free */
};

/* None yet. */
void gp_block_sites_clear(struct gp_block_sites *sites);

/* These blocks' sites are numbers of sites.h, and become numbers of `sites`,
 * which takes in their stacks. Takes the leaf lock of sites.h. */
void gp_block_sites_add(struct gp_block_sites *sites,
			struct gp_layout_range *blocks, size_t n);

#endif
