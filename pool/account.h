/*
 * Who counts what: tallies that one owner updates without atomics, and the
 * sums that they are published into.
 *
 * A tally remembers its highest level since it was last published, so the
 * peaks of a program with one thread are exact; with several they are exact
 * to what the threads' caches hold.
 */
#ifndef GP_POOL_ACCOUNT_H
#define GP_POOL_ACCOUNT_H

#include <stdint.h>

#include "stats/pool_stats.h"

enum gp_measure { GP_M_ALLOCATED, GP_M_REQUESTED, GP_M_COUNT, GP_M_NUM };

struct gp_flow {
	uint64_t added; /* since the last publication */
	int64_t level;  /* added, less what was removed */
	int64_t high;   /* the highest level, at least 0 */
};

/* Guarded by the lock of the cache it belongs to. */
struct gp_tally {
	struct gp_flow flow[GP_M_NUM];
	uint64_t waits;
};

/* Guarded by the pool's lock. */
struct gp_account {
	struct gp_stat sum[GP_M_NUM];
	struct gp_stat reserved, segments;
	uint64_t misses; /* allocations that made driver calls */
	uint64_t ooms, retries, remaps, trims, deferred, waits;
};

static inline void gp_flow_add(struct gp_flow *flow, uint64_t amount)
{
	int64_t level = flow->level + (int64_t)amount;

	flow->added += amount;
	flow->level = level;
	if (level > flow->high)
		flow->high = level;
}

static inline void gp_tally_alloc(struct gp_tally *tally, uint64_t bytes,
				  uint64_t requested)
{
	gp_flow_add(&tally->flow[GP_M_ALLOCATED], bytes);
	gp_flow_add(&tally->flow[GP_M_REQUESTED], requested);
	gp_flow_add(&tally->flow[GP_M_COUNT], 1);
}

static inline void gp_tally_free(struct gp_tally *tally, uint64_t bytes,
				 uint64_t requested)
{
	tally->flow[GP_M_ALLOCATED].level -= (int64_t)bytes;
	tally->flow[GP_M_REQUESTED].level -= (int64_t)requested;
	tally->flow[GP_M_COUNT].level--;
}

/* A quantity rose or fell by so much. */
void gp_stat_add(struct gp_stat *stat, uint64_t amount);
void gp_stat_sub(struct gp_stat *stat, uint64_t amount);

/* What the tally holds of each measure now. */
void gp_tally_levels(const struct gp_tally *tally, int64_t levels[GP_M_NUM]);

/* Raises the peaks to what they were while this tally stood highest and all
 * the others at `others`. Then the tally is added to the sums and emptied. */
void gp_account_peak(struct gp_account *account, const struct gp_tally *tally,
		     const int64_t others[GP_M_NUM]);
void gp_account_fold(struct gp_account *account, struct gp_tally *tally);

#endif
