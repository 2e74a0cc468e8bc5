/*
 * The pool's front: what pool.h promises, put together from the parts.
 */
#include "pool/pool.h"

#include <errno.h>
#include <sys/mman.h>

#include "pool/aids.h"
#include "pool/large.h"
#include "pool/reclaim.h"
#include "pool/registry.h"
#include "pool/state.h"
#include "stats/sites.h"

/* Address space per byte of memory: room for ranges to move and grow. */
#define ARENA_FACTOR 8

void gp_pool_config_init(struct gp_pool_config *config)
{
	*config = (struct gp_pool_config){
		.expandable_segments = true,
		.cache_policy = GP_CACHE_DECAY,
		.decay_ms = 10000,
		.growth_factor = 1.0,
		.overlap_slack = 0.01,
		.large_segment_size = 20u << 20,
		.max_split_size = UINT64_MAX,
		.max_non_split_rounding = 20u << 20,
		.sync = true,
	};
}

/* ---- life -------------------------------------------------------------------- */

static uint64_t arena_bytes(const struct gp_driver *driver)
{
	uint64_t chunk = driver->granularity;
	uint64_t bytes = driver->total_bytes;

	bytes = bytes > GP_ARENA_MAX / ARENA_FACTOR ? GP_ARENA_MAX
						    : bytes * ARENA_FACTOR;
	return bytes / chunk * chunk;
}

static int build(struct gp_pool *pool)
{
	int rc;

	pool->arena_bytes = arena_bytes(&pool->driver);
	if (pool->driver.granularity < 1u << GP_UNIT_SHIFT ||
	    pool->driver.granularity & (pool->driver.granularity - 1) ||
	    pool->arena_bytes == 0)
		return -EINVAL;
	rc = gp_arena_init(&pool->arena, pool->arena_bytes);
	if (!rc)
		rc = gp_backing_init(&pool->backing, pool->arena_bytes,
				     pool->driver.granularity);
	if (rc)
		return rc;
	gp_slabs_init(&pool->slabs);
	gp_notes_init(&pool->notes);
	gp_objects_init(&pool->cache_objects,
			(sizeof(struct gp_cache) + 63) / 64 * 64);
	pool->num_caches = 1;
	rc = gp_large_init(pool);
	if (rc)
		return rc;
	for (int i = 0; i < GP_DIVISIONS; i++)
		if (pool->config.roundup_power2_divisions[i] > 1)
			pool->rounds = true;
	pool->aids = pool->config.poison || pool->config.guard;
	if (!pool->has_vmm)
		return 0;
	if (!pool->rounds && !pool->config.check && !pool->config.zero &&
	    !pool->aids)
		pool->plain_below = pool->arena_bytes;
	return gp_call_reserve(pool, pool->arena_bytes, &pool->base);
}

static void tear_down(struct gp_pool *pool)
{
	gp_objects_exit(&pool->cache_objects);
	gp_notes_exit(&pool->notes);
	gp_slabs_exit(&pool->slabs);
	gp_backing_exit(&pool->backing);
	gp_arena_exit(&pool->arena);
	gp_order_exit(&pool->order);
	pthread_cond_destroy(&pool->landed);
	pthread_mutex_destroy(&pool->lock.mutex);
	munmap(pool, sizeof(*pool));
}

int gp_pool_create(const struct gp_driver *driver,
		   const struct gp_pool_config *config, struct gp_pool **result)
{
	struct gp_pool *pool = mmap(NULL, sizeof(*pool), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (pool == MAP_FAILED)
		return -ENOMEM;
	pool->driver = *driver;
	pool->config = *config;
	pool->has_vmm = driver->has_vmm && config->expandable_segments;
	gp_lock_init(&pool->lock, GP_RANK_POOL);
	pthread_cond_init(&pool->landed, NULL);
	gp_order_init(&pool->order, &pool->driver, config->barrier,
		      config->sync || config->cache_policy == GP_CACHE_NONE);
	pool->born = pool->clock = gp_call_now(pool);
	rc = build(pool);
	if (!rc) {
		rc = gp_registry_add(pool);
		if (rc && pool->has_vmm)
			gp_call_unreserve(pool, pool->base, pool->arena_bytes);
	}
	if (rc) {
		tear_down(pool);
		return rc;
	}
	*result = pool;
	return 0;
}

/* For the last time, so that a call that fails is made once more: nothing
 * comes later that could give the memory back. */
static int unmap_at_last(struct gp_pool *pool, uint64_t va, uint64_t bytes)
{
	return gp_call_unmap(pool, va, bytes) ? gp_call_unmap(pool, va, bytes)
					      : 0;
}

static void release_at_last(struct gp_pool *pool, const struct gp_handle *h)
{
	const uint64_t bytes = (uint64_t)h->granules << GP_GRANULE_SHIFT;

	if (gp_call_release(pool, h->id, bytes))
		gp_call_release(pool, h->id, bytes);
}

/* Every handle, whatever lives in it. The order of the books no longer
 * matters. */
static void release_all(struct gp_pool *pool)
{
	struct gp_handle *h;

	for (struct gp_block *b = pool->arena.first; b; b = b->next) {
		uint64_t at = gp_block_granule(b);

		while (gp_block_state(b) != GP_VACANT && at < gp_block_end(b)) {
			h = gp_backing_at(pool, at);
			uint64_t bytes = (uint64_t)h->granules
					 << GP_GRANULE_SHIFT;

			at = h->granule + h->granules;
			if (h->where == GP_GONE)
				continue;
			h->where = GP_GONE;
			if (h->segment) {
				gp_registry_unmap(h);
				gp_call_segment_free(pool, h->id, bytes);
			} else if (!unmap_at_last(
					   pool,
					   gp_pool_address(pool, h->granule),
					   bytes)) {
				release_at_last(pool, h);
			}
		}
	}
	while ((h = gp_backing_adopt(pool)))
		release_at_last(pool, h);
}

struct gp_order *gp_pool_order(struct gp_pool *pool)
{
	return &pool->order;
}

void gp_pool_leave(struct gp_pool *pool, bool leaves)
{
	gp_lock(&pool->lock);
	__atomic_store_n(&pool->leaves, leaves, __ATOMIC_RELEASE);
	while (leaves && !pool->has_vmm && pool->releasing)
		pthread_cond_wait(&pool->landed, &pool->lock.mutex);
	gp_unlock(&pool->lock);
}

void gp_pool_destroy(struct gp_pool *pool)
{
	gp_registry_remove(pool);
	gp_sites_drop((uintptr_t)pool);
	release_all(pool);
	if (pool->has_vmm)
		gp_call_unreserve(pool, pool->base, pool->arena_bytes);
	tear_down(pool);
}

/* The block around va, its tag, and how far va is into it: exact when the block
 * is live. NULL: none is known. */
static const struct gp_block *around(const struct gp_pool *pool, uint64_t va,
				     uint64_t *tag, uint64_t *offset)
{
	uint64_t granule, beyond;
	struct gp_slab *slab;
	const struct gp_block *b;

	if (!gp_pool_granule(pool, va, &granule, &beyond))
		return NULL;
	b = gp_arena_at(&pool->arena, granule, &slab);
	if (slab)
		b = gp_slab_around(slab, granule);
	else if (!b)
		b = gp_arena_around(&pool->arena, granule);
	if (!b)
		return NULL;
	*tag = __atomic_load_n(&b->tag, __ATOMIC_ACQUIRE);
	if (granule < *tag >> 8)
		return NULL;
	*offset = ((granule - (*tag >> 8)) << GP_GRANULE_SHIFT) + beyond;
	return b;
}

/* Was it the program's, and is no more? Not the states of a block that is on
 * its way from one to another. */
static bool is_freed(enum gp_state state)
{
	return state == GP_FREE || state == GP_CACHED ||
	       state == GP_SET_ASIDE || state == GP_LENT;
}

/* How far into the program's bytes, where those begin behind a red zone. False:
 * before them. */
static bool past_zone(const struct gp_pool *pool, const struct gp_block *b,
		      uint64_t *offset)
{
	uint64_t front;

	if (__builtin_expect(!pool->config.guard, 1))
		return true;
	front = gp_aids_front(pool,
			      __atomic_load_n(&b->requested, __ATOMIC_RELAXED));
	if (*offset < front)
		return false;
	*offset -= front;
	return true;
}

/* The live block around va, and how far va is into it; NULL: none. */
static const struct gp_block *live_around(const struct gp_pool *pool,
					  uint64_t va, uint64_t *offset)
{
	uint64_t tag;
	const struct gp_block *b = around(pool, va, &tag, offset);

	return b && gp_state_is_live((enum gp_state)(tag & 0xff)) ? b : NULL;
}

int gp_pool_span(struct gp_pool *pool, uint64_t va, uint64_t *base,
		 uint64_t *bytes, uint64_t *held)
{
	uint64_t offset;
	const struct gp_block *b = live_around(pool, va, &offset);

	if (!b || offset >= gp_block_bytes(b) || !past_zone(pool, b, &offset))
		return -ENOENT;
	*base = va - offset;
	*bytes = __atomic_load_n(&b->requested, __ATOMIC_RELAXED);
	*held = pool->config.guard ? *bytes : gp_block_bytes(b);
	return 0;
}

bool gp_pool_fits(struct gp_pool *pool, uint64_t va, uint64_t bytes)
{
	uint64_t tag, offset, whole;
	const struct gp_block *b = around(pool, va, &tag, &offset);

	if (!b || bytes == 0)
		return true;
	if (!gp_state_is_live((enum gp_state)(tag & 0xff)))
		return !is_freed((enum gp_state)(tag & 0xff));
	whole = __atomic_load_n(&b->requested, __ATOMIC_RELAXED);
	return past_zone(pool, b, &offset) && offset < whole &&
	       bytes <= whole - offset;
}

int gp_pool_find(struct gp_pool *pool, uint64_t va, uint64_t *base,
		 uint64_t *bytes)
{
	uint64_t start, requested, held;

	if (gp_pool_span(pool, va, &start, &requested, &held) ||
	    va - start >= requested)
		return -ENOENT;
	*base = start;
	*bytes = requested;
	return 0;
}

/* ---- memory and numbers ----------------------------------------------------- */

/* Free blocks go where a release finds them; a slab that has been idle since
 * `before`, too. */
static void flush(struct gp_pool *pool, uint64_t before)
{
	gp_lock(&pool->lock);
	gp_cache_flush_all(pool, NULL, GP_CACHE_PART_ALL);
	if (pool->slabs.kept_since <= before)
		gp_slabs_drop(pool);
	gp_unlock(&pool->lock);
}

uint64_t gp_pool_trim(struct gp_pool *pool, uint64_t bytes)
{
	gp_reclaim_aside(pool);
	flush(pool, UINT64_MAX);
	if (gp_order_outstanding(&pool->order))
		gp_order_wait(&pool->order);
	return gp_reclaim_release(pool, bytes, UINT64_MAX);
}

uint64_t gp_pool_trim_idle(struct gp_pool *pool, uint64_t bytes, uint64_t most,
			   bool *more)
{
	uint64_t given;

	gp_order_touch(&pool->order);
	gp_order_poll(&pool->order);
	flush(pool, UINT64_MAX);
	given = gp_reclaim_within(pool, bytes, most);
	gp_lock(&pool->lock);
	*more = given < bytes && pool->backing.idle_granules &&
		gp_order_outstanding(&pool->order);
	gp_unlock(&pool->lock);
	return given;
}

uint64_t gp_pool_reserved(const struct gp_pool *pool)
{
	return __atomic_load_n(&pool->reserved, __ATOMIC_RELAXED);
}

uint64_t gp_pool_allocated(const struct gp_pool *pool)
{
	return __atomic_load_n(&pool->allocated, __ATOMIC_RELAXED);
}

void gp_pool_tick(struct gp_pool *pool)
{
	uint64_t now = gp_call_now(pool);
	uint64_t decay = pool->config.decay_ms * 1000000;

	bool decays =
		pool->config.cache_policy == GP_CACHE_DECAY && now >= decay;

	gp_order_poll(&pool->order);
	flush(pool, decays ? now - decay : 0);
	gp_lock(&pool->lock);
	pool->clock = now;
	gp_cache_publish_all(pool, NULL);
	gp_unlock(&pool->lock);
	if (decays)
		gp_reclaim_release(pool, UINT64_MAX, now - decay);
	gp_reclaim_excess(pool, 0);
}
