/*
 * The pool's state: every part in one struct, with its guard.
 */
#ifndef GP_POOL_STATE_H
#define GP_POOL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/account.h"
#include "pool/arena.h"
#include "pool/backing.h"
#include "pool/cache.h"
#include "pool/calls.h"
#include "pool/lock.h"
#include "pool/notes.h"
#include "pool/order.h"
#include "pool/pool.h"
#include "pool/ranges.h"
#include "pool/registry.h"
#include "pool/slab.h"
#include "stats/timeline.h"

/*
 * Parts of the arena that never mix. What is small often lives long: apart
 * from large blocks it does not hold on to large handles.
 */
enum gp_region_kind { GP_REGION_LARGE, GP_REGION_SLABS, GP_NUM_REGIONS };

struct gp_region {
	uint64_t first, end;     /* granules; constant */
	struct gp_ranges ranges; /* free */
	struct gp_block *vacant; /* address space without memory, a list */
};

struct gp_pool {
	/* Constant after gp_pool_create(). */
	struct gp_driver driver;
	struct gp_pool_config config;
	bool has_vmm;    /* virtual memory, else plain segments */
	bool rounds;     /* roundup_power2_divisions is set */
	bool aids;       /* see aids.h */
	uint64_t serial; /* never the same for two pools */
	unsigned slot;   /* in the registry, shared by none alive */
	uint64_t base;   /* address of granule 0; 0 with segments */
	uint64_t arena_bytes;
	uint64_t born;        /* the driver's clock at creation */
	uint64_t plain_below; /* sizes less 1 that the hit path takes */

	/* Read by lookups without a lock, changed under `lock`. */
	struct gp_arena arena;
	struct gp_backing backing;

	/* Atomic. */
	struct gp_order order;
	struct gp_call_counters counters;
	bool check_failed;    /* told already */
	bool leaves;          /* its context does; atomic */
	uint32_t num_aside;   /* blocks on `aside` */
	uint32_t num_caches;  /* entries of `caches`, the first is unused */
	uint64_t tally_slack; /* a tally that rose so far is published */
	uint64_t allocated;   /* published, for events */
	uint64_t reserved;
	struct gp_cache *caches[GP_CACHES_MAX]; /* entries never change */

	struct gp_lock lock;   /* guards all below */
	pthread_cond_t landed; /* an operation in flight has ended */
	struct gp_region regions[GP_NUM_REGIONS];
	struct gp_slabs slabs;
	struct gp_notes notes;
	struct gp_block *stuck; /* STUCK, linked by right */
	struct gp_block *aside; /* SET_ASIDE, linked by right */
	struct gp_account account;
	struct gp_tally tally;       /* of threads without a cache */
	struct gp_timeline timeline; /* a point whenever tallies are added up */
	struct gp_objects cache_objects;
	struct gp_cache *spare_caches; /* their threads are gone */
	uint64_t clock;                /* the driver's, when last looked at */
	uint64_t move_ns;              /* spent on growth that moved memory */
	unsigned in_flight; /* operations with HELD tiles outside the lock */
	unsigned releasing; /* those of them that give memory back */
	bool granting;      /* they wait for grant.c before they begin */
	uint64_t landings;  /* such operations that have ended */

	/* Atomic: returns to the slabs (flight.h), and who waits for one. */
	uint64_t returns_begun, returns_ended;
	uint32_t awaiting_returns;
};

static inline struct gp_region *gp_pool_region(struct gp_pool *pool,
					       const struct gp_block *b)
{
	struct gp_region *region = &pool->regions[GP_REGION_LARGE];

	while (gp_block_granule(b) >= region->end)
		region++;
	return region;
}

/* Tiles on either side of the start of b may be one, as far as regions go. */
static inline bool gp_pool_same_region(struct gp_pool *pool,
				       const struct gp_block *b)
{
	return gp_block_granule(b) != gp_pool_region(pool, b)->first;
}

/* The handle mapped at a granule, or NULL. Any thread. */
static inline struct gp_handle *gp_backing_at(const struct gp_pool *pool,
					      uint64_t granule)
{
	const struct gp_backing *backing = &pool->backing;

	return __atomic_load_n(&backing->map[granule >> backing->chunk_shift],
			       __ATOMIC_ACQUIRE);
}

/* The address of a granule that is backed. */
static inline uint64_t gp_pool_address(const struct gp_pool *pool,
				       uint64_t granule)
{
	if (pool->has_vmm)
		return pool->base + (granule << GP_GRANULE_SHIFT);
	const struct gp_handle *h = gp_backing_at(pool, granule);

	return h->id + ((granule - h->granule) << GP_GRANULE_SHIFT);
}

/* The way back: the granule of an address, and the bytes beyond its start.
 * False if the address is not in the pool. */
static inline bool gp_pool_granule(const struct gp_pool *pool, uint64_t va,
				   uint64_t *granule, uint64_t *beyond)
{
	uint64_t offset = va - pool->base;

	*beyond = va & ((1u << GP_GRANULE_SHIFT) - 1);
	*granule = offset >> GP_GRANULE_SHIFT;
	if (__builtin_expect(pool->has_vmm, 1))
		return offset < pool->arena_bytes;
	const struct gp_handle *h = gp_registry_segment(va);

	if (!h || h->pool != pool)
		return false;
	*granule = h->granule + ((va - h->id) >> GP_GRANULE_SHIFT);
	return true;
}

#endif
