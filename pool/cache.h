/*
 * A thread's cache: freed blocks by exact size, for the thread that had them.
 *
 * The hit path of the pool. The owner works under the cache's own lock, one
 * uncontended exchange on its own cache line; it never waits for it. Other
 * threads push what they free onto `remote`, one atomic push, and may empty
 * the cache on a cold path. A cache outlives its thread: blocks name it by
 * number, and the next thread takes it over.
 */
#ifndef GP_POOL_CACHE_H
#define GP_POOL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/account.h"
#include "pool/block.h"
#include "pool/lock.h"
#include "pool/pool.h"

#define GP_CACHES_MAX       1024u /* threads with a cache, a pool */
#define GP_CACHE_POOLS      16u   /* pools a thread has caches of */
#define GP_CACHE_SMALL      (GP_LARGE_FROM >> GP_GRANULE_SHIFT) /* bins */
#define GP_CACHE_LARGE      64u    /* hashed lists of large blocks */
#define GP_CACHE_CHAIN      8u     /* blocks of a list that are looked at */
#define GP_CACHE_MANY       16384u /* small blocks before they are given back */
#define GP_CACHE_MANY_LARGE 128u

struct gp_cache {
	/* 1 while locked. Atomic. The owner tries, and never sleeps for it. */
	uint32_t lock;
	uint32_t number; /* in gp_pool.caches; constant */
	/* Blocks held. Cache's lock; atomic, for others look whether there are
	 * any before they take it. */
	uint32_t small, large;
	struct gp_tally tally; /* cache's lock */

	/* Cache's lock; linked by right. */
	struct gp_block *large_lists[GP_CACHE_LARGE];
	uint64_t large_used;                /* lists that may hold some */
	uint64_t used[GP_CACHE_SMALL / 64]; /* bins that may hold some */
	struct gp_block *bins[GP_CACHE_SMALL];

	/* Atomic stack of blocks that other threads freed. */
	struct gp_block *remote __attribute__((aligned(64)));

	/* The owner's. */
	uint32_t part;     /* of the slabs, slab.h; atomic */
	uint32_t meetings; /* with other threads at the first one's lock */

	uint64_t robbed; /* sizes that other threads took, hashed; atomic */

	/* Pool's lock. */
	uint64_t robbed_until;  /* the driver's clock; see gp_cache_contended */
	struct gp_cache *spare; /* next without a thread */
	void *link;             /* objects.h */
};

/* What a thread knows of its caches: the one it used last, and all by the
 * pool's slot. A serial of 0 is no pool's. */
struct gp_cache_tls {
	uint64_t last_serial;
	struct gp_cache *last;
	struct {
		uint64_t serial; /* of the pool it belongs to */
		struct gp_cache *cache;
	} at[GP_CACHE_POOLS];
	bool exiting; /* its caches were given back */
};

extern __thread struct gp_cache_tls gp_cache_tls;

/* The calling thread's cache, found or made. NULL: work without one. */
struct gp_cache *gp_cache_find(struct gp_pool *pool);

/* What of a cache. Either takes what other threads gave back, too. */
#define GP_CACHE_PART_SMALL 1u
#define GP_CACHE_PART_LARGE 2u
#define GP_CACHE_PART_ALL   3u

/* These parts of the cache as a chain by right; CACHED blocks of whoever calls.
 * Waits for the owner's few instructions. */
struct gp_block *gp_cache_detach(struct gp_cache *cache, unsigned parts);

/* Have other threads freed blocks of this cache? */
static inline bool gp_cache_given_back(const struct gp_cache *cache)
{
	return __atomic_load_n(&cache->remote, __ATOMIC_RELAXED) != NULL;
}

/* Out of line: the rest of gp_cache_drain(). */
bool gp_cache_take_remote(struct gp_cache *cache);

/* What other threads freed comes into the cache. True if there was any. The
 * caller holds its lock. */
static inline bool gp_cache_drain(struct gp_cache *cache)
{
	return gp_cache_given_back(cache) && gp_cache_take_remote(cache);
}

/* Give back what this cache, or every cache of the pool, holds, for the thread
 * of `self` or for none (NULL). Under the pool's lock. True if there was any. */
bool gp_cache_flush(struct gp_pool *pool, struct gp_cache *cache,
		    unsigned parts);
bool gp_cache_flush_all(struct gp_pool *pool, const struct gp_cache *self,
			unsigned parts);

/* The small blocks that its thread freed go back to their slabs. The cache's
 * thread, with no lock held. */
void gp_cache_flush_own(struct gp_pool *pool, struct gp_cache *cache);

/* It was, and cannot do without robbing in turn. Has that happened too often of
 * late? Threads that have one block less than they use at a time would rob each
 * other for ever. Under the pool's lock. */
bool gp_cache_contended(struct gp_pool *pool, struct gp_cache *cache);

/* All tallies go into the pool's sums. Under the pool's lock. */
void gp_cache_publish_all(struct gp_pool *pool, const struct gp_tally *risen);

/* Waits for it, however long. */
void gp_cache_lock_long(struct gp_cache *cache);

/* For a few microseconds, or as long as whoever has the lock lost its core. */
bool gp_cache_try_long(struct gp_cache *cache);

static inline bool gp_cache_try(struct gp_cache *cache)
{
	if (__atomic_exchange_n(&cache->lock, 1, __ATOMIC_ACQUIRE))
		return false;
	gp_rank_enter(GP_RANK_CACHE);
	return true;
}

/* Blocking, for cold paths. */
static inline void gp_cache_lock(struct gp_cache *cache)
{
	if (!gp_cache_try(cache))
		gp_cache_lock_long(cache);
}

static inline void gp_cache_unlock(struct gp_cache *cache)
{
	gp_rank_leave(GP_RANK_CACHE);
	__atomic_store_n(&cache->lock, 0, __ATOMIC_RELEASE);
}

/* 0 to 63, for any size. */
static inline unsigned gp_cache_hash(uint32_t granules)
{
	return (granules * 0x9e3779b1u) >> 26;
}

static inline bool gp_cache_robbed_of(const struct gp_cache *cache,
				      uint32_t granules)
{
	uint64_t robbed = __atomic_load_n(&cache->robbed, __ATOMIC_RELAXED);

	return robbed && robbed >> gp_cache_hash(granules) & 1;
}

/* A thread misses. Did others take such blocks out of its cache, since it was
 * asked last? The cache's thread. */
static inline bool gp_cache_was_robbed(struct gp_cache *cache,
				       uint32_t granules)
{
	uint64_t bit = 1ull << gp_cache_hash(granules);

	if (!gp_cache_robbed_of(cache, granules))
		return false;
	__atomic_and_fetch(&cache->robbed, ~bit, __ATOMIC_RELAXED);
	return true;
}

/* Is there anything to give back? What was freed before is seen; what is just
 * being freed may not be. Any thread. */
static inline bool gp_cache_holds(const struct gp_cache *cache, unsigned parts)
{
	return (parts & GP_CACHE_PART_LARGE &&
		__atomic_load_n(&cache->large, __ATOMIC_RELAXED)) ||
	       (parts & GP_CACHE_PART_SMALL &&
		__atomic_load_n(&cache->small, __ATOMIC_RELAXED)) ||
	       gp_cache_given_back(cache);
}

static inline uint32_t gp_cache_count(uint32_t *held, uint32_t n)
{
	__atomic_store_n(held, n, __ATOMIC_RELAXED);
	return n;
}

/* A block of exactly this size, or NULL. The caller holds the lock. */
static inline struct gp_block *gp_cache_pop(struct gp_cache *cache,
					    uint32_t granules)
{
	struct gp_block **link, *b;

	if (granules < GP_CACHE_SMALL) {
		b = cache->bins[granules];
		if (!b)
			return NULL;
		cache->bins[granules] = b->right;
		gp_cache_count(&cache->small, cache->small - 1);
		return b;
	}
	link = &cache->large_lists[gp_cache_hash(granules)];
	for (unsigned i = 0; (b = *link) && i < GP_CACHE_CHAIN; i++) {
		if (b->granules == granules) {
			*link = b->right;
			gp_cache_count(&cache->large, cache->large - 1);
			return b;
		}
		link = &b->right;
	}
	return NULL;
}

/* A CACHED block comes in. True when there are too many now. The caller holds
 * the lock. */
static inline bool gp_cache_push(struct gp_cache *cache, struct gp_block *b)
{
	uint32_t granules = b->granules;
	struct gp_block **list;
	unsigned hash;

	if (granules < GP_CACHE_SMALL) {
		list = &cache->bins[granules];
		if (!*list)
			cache->used[granules / 64] |= 1ull << granules % 64;
		b->right = *list;
		*list = b;
		return gp_cache_count(&cache->small, cache->small + 1) >
		       GP_CACHE_MANY;
	}
	hash = gp_cache_hash(granules);
	list = &cache->large_lists[hash];
	cache->large_used |= 1ull << hash;
	b->right = *list;
	*list = b;
	return gp_cache_count(&cache->large, cache->large + 1) >
	       GP_CACHE_MANY_LARGE;
}

/* Another thread gives a CACHED block to the cache it came from. */
static inline void gp_cache_push_remote(struct gp_cache *cache,
					struct gp_block *b)
{
	struct gp_block *head =
		__atomic_load_n(&cache->remote, __ATOMIC_RELAXED);

	do
		b->right = head;
	while (!__atomic_compare_exchange_n(&cache->remote, &head, b, true,
					    __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED));
}

#endif
