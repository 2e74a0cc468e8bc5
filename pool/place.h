/*
 * Where a request that needs more memory goes: a stretch of vacant addresses,
 * and which of the free ranges beside it are to be part of the block.
 *
 * Under the pool's lock.
 */
#ifndef GP_POOL_PLACE_H
#define GP_POOL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct gp_block;
struct gp_pool;
struct gp_region;

/* A stretch of addresses and how to use it. */
struct gp_place {
	struct gp_block *vacant;
	uint32_t missing; /* granules to be filled */
	bool front, back; /* take the free range before, after it */
	bool at_end;      /* fill the end of the stretch */
	uint32_t spacer;  /* leave so much vacant before it */
};

/* The place where the least is missing; `vacant` is NULL if there is none. A
 * huge request that would have to be filled for the most part gets one with
 * room on both sides, so that a later and larger one needs to fill only the
 * difference. No free range of the region may be as large as the request:
 * `missing` would be nothing, or wrap. */
struct gp_place gp_place_choose(struct gp_pool *pool,
				const struct gp_region *region,
				uint32_t granules);

#endif
