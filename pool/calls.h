/*
 * The driver calls of one pool: counted, timed, and never under a lock.
 *
 * Thin wrappers over driver.h; arguments and results as there.
 */
#ifndef GP_POOL_CALLS_H
#define GP_POOL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/pool_stats.h"

struct gp_pool;

struct gp_call_counters {
	struct gp_call_stat of[GP_TIMED_COUNT]; /* atomic */
};

int gp_call_reserve(struct gp_pool *pool, uint64_t bytes, uint64_t *va);
int gp_call_unreserve(struct gp_pool *pool, uint64_t va, uint64_t bytes);
int gp_call_create(struct gp_pool *pool, uint64_t bytes, uint64_t *handle);
int gp_call_release(struct gp_pool *pool, uint64_t handle, uint64_t bytes);
int gp_call_map(struct gp_pool *pool, uint64_t va, uint64_t bytes,
		uint64_t handle);
int gp_call_set_access(struct gp_pool *pool, uint64_t va, uint64_t bytes);
int gp_call_unmap(struct gp_pool *pool, uint64_t va, uint64_t bytes);
int gp_call_segment_alloc(struct gp_pool *pool, uint64_t bytes, uint64_t *va);
int gp_call_segment_free(struct gp_pool *pool, uint64_t va, uint64_t bytes);

uint64_t gp_call_now(struct gp_pool *pool);

/* What the calls so far took. Any thread. */
void gp_call_figures(struct gp_pool *pool,
		     struct gp_call_stat figures[GP_TIMED_COUNT]);

#endif
