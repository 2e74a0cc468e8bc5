/*
 * Call sites: which call stacks hold how much device memory.
 *
 * A chosen allocation is entered under its address with its stack and what it
 * stands for (sampler.h), and taken out when it is freed. Stacks are kept once.
 * All of it is bounded: when there are too many different stacks the further
 * ones count as one without frames; blocks beyond the table are counted as
 * dropped.
 *
 * All functions are thread-safe, under one lock that is a leaf.
 */
#ifndef GP_STATS_SITES_H
#define GP_STATS_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/growth.h"
#include "stats/sampler.h"
#include "stats/stack.h"

#define GP_SITES       4096u
#define GP_SITE_FRAMES (32u * GP_SITES) /* of all stacks together */

/* Makes room. 0 or -errno; nothing can be entered then. Once. */
int gp_sites_start(uint64_t now_ns);

/* The block at `key` is the program's. `owner` is whoever may go away with all
 * its blocks. An entry that is there already is replaced: it was freed unseen.
 * False: not entered. */
bool gp_sites_add(uint64_t key, uint64_t owner, const struct gp_stack *stack,
		  struct gp_weight weight, uint64_t now_ns);

/* It is not any more. Unknown keys are ignored. Preserves errno. */
void gp_sites_remove(uint64_t key);

/* Which stack a block was entered with: a number below GP_SITES that stays that
 * stack's. 0: the block was not entered, or there was no room for its stack. */
uint32_t gp_sites_number(uint64_t key);

/* The stack of such a number; of 0 one without frames. */
void gp_sites_numbered(uint32_t number, struct gp_stack *stack);

/* The stack of a block that was entered. False: it was not, or there was no room
 * for its stack; *stack is untouched. */
bool gp_sites_stack(uint64_t key, struct gp_stack *stack);

/* Nor is any of this owner. */
void gp_sites_drop(uint64_t owner);

struct gp_site_row {
	uint64_t bytes, blocks;         /* live */
	uint64_t peak_bytes;            /* live when all sites were highest */
	uint64_t all_bytes, all_blocks; /* ever */
	uint64_t growth;                /* bytes an hour; 0: does not grow */
	uint64_t since_ns;              /* grew for so long */
	struct gp_stack stack;
};

enum gp_site_order {
	GP_SITES_BY_LIVE,
	GP_SITES_BY_PEAK,
	GP_SITES_BY_GROWTH, /* only what grows */
};

/* The highest `n` sites into rows, those with 0 left out. Returns their number. */
size_t gp_sites_top(enum gp_site_order order, struct gp_site_row *rows,
		    size_t n, uint64_t now_ns);

struct gp_sites_totals {
	uint64_t bytes, blocks; /* live, as estimated */
	uint64_t peak_bytes;
	uint64_t entered;     /* blocks that were chosen, ever */
	uint64_t entered_now; /* of them live */
	uint64_t sites;
	uint64_t dropped_stacks; /* chosen blocks without room for a stack */
	uint64_t dropped_blocks; /* and without room at all */
};

void gp_sites_get(struct gp_sites_totals *totals);

/* Empty again. For tests. */
void gp_sites_reset(uint64_t now_ns);

#endif
