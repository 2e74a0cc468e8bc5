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

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"
#include "stats/pool_stats.h"

/* Bytes, and of GP_M_COUNT blocks. The large ones count blocks from
 * GP_LARGE_FROM on once more: what is small is the rest. */
enum gp_measure {
	GP_M_ALLOCATED,
	GP_M_REQUESTED,
	GP_M_COUNT,
	GP_M_LARGE, /* this and the two above it, of large blocks */
	GP_M_NUM = 2 * GP_M_LARGE,
};

struct gp_flow {
	uint64_t added; /* since the last publication */
	int64_t level;  /* added, less what was removed */
	/* The highest level, at least 0. Of large blocks as it was when one
	 * was found that the thread did not have: its hits only give back what
	 * it had freed since. */
	int64_t high;
};

/* Guarded by the lock of the cache it belongs to. */
struct gp_tally {
	struct gp_flow flow[GP_M_NUM];
	uint64_t waits;
};

/* Where a handle is mapped, among slabs or where large blocks are; in figures
 * the first stands for all. */
enum gp_class { GP_CLASS_ALL, GP_CLASS_SMALL, GP_CLASS_LARGE, GP_NUM_CLASSES };

/* Guarded by the pool's lock. Bytes, or numbers of what the name says. */
struct gp_account {
	struct gp_stat sum[GP_M_NUM];
	uint64_t small_peak[GP_M_LARGE];   /* see gp_account_peak() */
	uint64_t most_live, most_reserved; /* never reset, unlike peaks */
	struct gp_stat reserved, segments;
	struct gp_stat class_reserved[GP_NUM_CLASSES],
		class_segments[GP_NUM_CLASSES];
	struct gp_stat oversize_segments;
	struct gp_section_peak section; /* since it was taken last */
	/* Of bytes and of blocks; observed when figures are asked for. */
	uint64_t active_peak[2][GP_NUM_CLASSES];
	struct gp_stat split[2][GP_NUM_CLASSES];
	struct gp_stat oversize;
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

static inline void gp_flow_count(struct gp_flow *flow, uint64_t amount)
{
	flow->added += amount;
	flow->level += (int64_t)amount;
}

/* `hit`: the thread had the block. */
static inline void gp_tally_alloc(struct gp_tally *tally, uint64_t bytes,
				  uint64_t requested, bool hit)
{
	struct gp_flow *flow = tally->flow;
	struct gp_flow *large = &flow[GP_M_LARGE];

	gp_flow_add(&flow[GP_M_ALLOCATED], bytes);
	gp_flow_add(&flow[GP_M_REQUESTED], requested);
	gp_flow_add(&flow[GP_M_COUNT], 1);
	if (bytes < GP_LARGE_FROM) {
		for (int i = 0; i < GP_M_LARGE && !hit; i++)
			gp_flow_add(&large[i], 0);
	} else if (hit) {
		gp_flow_count(&large[GP_M_ALLOCATED], bytes);
		gp_flow_count(&large[GP_M_REQUESTED], requested);
		gp_flow_count(&large[GP_M_COUNT], 1);
	} else {
		gp_flow_add(&large[GP_M_ALLOCATED], bytes);
		gp_flow_add(&large[GP_M_REQUESTED], requested);
		gp_flow_add(&large[GP_M_COUNT], 1);
	}
}

static inline void gp_tally_free(struct gp_tally *tally, uint64_t bytes,
				 uint64_t requested)
{
	struct gp_flow *flow = tally->flow;

	flow[GP_M_ALLOCATED].level -= (int64_t)bytes;
	flow[GP_M_REQUESTED].level -= (int64_t)requested;
	flow[GP_M_COUNT].level--;
	if (bytes >= GP_LARGE_FROM) {
		flow[GP_M_LARGE + GP_M_ALLOCATED].level -= (int64_t)bytes;
		flow[GP_M_LARGE + GP_M_REQUESTED].level -= (int64_t)requested;
		flow[GP_M_LARGE + GP_M_COUNT].level--;
	}
}

/* ---- under the lock that guards what is given to them ---------------------- */

/* A quantity rose or fell by so much. */
void gp_stat_add(struct gp_stat *stat, uint64_t amount);
void gp_stat_sub(struct gp_stat *stat, uint64_t amount);
/* It is `value` now: what lies between counts as having come or gone. */
void gp_stat_observe(struct gp_stat *stat, uint64_t value);

/* What the tally holds of each measure now. */
void gp_tally_levels(const struct gp_tally *tally, int64_t levels[GP_M_NUM]);

/* Raises the peaks to what they were while this tally stood highest and all
 * the others at `others`. Then the tally is added to the sums and emptied. */
void gp_account_peak(struct gp_account *account, const struct gp_tally *tally,
		     const int64_t others[GP_M_NUM]);
void gp_account_fold(struct gp_account *account, struct gp_tally *tally);

#endif
