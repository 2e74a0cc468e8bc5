/* Threads' caches: the cold side; see cache.h. */
#include "pool/cache.h"

#include <sched.h>
#include <time.h>

#include "pool/flight.h"
#include "pool/reclaim.h"
#include "pool/registry.h"
#include "pool/state.h"

/* How often a lock is looked at before the thread sleeps for it. */
#define SPINS           64
#define YIELDS          64

/* A thread that is robbed up to so many times in a row robs in turn, and once
 * in so many ns for ever: less than it costs. */
#define ROBBED_IN_A_ROW 16
#define ROBBED_NS       1000000ull

__thread struct gp_cache_tls gp_cache_tls;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* runs give_back() when a thread ends */
static bool have_key;

static void pause_core(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

__attribute__((noinline, cold)) bool gp_cache_try_long(struct gp_cache *cache)
{
	for (unsigned i = 0; i < SPINS + YIELDS; i++) {
		if (i < SPINS)
			pause_core();
		else
			sched_yield();
		if (!__atomic_load_n(&cache->lock, __ATOMIC_RELAXED) &&
		    gp_cache_try(cache))
			return true;
	}
	return false;
}

__attribute__((noinline, cold)) void gp_cache_lock_long(struct gp_cache *cache)
{
	const struct timespec nap = {.tv_nsec = 50000};

	while (!gp_cache_try_long(cache))
		nanosleep(&nap, NULL);
}

/* ---- life -------------------------------------------------------------------- */

/* The thread's caches wait for other threads. */
static void give_back(void *arg)
{
	struct gp_cache_tls *tls = arg;

	tls->exiting = true;
	tls->last_serial = 0;
	gp_registry_lock();
	for (unsigned i = 0; i < GP_CACHE_POOLS; i++) {
		struct gp_pool *pool = gp_registry_find(tls->at[i].serial);
		struct gp_cache *cache = tls->at[i].cache;

		tls->at[i].serial = 0;
		if (!pool)
			continue;
		gp_lock(&pool->lock);
		gp_cache_flush(pool, cache, GP_CACHE_PART_ALL);
		cache->spare = pool->spare_caches;
		pool->spare_caches = cache;
		gp_unlock(&pool->lock);
	}
	gp_registry_unlock();
}

static void make_key(void)
{
	have_key = pthread_key_create(&key, give_back) == 0;
}

/* A new cache, or one whose thread is gone. Under the pool's lock. */
static struct gp_cache *obtain(struct gp_pool *pool)
{
	struct gp_cache *cache = pool->spare_caches;
	uint32_t n = pool->num_caches;

	if (cache) {
		pool->spare_caches = cache->spare;
		cache->spare = NULL;
		return cache;
	}
	if (n == GP_CACHES_MAX)
		return NULL;
	cache = gp_objects_get(&pool->cache_objects);
	if (!cache)
		return NULL;
	cache->number = n;
	__atomic_store_n(&pool->caches[n], cache, __ATOMIC_RELEASE);
	__atomic_store_n(&pool->num_caches, n + 1, __ATOMIC_RELEASE);
	return cache;
}

/* The thread's first use of this pool. */
static struct gp_cache *make(struct gp_pool *pool)
{
	struct gp_cache_tls *tls = &gp_cache_tls;
	struct gp_cache *cache;

	pthread_once(&once, make_key);
	if (!have_key || pthread_setspecific(key, tls))
		return NULL;
	gp_lock(&pool->lock);
	cache = obtain(pool);
	gp_unlock(&pool->lock);
	if (!cache)
		return NULL;
	tls->at[pool->slot].serial = pool->serial;
	tls->at[pool->slot].cache = cache;
	return cache;
}

struct gp_cache *gp_cache_find(struct gp_pool *pool)
{
	struct gp_cache_tls *tls = &gp_cache_tls;
	struct gp_cache *cache;

	if (tls->exiting || pool->slot >= GP_CACHE_POOLS ||
	    pool->config.cache_policy == GP_CACHE_NONE)
		return NULL;
	cache = tls->at[pool->slot].serial == pool->serial
			? tls->at[pool->slot].cache
			: make(pool);
	if (cache) {
		tls->last = cache;
		tls->last_serial = pool->serial;
	}
	return cache;
}

/* ---- contents --------------------------------------------------------------- */

/* Moves a list to the front of a chain. */
static void prepend(struct gp_block **chain, struct gp_block **list)
{
	struct gp_block *last = *list;

	if (!last)
		return;
	while (last->right)
		last = last->right;
	last->right = *chain;
	*chain = *list;
	*list = NULL;
}

static struct gp_block *take_remote(struct gp_cache *cache)
{
	if (!__atomic_load_n(&cache->remote, __ATOMIC_RELAXED))
		return NULL;
	return __atomic_exchange_n(&cache->remote, NULL, __ATOMIC_ACQUIRE);
}

bool gp_cache_take_remote(struct gp_cache *cache)
{
	struct gp_block *b = take_remote(cache);
	bool any = b != NULL;

	while (b) {
		struct gp_block *next = b->right;

		gp_cache_push(cache, b);
		b = next;
	}
	return any;
}

static void detach_small(struct gp_cache *cache, struct gp_block **chain)
{
	for (unsigned i = 0; i < GP_CACHE_SMALL / 64; i++) {
		uint64_t word = cache->used[i];

		cache->used[i] = 0;
		for (; word; word &= word - 1) {
			unsigned bit = (unsigned)__builtin_ctzll(word);

			prepend(chain, &cache->bins[i * 64 + bit]);
		}
	}
	gp_cache_count(&cache->small, 0);
}

static void detach_large(struct gp_cache *cache, struct gp_block **chain)
{
	uint64_t word = cache->large_used;

	for (; word; word &= word - 1)
		prepend(chain, &cache->large_lists[__builtin_ctzll(word)]);
	cache->large_used = 0;
	gp_cache_count(&cache->large, 0);
}

struct gp_block *gp_cache_detach(struct gp_cache *cache, unsigned parts)
{
	struct gp_block *chain = NULL;
	struct gp_block *remote;

	gp_cache_lock(cache);
	if (parts & GP_CACHE_PART_LARGE)
		detach_large(cache, &chain);
	if ((parts & GP_CACHE_PART_SMALL) && cache->small)
		detach_small(cache, &chain);
	gp_cache_unlock(cache);
	remote = take_remote(cache);
	prepend(&chain, &remote);
	return chain;
}

/* The sizes given back, hashed. */
static uint64_t give_all(struct gp_pool *pool, struct gp_block *b)
{
	uint64_t sizes = 0;

	while (b) {
		struct gp_block *next = b->right;

		b->right = NULL;
		sizes |= 1ull << gp_cache_hash(b->granules);
		gp_reclaim_block(pool, b);
		b = next;
	}
	return sizes;
}

/* The same of this cache. *freed: what its own thread freed, and may want back;
 * of the rest it knows nothing yet. */
static uint64_t flush(struct gp_pool *pool, struct gp_cache *cache,
		      unsigned parts, uint64_t *freed)
{
	uint64_t remote = give_all(pool, take_remote(cache));

	*freed = give_all(pool, gp_cache_detach(cache, parts));
	return remote | *freed;
}

bool gp_cache_flush(struct gp_pool *pool, struct gp_cache *cache,
		    unsigned parts)
{
	uint64_t freed;

	return flush(pool, cache, parts, &freed) != 0;
}

void gp_cache_flush_own(struct gp_pool *pool, struct gp_cache *cache)
{
	struct gp_block *chain = NULL;

	gp_flight_return_begins(pool);
	gp_cache_lock(cache);
	if (cache->small)
		detach_small(cache, &chain);
	gp_cache_unlock(cache);
	gp_slab_give_chain(pool, chain);
	gp_flight_return_ended(pool);
}

bool gp_cache_flush_all(struct gp_pool *pool, const struct gp_cache *self,
			unsigned parts)
{
	bool any = false;

	for (uint32_t i = 1; i < pool->num_caches; i++) {
		struct gp_cache *cache = pool->caches[i];
		uint64_t freed;

		if (!gp_cache_holds(cache, parts))
			continue;
		any |= flush(pool, cache, parts, &freed) != 0;
		if (self && cache != self)
			__atomic_or_fetch(&cache->robbed, freed,
					  __ATOMIC_RELAXED);
	}
	return any;
}

bool gp_cache_contended(struct gp_pool *pool, struct gp_cache *cache)
{
	uint64_t now = gp_call_now(pool);

	if (cache->robbed_until < now)
		cache->robbed_until = now;
	if (cache->robbed_until > now + ROBBED_IN_A_ROW * ROBBED_NS)
		return true;
	cache->robbed_until += ROBBED_NS;
	return false;
}

/* ---- tallies ----------------------------------------------------------------- */

static struct gp_tally *tally_of(struct gp_pool *pool, uint32_t i)
{
	return i ? &pool->caches[i]->tally : &pool->tally;
}

/* The tally whose highest level counts: the one that just rose; without one,
 * the only one that moved. The highest levels of several are of different
 * moments: together they would make a peak that never was. NULL: none. */
static const struct gp_tally *highest(struct gp_pool *pool, uint32_t n,
				      const struct gp_tally *risen)
{
	const struct gp_tally *only = NULL;

	if (risen)
		return risen;
	for (uint32_t i = 0; i < n; i++) {
		const struct gp_tally *tally = tally_of(pool, i);

		if (!tally->flow[GP_M_COUNT].added &&
		    !tally->flow[GP_M_COUNT].level)
			continue;
		if (only)
			return NULL;
		only = tally;
	}
	return only;
}

/* Every tally at one moment: all caches are locked together. */
void gp_cache_publish_all(struct gp_pool *pool, const struct gp_tally *risen)
{
	int64_t levels[GP_M_NUM], total[GP_M_NUM];
	static const struct gp_tally level;
	uint32_t n = pool->num_caches;

	gp_tally_levels(&pool->tally, total);
	for (uint32_t i = 1; i < n; i++) {
		gp_cache_lock(pool->caches[i]);
		gp_tally_levels(&pool->caches[i]->tally, levels);
		for (int m = 0; m < GP_M_NUM; m++)
			total[m] += levels[m];
	}
	gp_account_peak(&pool->account, &level, total);
	risen = highest(pool, n, risen);
	if (risen) {
		gp_tally_levels(risen, levels);
		for (int m = 0; m < GP_M_NUM; m++)
			levels[m] = total[m] - levels[m];
		gp_account_peak(&pool->account, risen, levels);
	}
	gp_account_fold(&pool->account, &pool->tally);
	for (uint32_t i = 1; i < n; i++)
		gp_account_fold(&pool->account, &pool->caches[i]->tally);
	__atomic_store_n(&pool->allocated,
			 pool->account.sum[GP_M_ALLOCATED].current,
			 __ATOMIC_RELAXED);
	for (uint32_t i = 1; i < n; i++)
		gp_cache_unlock(pool->caches[i]);
	gp_timeline_add(&pool->timeline, gp_call_now(pool),
			pool->account.sum[GP_M_ALLOCATED].current,
			pool->account.reserved.current);
	__atomic_store_n(&pool->tally_slack,
			 GP_LARGE_FROM + pool->account.most_live / 256,
			 __ATOMIC_RELAXED);
}
