/*
 * The parts of gp_pool_check(): one function for each structure.
 *
 * All run under the pool's lock with every cache locked. Threads may still
 * free blocks meanwhile; what such a free has begun is counted as loose.
 */
#ifndef GP_POOL_CHECK_H
#define GP_POOL_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "pool/account.h"

struct gp_block;
struct gp_pool;

struct gp_check {
	struct gp_pool *pool;
	char *why; /* the first thing that was wrong */
	size_t why_size;
	int rc;

	/* Sums over all blocks, by state where not said otherwise. */
	uint64_t live[GP_M_NUM];             /* by measure */
	uint64_t free_ranges, free_granules; /* tiles */
	uint64_t small_free, small_granules; /* in slabs */
	uint64_t vacant, slabs, stuck, aside, lent, cached, held;
};

/* Notes a failure, a sentence; only the first counts. */
void gp_check_fail(struct gp_check *check, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Counts one block that belongs to the program, a cache or an operation. */
void gp_check_block(struct gp_check *check, struct gp_block *b);

void gp_check_slab(struct gp_check *check, struct gp_block *tile);
void gp_check_bins(struct gp_check *check);
void gp_check_handles(struct gp_check *check);
void gp_check_lists(struct gp_check *check);

#endif
