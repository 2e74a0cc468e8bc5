/*
 * Allocate and free: the straight way through, and where it leaves it.
 *
 * A hit touches the thread's cache, the block's descriptor and one word of
 * the arena's table. Ownership of an address is tested by that word and one
 * compare and swap on the descriptor, which is also what makes a second free
 * fail: no lock.
 */
#include <errno.h>

#include "pool/aids.h"
#include "pool/cache.h"
#include "pool/reclaim.h"
#include "pool/serve.h"
#include "pool/state.h"
#include "stats/log.h"
#include "stats/ring.h"
#include "stats/sites.h"

#define cold        __attribute__((noinline, cold))
#define hot         inline __attribute__((always_inline))
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* roundup_power2_divisions: up to the next of N steps between powers of two. */
static cold uint64_t round_divisions(const struct gp_pool *pool, uint64_t bytes)
{
	unsigned log = 63 - (unsigned)__builtin_clzll(bytes);
	unsigned slot = log > 20 ? log - 20 : 0;
	uint64_t n = pool->config.roundup_power2_divisions
			     [slot < GP_DIVISIONS ? slot : GP_DIVISIONS - 1];
	uint64_t step = n ? (1ull << log) / n : 0;

	if (n <= 1 || bytes <= GP_ALIGN_SMALL * n || step == 0)
		return bytes;
	return (bytes + step - 1) / step * step;
}

static hot uint32_t round_plain(uint64_t bytes)
{
	if (likely(bytes < GP_LARGE_FROM))
		return (uint32_t)((bytes + GP_ALIGN_SMALL - 1) >>
				  GP_GRANULE_SHIFT);
	return (uint32_t)((bytes + GP_ALIGN_LARGE - 1) >> GP_UNIT_SHIFT) *
	       GP_UNIT_GRANULES;
}

/* Granules to serve, or 0 if no pool could. */
static uint32_t round_request(const struct gp_pool *pool, uint64_t bytes)
{
	if (bytes == 0 || bytes > pool->arena_bytes)
		return 0;
	return round_plain(pool->rounds ? round_divisions(pool, bytes) : bytes);
}

static hot struct gp_cache *cache_of(struct gp_pool *pool)
{
	struct gp_cache_tls *tls = &gp_cache_tls;

	if (likely(tls->last_serial == pool->serial))
		return tls->last;
	return gp_cache_find(pool);
}

/* Under the lock that guards the tally. */
static hot void note(const struct gp_pool *pool, const struct gp_tally *tally,
		     enum gp_ring_kind kind, const struct gp_block *b,
		     uint64_t va, uint64_t requested)
{
	gp_ring_add(kind, pool->driver.device, va, requested, gp_block_bytes(b),
		    __atomic_load_n(&pool->allocated, __ATOMIC_RELAXED) +
			    (uint64_t)tally->flow[GP_M_ALLOCATED].level,
		    __atomic_load_n(&pool->reserved, __ATOMIC_RELAXED));
}

/* The block is the program's now; `hit`: it was the thread's. Under the lock that
 * guards the tally. */
static hot void hand_out(const struct gp_pool *pool, struct gp_tally *tally,
			 struct gp_block *b, uint64_t va, uint64_t bytes,
			 enum gp_state live, bool hit)
{
	gp_tally_alloc(tally, gp_block_bytes(b), bytes, hit);
	note(pool, tally, GP_RING_alloc, b, va, bytes);
	__atomic_store_n(&b->requested, bytes, __ATOMIC_RELAXED);
	gp_block_set_state(b, live);
}

/* The block is not the program's any more, and nobody else's yet. Under the
 * lock that guards the tally. */
static hot void take_back(const struct gp_pool *pool, struct gp_tally *tally,
			  const struct gp_block *b, uint64_t va)
{
	gp_tally_free(tally, gp_block_bytes(b), b->requested);
	note(pool, tally, GP_RING_free, b, va, b->requested);
}

/* ---- allocate ----------------------------------------------------------------- */

static int refuse(struct gp_pool *pool, int rc)
{
	gp_lock(&pool->lock);
	if (rc == -ENOMEM)
		pool->account.ooms++;
	gp_unlock(&pool->lock);
	return rc;
}

static bool rose_far(const struct gp_pool *pool, const struct gp_tally *tally)
{
	return tally->flow[GP_M_ALLOCATED].high >
	       (int64_t)__atomic_load_n(&pool->tally_slack, __ATOMIC_RELAXED);
}

static cold void publish(struct gp_pool *pool, struct gp_cache *cache)
{
	gp_lock(&pool->lock);
	gp_cache_publish_all(pool, &cache->tally);
	gp_unlock(&pool->lock);
}

/* The last of an allocation that was no hit. Unlocks the cache. */
static hot void rise(struct gp_pool *pool, struct gp_cache *cache)
{
	bool far = rose_far(pool, &cache->tally);

	gp_cache_unlock(cache);
	if (unlikely(far))
		publish(pool, cache);
}

/* A block that the hit path did not find. `own`: it was the thread's all the
 * same, so its level is no higher than it was before. */
static void finish(struct gp_pool *pool, struct gp_cache *cache,
		   struct gp_block *b, bool own, uint64_t bytes, uint64_t *va)
{
	uint32_t watched = pool->aids ? GP_WATCHED : 0;
	enum gp_state live = gp_aids_live(pool);
	uint64_t address = gp_pool_address(pool, gp_block_granule(b));

	*va = address + gp_aids_front(pool, bytes);
	if (!cache) {
		gp_block_set_owner(b, watched);
		gp_lock(&pool->lock);
		hand_out(pool, &pool->tally, b, address, bytes, live, false);
		gp_unlock(&pool->lock);
		return;
	}
	gp_block_set_owner(b, cache->number | watched);
	gp_cache_lock(cache);
	hand_out(pool, &cache->tally, b, address, bytes, live, own);
	if (own)
		gp_cache_unlock(cache);
	else
		rise(pool, cache);
}

/* A block of the thread's own cache: somebody had its lock, or others gave the
 * block back. *own: they gave none. */
static struct gp_block *pop_slowly(struct gp_pool *pool, struct gp_cache *cache,
				   uint32_t granules, bool *own)
{
	struct gp_block *b;

	gp_cache_lock(cache);
	*own = !gp_cache_drain(cache);
	b = gp_cache_pop(cache, granules);
	gp_cache_unlock(cache);
	if (!b || gp_order_reissue(&pool->order, b->stamp) ||
	    gp_order_await(&pool->order, b->stamp))
		return b;
	gp_reclaim_set_aside(pool, b);
	return NULL;
}

/* The option `check`: after every step, one line for the first fault. */
static cold void check_step(struct gp_pool *pool)
{
	char why[160];

	if (gp_pool_check(pool, why, sizeof(why)) &&
	    !__atomic_exchange_n(&pool->check_failed, true, __ATOMIC_RELAXED))
		gp_warn("internal: %s", why);
}

/* The option `zero_memory`, and red zones. A block that could not be filled is
 * not served. */
static cold int fill(struct gp_pool *pool, struct gp_block *b, uint64_t va,
		     uint64_t bytes)
{
	int rc = gp_aids_handed_out(pool, va, bytes);

	if (rc) { /* without a look at what was not written */
		__atomic_and_fetch(&b->owner, ~GP_WATCHED, __ATOMIC_RELAXED);
		gp_pool_free_own(pool, va);
	}
	return rc;
}

/* Everything but the plain hit. */
static cold int miss(struct gp_pool *pool, uint64_t bytes, uint64_t *va)
{
	struct gp_cache *cache = cache_of(pool);
	struct gp_block *b = NULL;
	uint32_t granules;
	bool own = false;
	uint64_t at;
	int rc;

	if (bytes == 0)
		return -EINVAL;
	granules = bytes > pool->arena_bytes
			   ? 0
			   : round_request(pool,
					   bytes + gp_aids_around(pool, bytes));
	if (granules == 0)
		return refuse(pool, -ENOMEM);
	if (cache)
		b = pop_slowly(pool, cache, granules, &own);
	if (!b) {
		own = false;
		rc = gp_serve(pool, cache, granules, &b);
		if (rc)
			return refuse(pool, rc);
	}
	finish(pool, cache, b, own, bytes, &at);
	if (pool->config.check)
		check_step(pool);
	if (fill(pool, b, at, bytes))
		return -EIO;
	*va = at;
	return 0;
}

/* The end of an allocation with nothing unusual. Unlocks the cache. */
static hot void finish_plain(struct gp_pool *pool, struct gp_cache *cache,
			     struct gp_block *b, bool own, uint64_t bytes,
			     uint64_t *va)
{
	*va = pool->base + (gp_block_granule(b) << GP_GRANULE_SHIFT);
	hand_out(pool, &cache->tally, b, *va, bytes, GP_LIVE, own);
	if (own)
		gp_cache_unlock(cache);
	else
		rise(pool, cache);
}

static __attribute__((noinline)) int miss_plain(struct gp_pool *pool,
						struct gp_cache *cache,
						uint64_t bytes, uint64_t *va)
{
	struct gp_block *b;
	int rc = gp_serve(pool, cache, round_plain(bytes), &b);

	if (unlikely(rc))
		return refuse(pool, rc);
	gp_block_set_owner(b, cache->number);
	gp_cache_lock(cache);
	finish_plain(pool, cache, b, false, bytes, va);
	return 0;
}

/* Others gave blocks back, or later work is not ordered behind the last use of
 * `b` yet. */
static __attribute__((noinline)) int hit_slowly(struct gp_pool *pool,
						struct gp_cache *cache,
						struct gp_block *b,
						uint64_t bytes, uint64_t *va)
{
	bool own = b || !gp_cache_drain(cache);

	if (!own)
		b = gp_cache_pop(cache, round_plain(bytes));
	if (b && gp_order_reissue(&pool->order, b->stamp)) {
		finish_plain(pool, cache, b, own, bytes, va);
		return 0;
	}
	if (b)
		gp_cache_push(cache, b);
	gp_cache_unlock(cache);
	return b ? miss(pool, bytes, va) : miss_plain(pool, cache, bytes, va);
}

/* The cache, whose lock the caller has, held no such block, or `b`, which cannot
 * be had so quickly. */
static __attribute__((noinline)) int no_hit(struct gp_pool *pool,
					    struct gp_cache *cache,
					    struct gp_block *b, uint64_t bytes,
					    uint64_t *va)
{
	if (b || gp_cache_given_back(cache))
		return hit_slowly(pool, cache, b, bytes, va);
	gp_cache_unlock(cache);
	return miss_plain(pool, cache, bytes, va);
}

/* The hit. Whatever else is the case is left to others, as a tail call. */
int gp_pool_alloc(struct gp_pool *pool, uint64_t bytes, uint64_t *va)
{
	struct gp_cache_tls *tls = &gp_cache_tls;
	struct gp_cache *cache = tls->last;
	struct gp_block *b;

	if (unlikely(bytes - 1 >= pool->plain_below ||
		     tls->last_serial != pool->serial || !gp_cache_try(cache)))
		return miss(pool, bytes, va);
	b = gp_cache_pop(cache, round_plain(bytes));
	if (unlikely(!b || !gp_order_ready(&pool->order, b->stamp)))
		return no_hit(pool, cache, b, bytes, va);
	*va = pool->base + (gp_block_granule(b) << GP_GRANULE_SHIFT);
	hand_out(pool, &cache->tally, b, *va, bytes, GP_LIVE, true);
	gp_cache_unlock(cache);
	return 0;
}

/* ---- free ------------------------------------------------------------------------ */

/* The block that starts at va, whatever its state; *granule: where that is. */
static hot struct gp_block *block_at(const struct gp_pool *pool, uint64_t va,
				     uint64_t *granule)
{
	struct gp_slab *slab;
	struct gp_block *b;
	uint64_t beyond;

	if (!gp_pool_granule(pool, va, granule, &beyond) || beyond)
		return NULL;
	b = gp_arena_at(&pool->arena, *granule, &slab);
	return slab ? gp_slab_at(slab, *granule) : b;
}

/* Takes a block of that state from the program; NULL if none starts at va. */
static hot struct gp_block *claim(const struct gp_pool *pool, uint64_t va,
				  enum gp_state state)
{
	uint64_t granule;
	struct gp_block *b = block_at(pool, va, &granule);
	uint64_t live = gp_tag(granule, state);

	if (!b || !__atomic_compare_exchange_n(
			  &b->tag, &live, gp_tag(granule, GP_CACHED), false,
			  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return NULL;
	return b;
}

/* A block that was watched: it is told before anybody can get it again. `va` is
 * where the block begins, not what the program got. */
static cold uint32_t unwatch(struct gp_pool *pool, struct gp_block *b,
			     uint64_t va, bool idle)
{
	uint32_t owner = b->owner & ~GP_WATCHED;

	va += gp_aids_front(pool, b->requested);
	gp_block_set_owner(b, owner);
	if (pool->aids)
		gp_aids_freed(pool, b, va, idle);
	gp_sites_remove(va);
	return owner;
}

/* The same for one that notes.h knows more of; *lent: other processes have it
 * mapped. *at becomes where the block begins, as events and layouts tell it. */
static cold struct gp_block *claim_noted(struct gp_pool *pool, uint64_t *at,
					 bool *lent)
{
	uint64_t granule, beyond, base, bytes;
	struct gp_block *b;

	if (pool->config.guard) {
		if (gp_pool_find(pool, *at, &base, &bytes) || base != *at)
			return NULL;
		*at -= gp_aids_front(pool, bytes);
		b = claim(pool, *at, GP_GUARDED);
		if (b)
			return b;
	}
	if (!gp_pool_granule(pool, *at, &granule, &beyond) || beyond)
		return NULL;
	return gp_notes_claim(pool, granule, lent);
}

/* Past the caches. */
static cold void put_central(struct gp_pool *pool, struct gp_block *b)
{
	gp_lock(&pool->lock);
	gp_reclaim_block(pool, b);
	gp_unlock(&pool->lock);
	if (pool->config.cache_policy == GP_CACHE_NONE)
		gp_reclaim_release(pool, UINT64_MAX, UINT64_MAX);
}

static cold void overflow(struct gp_pool *pool, struct gp_cache *cache,
			  bool large)
{
	if (!large) {
		gp_cache_flush_own(pool, cache);
		return;
	}
	gp_lock(&pool->lock);
	gp_cache_flush(pool, cache, GP_CACHE_PART_LARGE);
	gp_unlock(&pool->lock);
}

/* The books when the cache is busy, or there is none. */
static cold void count_free(struct gp_pool *pool, struct gp_block *b,
			    uint64_t va, uint64_t waits)
{
	gp_lock(&pool->lock);
	take_back(pool, &pool->tally, b, va);
	pool->tally.waits += waits;
	gp_unlock(&pool->lock);
}

/* Not known idle: aside until a wait covers it. */
static cold void put_aside(struct gp_pool *pool, struct gp_block *b,
			   uint64_t va)
{
	count_free(pool, b, va, 0);
	if (b->owner & GP_WATCHED)
		unwatch(pool, b, va, false);
	gp_reclaim_set_aside(pool, b);
}

/* Into the thread's own cache, whose lock it has. */
static hot void put_own(struct gp_pool *pool, struct gp_cache *cache,
			struct gp_block *b, uint64_t va, uint64_t waits)
{
	bool large = b->granules >= GP_CACHE_SMALL;
	bool full;

	take_back(pool, &cache->tally, b, va);
	cache->tally.waits += waits;
	full = gp_cache_push(cache, b);
	gp_cache_unlock(cache);
	if (unlikely(full))
		overflow(pool, cache, large);
}

/* The thread has no cache yet, or it is busy, or another has the block. */
static __attribute__((noinline)) void put_slowly(struct gp_pool *pool,
						 struct gp_block *b,
						 uint64_t va, uint64_t waits)
{
	struct gp_cache *cache = cache_of(pool);
	uint32_t owner = b->owner;

	/* Not past a busy cache: a block given back as another thread's would
	 * keep the next allocation from its hit. */
	if (cache && (gp_cache_try(cache) || gp_cache_try_long(cache))) {
		if (owner == cache->number) {
			put_own(pool, cache, b, va, waits);
			return;
		}
		take_back(pool, &cache->tally, b, va);
		cache->tally.waits += waits;
		gp_cache_unlock(cache);
	} else {
		count_free(pool, b, va, waits);
	}
	if (unlikely(owner & GP_WATCHED))
		owner = unwatch(pool, b, va, true);
	if (likely(owner))
		gp_cache_push_remote(pool->caches[owner], b);
	else
		put_central(pool, b);
}

/* An idle block to where it came from. */
static hot void put(struct gp_pool *pool, struct gp_block *b, uint64_t va,
		    uint64_t waits)
{
	struct gp_cache_tls *tls = &gp_cache_tls;
	struct gp_cache *cache = tls->last;

	if (likely(tls->last_serial == pool->serial &&
		   b->owner == cache->number && gp_cache_try(cache)))
		put_own(pool, cache, b, va, waits);
	else
		put_slowly(pool, b, va, waits);
}

/* It comes back when the last of those processes lets go. */
static cold void lend(struct gp_pool *pool, struct gp_block *b, uint64_t va)
{
	count_free(pool, b, va, 0);
	if (b->owner & GP_WATCHED)
		unwatch(pool, b, va, false);
	gp_notes_lend(pool, b);
}

static cold void after_free(struct gp_pool *pool)
{
	gp_reclaim_aside(pool);
	if (pool->config.check)
		check_step(pool);
}

static hot int free_block(struct gp_pool *pool, uint64_t va,
			  enum gp_free_how how)
{
	struct gp_block *b = claim(pool, va, GP_LIVE);
	bool lent = false;
	uint64_t waits;
	int rc;

	if (unlikely(!b)) {
		uint64_t at = va; /* else va would be in no register */

		b = claim_noted(pool, &at, &lent);
		if (!b)
			return -ENOENT;
		va = at;
		__atomic_thread_fence(__ATOMIC_SEQ_CST); /* [1] */
	}
	rc = gp_order_free(&pool->order, how, &b->stamp, &waits);
	if (unlikely(lent)) {
		lend(pool, b, va);
		return rc;
	}
	if (gp_order_keeps_back(&pool->order, b->stamp)) {
		put_aside(pool, b, va);
		return rc;
	}
	put(pool, b, va, waits);
	if (unlikely(__atomic_load_n(&pool->num_aside, __ATOMIC_RELAXED) |
		     pool->config.check))
		after_free(pool);
	return 0;
}

int gp_pool_free(struct gp_pool *pool, uint64_t va)
{
	return free_block(pool, va, GP_FREE_FULL);
}

int gp_pool_free_own(struct gp_pool *pool, uint64_t va)
{
	return free_block(pool, va, GP_FREE_OWN);
}

void gp_pool_watch(struct gp_pool *pool, uint64_t va)
{
	uint64_t granule;
	struct gp_block *b = block_at(pool, va, &granule);

	if (b && __atomic_load_n(&b->tag, __ATOMIC_RELAXED) ==
			 gp_tag(granule, GP_LIVE))
		__atomic_or_fetch(&b->owner, GP_WATCHED, __ATOMIC_RELAXED);
}

int gp_pool_free_idle(struct gp_pool *pool, uint64_t va)
{
	struct gp_block *b = claim(pool, va, GP_LIVE);
	bool lent = false;

	if (!b)
		b = claim_noted(pool, &va, &lent);
	if (!b)
		return -ENOENT;
	if (lent)
		lend(pool, b, va);
	else
		put(pool, b, va, 0);
	if (unlikely(pool->config.check))
		check_step(pool);
	return 0;
}
