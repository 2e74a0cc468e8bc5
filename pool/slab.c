/* Small blocks; see slab.h. */
#include "pool/slab.h"

#include <errno.h>
#include <stddef.h>

#include "pool/large.h"
#include "pool/mutation.h"
#include "pool/state.h"

void gp_slabs_init(struct gp_slabs *slabs)
{
	gp_objects_init(&slabs->slabs, (sizeof(struct gp_slab) + 63) / 64 * 64);
}

void gp_slabs_exit(struct gp_slabs *slabs)
{
	gp_objects_exit(&slabs->slabs);
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

static void bin_insert(struct gp_slabs *slabs, struct gp_block *b)
{
	uint32_t i = b->granules;

	b->left = NULL;
	b->right = slabs->bins[i];
	if (b->right)
		b->right->left = b;
	slabs->bins[i] = b;
	slabs->used[i / 64] |= 1ull << i % 64;
	slabs->summary[i / 4096] |= 1ull << i / 64 % 64;
	slabs->granules += i;
	slabs->free_blocks++;
}

static void bin_remove(struct gp_slabs *slabs, struct gp_block *b)
{
	uint32_t i = b->granules;

	if (b->right)
		b->right->left = b->left;
	if (b->left)
		b->left->right = b->right;
	else
		slabs->bins[i] = b->right;
	if (!slabs->bins[i]) {
		slabs->used[i / 64] &= ~(1ull << i % 64);
		if (!slabs->used[i / 64])
			slabs->summary[i / 4096] &= ~(1ull << i / 64 % 64);
	}
	b->left = b->right = NULL;
	slabs->granules -= i;
	slabs->free_blocks--;
}

/* The smallest free block of at least `granules`, or NULL. */
static struct gp_block *bin_best(const struct gp_slabs *slabs,
				 uint32_t granules)
{
	uint32_t at = granules / 64;
	uint64_t word = slabs->used[at] & ~0ull << granules % 64;

	if (!word) {
		uint64_t more =
			at < 63 ? slabs->summary[0] & ~0ull << (at + 1) : 0;

		if (more)
			at = (unsigned)__builtin_ctzll(more);
		else if (slabs->summary[1])
			at = 64;
		else
			return NULL;
		word = slabs->used[at];
	}
	return slabs->bins[at * 64 + (unsigned)__builtin_ctzll(word)];
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

/* ---- blocks ------------------------------------------------------------------- */

struct gp_block *gp_slab_take(struct gp_pool *pool, uint32_t granules)
{
	struct gp_slabs *slabs = &pool->slabs;
	struct gp_block *b = bin_best(slabs, granules);

	if (!b)
		return NULL;
	bin_remove(slabs, b);
	gp_block_set_state(b, GP_HELD);
	if (b->granules == granules)
		return b;

	struct gp_slab *slab = slab_of(pool, b);
	struct gp_block *rest = gp_objects_get(&pool->arena.blocks);

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
	bin_insert(slabs, rest);
	return b;
}

int gp_slab_add(struct gp_pool *pool, struct gp_block *tile)
{
	struct gp_slabs *slabs = &pool->slabs;

	if (gp_objects_reserve(&slabs->slabs, 1) ||
	    gp_objects_reserve(&pool->arena.blocks, 1))
		return -ENOMEM;
	struct gp_slab *slab = gp_objects_get(&slabs->slabs);
	struct gp_block *b = gp_objects_get(&pool->arena.blocks);

	slab->tile = tile;
	slab->first = gp_block_granule(tile);
	b->requested = 0;
	b->stamp = tile->stamp;
	b->owner = 0;
	b->granules = tile->granules;
	b->prev = b->next = NULL;
	__atomic_store_n(&b->tag, gp_tag(slab->first, GP_FREE),
			 __ATOMIC_RELAXED);
	set_start(slab, b);
	bin_insert(slabs, b);
	gp_block_set_state(tile, GP_SLAB);
	gp_arena_set_slab(&pool->arena, tile, slab);
	slabs->count++;
	return 0;
}

/* The only block of a slab is free: the slab goes. */
static void slab_remove(struct gp_pool *pool, struct gp_slab *slab,
			struct gp_block *b)
{
	struct gp_block *tile = slab->tile;

	tile->stamp = b->stamp; /* of all that were in it, the latest */
	bin_remove(&pool->slabs, b);
	clear_start(slab, b);
	gp_objects_put(&pool->arena.blocks, b);
	gp_arena_clear_slab(&pool->arena, tile);
	gp_objects_put(&pool->slabs.slabs, slab);
	pool->slabs.count--;
	gp_large_give(pool, tile);
}

/* b swallows the block after it. */
static void join(struct gp_pool *pool, struct gp_slab *slab, struct gp_block *b)
{
	struct gp_block *gone = b->next;

	clear_start(slab, gone);
	b->granules += gone->granules;
	if (gone->stamp > b->stamp && GP_HOLDS(JOINED_TAKE_LATEST)) /* [16] */
		b->stamp = gone->stamp;
	b->next = gone->next;
	if (b->next)
		b->next->prev = b;
	gp_objects_put(&pool->arena.blocks, gone);
}

void gp_slab_give(struct gp_pool *pool, struct gp_block *b)
{
	struct gp_slabs *slabs = &pool->slabs;
	struct gp_slab *slab = slab_of(pool, b);

	gp_block_set_state(b, GP_FREE);
	if (b->next && gp_block_state(b->next) == GP_FREE) {
		bin_remove(slabs, b->next);
		join(pool, slab, b);
	}
	if (b->prev && gp_block_state(b->prev) == GP_FREE) {
		b = b->prev;
		bin_remove(slabs, b);
		join(pool, slab, b);
	}
	bin_insert(slabs, b);
	if (b->granules != slab->tile->granules)
		return;
	if (slabs->count > 1 || slab->tile->granules != GP_SLAB_GRANULES ||
	    pool->config.cache_policy == GP_CACHE_NONE)
		slab_remove(pool, slab, b);
	else
		slabs->kept_since = pool->clock;
}

bool gp_slabs_drop(struct gp_pool *pool)
{
	struct gp_block *b = pool->slabs.bins[GP_SLAB_GRANULES];
	struct gp_handle *handle;

	if (!b)
		return false;
	handle = gp_backing_at(pool, gp_block_granule(b));
	slab_remove(pool, slab_of(pool, b), b);
	gp_backing_age(pool, handle, pool->slabs.kept_since);
	return true;
}
