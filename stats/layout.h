/*
 * What lies where in one pool's memory, for reports: its segments, and the
 * live blocks in them; in order of address if they are expandable.
 *
 * Plain data, owned by whoever made it.
 */
#ifndef GP_STATS_LAYOUT_H
#define GP_STATS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_layout_range {
	uint64_t address, bytes;
	uint64_t requested; /* of blocks: bytes the program asked for */
	uint64_t blocks;    /* neighbours told as one, mostly 1 */
	uint64_t site;      /* of blocks, where has_sites: of their stack the
			     * number in sites.h, in a report that in
			     * block_sites.h; 0: not known, or different ones */
};

struct gp_layout {
	uint64_t unix_ns;  /* when it was begun: what the events say of later
			     counts for more. 0: there is none */
	uint64_t left_out; /* blocks and segments that found no room */
	bool expandable; /* segments grow and shrink; else the driver gave each
			    as it is */
	bool has_sites;  /* the blocks' stacks were kept; the caller's to set */
	size_t num_segments, max_segments;
	size_t num_blocks, max_blocks;
	struct gp_layout_range *segments, *blocks; /* not owned */
};

#endif
