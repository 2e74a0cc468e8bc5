/* Small blocks; see slab.h. */
#include "pool/slab.h"

#include <errno.h>
#include <stddef.h>

#include "pool/large.h"
#include "pool/mutation.h"
#include "pool/state.h"

/* So many times a thread waits for others at the first part's lock before it
 * gets another part. */
#define MEETINGS 16

void gp_slabs_init(struct gp_slabs *slabs)
{
	gp_objects_init(&slabs->slabs, (sizeof(struct gp_slab) + 63) / 64 * 64);
	for (unsigned i = 0; i < GP_SLAB_PARTS; i++) {
		gp_lock_init(&slabs->parts[i].lock, GP_RANK_SLABS);
		gp_objects_init(&slabs->parts[i].blocks,
				sizeof(struct gp_block));
	}
	slabs->num_parts = 1;
}

void gp_slabs_exit(struct gp_slabs *slabs)
{
	gp_objects_exit(&slabs->slabs);
	for (unsigned i = 0; i < GP_SLAB_PARTS; i++) {
		gp_objects_exit(&slabs->parts[i].blocks);
		pthread_mutex_destroy(&slabs->parts[i].lock.mutex);
	}
}

void gp_slabs_lock(struct gp_slabs *slabs)
{
	for (unsigned i = 0; i < GP_SLAB_PARTS; i++)
		gp_lock(&slabs->parts[i].lock);
}

void gp_slabs_unlock(struct gp_slabs *slabs)
{
	for (unsigned i = 0; i < GP_SLAB_PARTS; i++)
		gp_unlock(&slabs->parts[i].lock);
}

/* ---- starts inside a slab ------------------------------------------------- */

static void set_start(struct gp_slab *slab, struct gp_block *b)
{
	uint64_t i = gp_block_granule(b) - slab->first;

	__atomic_store_n(&slab->at[i], b, __ATOMIC_RELEASE);
	__atomic_store_n(&slab->starts[i / 64],
			 slab->starts[i / 64] | 1ull << i % 64,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&slab->summary, slab->summary | 1ull << i / 64,
			 __ATOMIC_RELAXED);
}

static void clear_start(struct gp_slab *slab, struct gp_block *b)
{
	uint64_t i = gp_block_granule(b) - slab->first;
	uint64_t left = slab->starts[i / 64] & ~(1ull << i % 64);

	__atomic_store_n(&slab->at[i], NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&slab->starts[i / 64], left, __ATOMIC_RELAXED);
	if (!left)
		__atomic_store_n(&slab->summary,
				 slab->summary & ~(1ull << i / 64),
				 __ATOMIC_RELAXED);
}

struct gp_block *gp_slab_around(const struct gp_slab *slab, uint64_t granule)
{
	uint64_t i = (granule - slab->first) % GP_SLAB_GRANULES;
	uint64_t word =
		__atomic_load_n(&slab->starts[i / 64], __ATOMIC_RELAXED) &
		~0ull >> (63 - i % 64);
	uint64_t at = i / 64;

	if (!word) {
		uint64_t below =
			__atomic_load_n(&slab->summary, __ATOMIC_RELAXED) &
			((1ull << at) - 1);

		if (!below)
			return NULL;
		at = 63 - (unsigned)__builtin_clzll(below);
		word = __atomic_load_n(&slab->starts[at], __ATOMIC_RELAXED);
		if (!word)
			return NULL;
	}
	at = at * 64 + 63 - (unsigned)__builtin_clzll(word);
	return __atomic_load_n(&slab->at[at], __ATOMIC_ACQUIRE);
}

/* ---- bins -------------------------------------------------------------------- */

static void bin_insert(struct gp_slab_part *part, struct gp_block *b)
{
	uint32_t i = b->granules;

	b->left = NULL;
	b->right = part->bins[i];
	if (b->right)
		b->right->left = b;
	part->bins[i] = b;
	part->used[i / 64] |= 1ull << i % 64;
	part->summary[i / 4096] |= 1ull << i / 64 % 64;
	part->granules += i;
	part->free_blocks++;
}

static void bin_remove(struct gp_slab_part *part, struct gp_block *b)
{
	uint32_t i = b->granules;

	if (b->right)
		b->right->left = b->left;
	if (b->left)
		b->left->right = b->right;
	else
		part->bins[i] = b->right;
	if (!part->bins[i]) {
		part->used[i / 64] &= ~(1ull << i % 64);
		if (!part->used[i / 64])
			part->summary[i / 4096] &= ~(1ull << i / 64 % 64);
	}
	b->left = b->right = NULL;
	part->granules -= i;
	part->free_blocks--;
}

/* The smallest free block of at least `granules`, or NULL. */
static struct gp_block *bin_best(const struct gp_slab_part *part,
				 uint32_t granules)
{
	uint32_t at = granules / 64;
	uint64_t word = part->used[at] & ~0ull << granules % 64;

	if (!word) {
		uint64_t more =
			at < 63 ? part->summary[0] & ~0ull << (at + 1) : 0;

		if (more)
			at = (unsigned)__builtin_ctzll(more);
		else if (part->summary[1])
			at = 64;
		else
			return NULL;
		word = part->used[at];
	}
	return part->bins[at * 64 + (unsigned)__builtin_ctzll(word)];
}

/* The slab that a small block lies in. */
static struct gp_slab *slab_of(const struct gp_pool *pool,
			       const struct gp_block *b)
{
	struct gp_slab *slab;

	gp_arena_at(&pool->arena, gp_block_granule(b), &slab);
	if (!slab)
		__builtin_unreachable();
	return slab;
}

/* ---- blocks: under the part's lock ------------------------------------------- */

static struct gp_block *take(const struct gp_pool *pool,
			     struct gp_slab_part *part, uint32_t granules)
{
	struct gp_block *b = bin_best(part, granules);

	if (!b || gp_objects_reserve(&part->blocks, 1))
		return NULL;
	bin_remove(part, b);
	gp_block_set_state(b, GP_HELD);
	if (b->granules == granules)
		return b;

	struct gp_slab *slab = slab_of(pool, b);
	struct gp_block *rest = gp_objects_get(&part->blocks);

	rest->requested = 0;
	rest->stamp = b->stamp;
	rest->owner = 0;
	rest->granules = b->granules - granules;
	b->granules = granules;
	__atomic_store_n(&rest->tag, gp_tag(gp_block_end(b), GP_FREE),
			 __ATOMIC_RELAXED);
	rest->prev = b;
	rest->next = b->next;
	if (rest->next)
		rest->next->prev = rest;
	b->next = rest;
	set_start(slab, rest);
	bin_insert(part, rest);
	return b;
}

/* b swallows the block after it. */
static void join(struct gp_slab_part *part, struct gp_slab *slab,
		 struct gp_block *b)
{
	struct gp_block *gone = b->next;

	clear_start(slab, gone);
	b->granules += gone->granules;
	if (gone->stamp > b->stamp && GP_HOLDS(JOINED_TAKE_LATEST)) /* [16] */
		b->stamp = gone->stamp;
	b->next = gone->next;
	if (b->next)
		b->next->prev = b;
	gp_objects_put(&part->blocks, gone);
}

/* True: nothing else is left in the slab. */
static bool give(struct gp_slab_part *part, struct gp_slab *slab,
		 struct gp_block *b)
{
	gp_block_set_state(b, GP_FREE);
	if (b->next && gp_block_state(b->next) == GP_FREE) {
		bin_remove(part, b->next);
		join(part, slab, b);
	}
	if (b->prev && gp_block_state(b->prev) == GP_FREE) {
		b = b->prev;
		bin_remove(part, b);
		join(part, slab, b);
	}
	bin_insert(part, b);
	return b->granules == slab->tile->granules;
}

/* ---- parts -------------------------------------------------------------------- */

static struct gp_slab_part *part_of(struct gp_pool *pool,
				    const struct gp_cache *cache)
{
	return &pool->slabs.parts[cache ? cache->part : 0];
}

/* The lock of the cache's part. Its thread shares the first one with all that
 * do not meet others there. */
static struct gp_slab_part *lock_part(struct gp_pool *pool,
				      struct gp_cache *cache)
{
	struct gp_slab_part *part = part_of(pool, cache);

	if (__builtin_expect(!gp_try_lock(&part->lock), 0)) {
		if (cache && cache->part == 0 && ++cache->meetings > MEETINGS) {
			__atomic_store_n(&cache->part,
					 1 + (cache->number - 1) %
							 (GP_SLAB_PARTS - 1),
					 __ATOMIC_RELAXED);
			part = part_of(pool, cache);
		}
		gp_lock(&part->lock);
	}
	return part;
}

/* The lock of the part that a slab with a block of ours belongs to. */
static struct gp_slab_part *lock_part_of(struct gp_slab *slab)
{
	for (;;) {
		struct gp_slab_part *part =
			__atomic_load_n(&slab->part, __ATOMIC_ACQUIRE);

		gp_lock(&part->lock);
		if (part == __atomic_load_n(&slab->part, __ATOMIC_RELAXED))
			return part;
		gp_unlock(&part->lock);
	}
}

struct gp_block *gp_slab_take(struct gp_pool *pool, struct gp_cache *cache,
			      uint32_t granules)
{
	struct gp_slab_part *part = lock_part(pool, cache);
	struct gp_block *b = take(pool, part, granules);

	gp_unlock(&part->lock);
	return b;
}

/* The slab changes parts; both are locked. As many spare descriptors go the
 * other way: else a part that only ever splits would map more and more. */
static void move(struct gp_slab *slab, struct gp_slab_part *from,
		 struct gp_slab_part *to)
{
	for (struct gp_block *b = slab->at[0]; b; b = b->next) {
		if (gp_block_state(b) == GP_FREE) {
			bin_remove(from, b);
			bin_insert(to, b);
		}
		if (to->blocks.spare)
			gp_objects_put(&from->blocks,
				       gp_objects_get(&to->blocks));
	}
	__atomic_store_n(&slab->part, to, __ATOMIC_RELEASE);
}

/* A block of another part, and the slab that it is in: next time there is more
 * at hand. */
static struct gp_block *take_over(struct gp_pool *pool,
				  struct gp_slab_part *from,
				  struct gp_slab_part *to, uint32_t granules)
{
	struct gp_block *b;

	gp_lock(from < to ? &from->lock : &to->lock);
	gp_lock(from < to ? &to->lock : &from->lock);
	b = take(pool, from, granules);
	if (b)
		move(slab_of(pool, b), from, to);
	gp_unlock(&to->lock);
	gp_unlock(&from->lock);
	return b;
}

struct gp_block *gp_slab_find(struct gp_pool *pool, struct gp_cache *cache,
			      uint32_t granules)
{
	struct gp_slabs *slabs = &pool->slabs;
	struct gp_block *b = gp_slab_take(pool, cache, granules);
	struct gp_slab_part *own = part_of(pool, cache);

	if (own >= &slabs->parts[slabs->num_parts])
		slabs->num_parts = (uint32_t)(own - slabs->parts) + 1;
	for (uint32_t i = 0; !b && i < slabs->num_parts; i++)
		if (&slabs->parts[i] != own)
			b = take_over(pool, &slabs->parts[i], own, granules);
	return b;
}

/* ---- slabs: under the pool's lock ---------------------------------------------- */

struct gp_block *gp_slab_add(struct gp_pool *pool, struct gp_cache *cache,
			     struct gp_block *tile, uint32_t granules)
{
	struct gp_slabs *slabs = &pool->slabs;
	struct gp_slab_part *part = part_of(pool, cache);
	struct gp_block *b = NULL;
	struct gp_slab *slab;

	if (gp_objects_reserve(&slabs->slabs, 1))
		return NULL;
	gp_lock(&part->lock);
	if (gp_objects_reserve(&part->blocks, 2))
		goto out;
	slab = gp_objects_get(&slabs->slabs);
	b = gp_objects_get(&part->blocks);
	slab->tile = tile;
	slab->first = gp_block_granule(tile);
	__atomic_store_n(&slab->part, part, __ATOMIC_RELAXED);
	b->requested = 0;
	b->stamp = tile->stamp;
	b->owner = 0;
	b->granules = tile->granules;
	b->prev = b->next = NULL;
	__atomic_store_n(&b->tag, gp_tag(slab->first, GP_FREE),
			 __ATOMIC_RELAXED);
	set_start(slab, b);
	bin_insert(part, b);
	gp_block_set_state(tile, GP_SLAB);
	gp_arena_set_slab(&pool->arena, tile, slab);
	slabs->count++;
	b = take(pool, part, granules);
out:
	gp_unlock(&part->lock);
	return b;
}

/* The only block of a slab is free: the slab goes. Under the part's lock, too. */
static void slab_remove(struct gp_pool *pool, struct gp_slab_part *part,
			struct gp_slab *slab, struct gp_block *b)
{
	struct gp_block *tile = slab->tile;

	tile->stamp = b->stamp; /* of all that were in it, the latest */
	bin_remove(part, b);
	clear_start(slab, b);
	gp_objects_put(&part->blocks, b);
	gp_arena_clear_slab(&pool->arena, tile);
	slab->tile = NULL;
	gp_objects_put(&pool->slabs.slabs, slab);
	pool->slabs.count--;
	gp_large_give(pool, tile);
}

/* Wholly free. */
static void retire(struct gp_pool *pool, struct gp_slab_part *part,
		   struct gp_slab *slab)
{
	struct gp_slabs *slabs = &pool->slabs;

	if (slabs->count > 1 || slab->tile->granules != GP_SLAB_GRANULES ||
	    pool->config.cache_policy == GP_CACHE_NONE)
		slab_remove(pool, part, slab, slab->at[0]);
	else
		slabs->kept_since = pool->clock;
}

void gp_slab_give(struct gp_pool *pool, struct gp_block *b)
{
	struct gp_slab *slab = slab_of(pool, b);
	struct gp_slab_part *part = slab->part;

	gp_lock(&part->lock);
	if (give(part, slab, b))
		retire(pool, part, slab);
	gp_unlock(&part->lock);
}

/* A slab that was wholly free a moment ago: it may be anything by now. */
static void look_again(struct gp_pool *pool, struct gp_slab *slab)
{
	struct gp_slab_part *part;
	struct gp_block *b;

	gp_lock(&pool->lock);
	part = slab->part;
	gp_lock(&part->lock);
	b = slab->at[0];
	if (slab->tile && gp_block_state(b) == GP_FREE &&
	    b->granules == slab->tile->granules)
		retire(pool, part, slab);
	gp_unlock(&part->lock);
	gp_unlock(&pool->lock);
}

void gp_slab_give_chain(struct gp_pool *pool, struct gp_block *b)
{
	struct gp_slab_part *part = NULL; /* locked */

	while (b) {
		struct gp_block *next = b->right;
		struct gp_slab *slab = slab_of(pool, b);

		b->right = NULL;
		if (!part ||
		    part != __atomic_load_n(&slab->part, __ATOMIC_RELAXED)) {
			if (part)
				gp_unlock(&part->lock);
			part = lock_part_of(slab);
		}
		if (give(part, slab, b)) {
			gp_unlock(&part->lock);
			part = NULL;
			look_again(pool, slab);
		}
		b = next;
	}
	if (part)
		gp_unlock(&part->lock);
}

bool gp_slabs_drop(struct gp_pool *pool)
{
	struct gp_slabs *slabs = &pool->slabs;

	for (uint32_t i = 0; i < slabs->num_parts; i++) {
		struct gp_slab_part *part = &slabs->parts[i];
		struct gp_handle *handle = NULL;
		struct gp_block *b;

		gp_lock(&part->lock);
		b = part->bins[GP_SLAB_GRANULES];
		if (b) {
			handle = gp_backing_at(pool, gp_block_granule(b));
			slab_remove(pool, part, slab_of(pool, b), b);
			gp_backing_age(pool, handle, slabs->kept_since);
		}
		gp_unlock(&part->lock);
		if (b)
			return true;
	}
	return false;
}
