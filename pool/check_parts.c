/* Slabs, bins, handles and lists, checked; see check.h. */
#include "pool/check.h"

#include "pool/state.h"

typedef unsigned long long ull;

/* ---- slabs ------------------------------------------------------------------ */

static void check_small(struct gp_check *c, struct gp_slab *slab,
			struct gp_block *b, uint64_t expected)
{
	if (gp_block_granule(b) != expected || b->granules == 0)
		gp_check_fail(c, "small block at %llu, not at %llu",
			      (ull)gp_block_granule(b), (ull)expected);
	if (b->next && b->next->prev != b)
		gp_check_fail(c, "small block %llu: the next does not know it",
			      (ull)expected);
	if (gp_slab_at(slab, expected) != b ||
	    gp_slab_around(slab, gp_block_end(b) - 1) != b)
		gp_check_fail(c, "small block %llu cannot be found",
			      (ull)expected);
	if (gp_block_state(b) != GP_FREE) {
		gp_check_block(c, b);
		return;
	}
	c->small_free++;
	c->small_granules += b->granules;
	if (b->next && gp_block_state(b->next) == GP_FREE)
		gp_check_fail(c, "small blocks at %llu could be one",
			      (ull)expected);
}

void gp_check_slab(struct gp_check *c, struct gp_block *tile)
{
	uint64_t at = gp_block_granule(tile);
	unsigned starts = 0, blocks = 0;
	struct gp_slab *slab;

	gp_arena_at(&c->pool->arena, at, &slab);
	if (!slab || slab->first != at || tile->granules > GP_SLAB_GRANULES) {
		gp_check_fail(c, "slab %llu is not in its tile", (ull)at);
		return;
	}
	for (struct gp_block *b = gp_slab_at(slab, at); b && !c->rc;
	     b = b->next) {
		check_small(c, slab, b, at);
		at += b->granules;
		blocks++;
	}
	for (unsigned i = 0; i < GP_SLAB_GRANULES / 64; i++) {
		starts += (unsigned)__builtin_popcountll(slab->starts[i]);
		if (!slab->starts[i] != !(slab->summary >> i & 1))
			gp_check_fail(c, "slab %llu: wrong summary",
				      (ull)slab->first);
	}
	if (at != gp_block_end(tile) || starts != blocks)
		gp_check_fail(c, "slab %llu: %u blocks, %u starts",
			      (ull)slab->first, blocks, starts);
}

static void check_part(struct gp_check *c, const struct gp_slab_part *part)
{
	uint64_t blocks = 0, granules = 0;
	struct gp_slab *slab;

	for (uint32_t i = 0; i <= GP_SLAB_GRANULES && !c->rc; i++) {
		const struct gp_block *b = part->bins[i];
		bool bit = part->used[i / 64] >> i % 64 & 1;
		bool word = part->summary[i / 4096] >> i / 64 % 64 & 1;

		if (bit != (b != NULL) || (bit && !word))
			gp_check_fail(c, "bin %u and its bit differ", i);
		for (; b && blocks <= c->small_free; b = b->right) {
			gp_arena_at(&c->pool->arena, gp_block_granule(b),
				    &slab);
			if (b->granules != i || gp_block_state(b) != GP_FREE ||
			    (b->right && b->right->left != b) || !slab ||
			    slab->part != part)
				gp_check_fail(c, "bin %u holds a wrong block",
					      i);
			blocks++;
			granules += b->granules;
		}
	}
	if (blocks > c->small_free || blocks != part->free_blocks ||
	    granules > c->small_granules || granules != part->granules)
		gp_check_fail(c, "bins hold %llu blocks, slabs %llu",
			      (ull)blocks, (ull)c->small_free);
	c->small_free -= blocks;
	c->small_granules -= granules;
}

/* Takes what it finds off the counts. */
void gp_check_bins(struct gp_check *c)
{
	const struct gp_slabs *slabs = &c->pool->slabs;

	for (uint32_t i = 0; i < GP_SLAB_PARTS && !c->rc; i++) {
		check_part(c, &slabs->parts[i]);
		if (i >= slabs->num_parts && slabs->parts[i].free_blocks)
			gp_check_fail(c, "part %u of the slabs is not known",
				      i);
	}
	if (c->small_free || c->small_granules)
		gp_check_fail(c, "%llu small blocks are in no bin",
			      (ull)c->small_free);
}

/* ---- handles ------------------------------------------------------------------- */

/* Granules of a handle that lie in free ranges. */
static uint64_t free_in(struct gp_check *c, const struct gp_handle *h)
{
	struct gp_block *b = gp_arena_around(&c->pool->arena, h->granule);
	uint64_t end = h->granule + h->granules;
	uint64_t sum = 0;
	struct gp_slab *slab;

	gp_arena_at(&c->pool->arena, h->granule, &slab);
	if (slab)
		b = slab->tile;
	for (; b && gp_block_granule(b) < end; b = b->next) {
		uint64_t from = gp_block_granule(b), to = gp_block_end(b);

		if (gp_block_state(b) != GP_FREE)
			continue;
		if (from < h->granule)
			from = h->granule;
		if (to > end)
			to = end;
		sum += to - from;
	}
	return sum;
}

struct sums {
	uint64_t count, granules, idle, idle_granules;
};

static void check_handle(struct gp_check *c, const struct gp_handle *h,
			 struct sums *sums)
{
	const struct gp_backing *backing = &c->pool->backing;
	uint64_t first = h->granule >> backing->chunk_shift;

	if (h->granules == 0 || h->granules % gp_backing_chunk(backing))
		gp_check_fail(c, "handle at %llu is not whole chunks",
			      (ull)h->granule);
	for (uint32_t i = 0; i < h->granules >> backing->chunk_shift; i++)
		if (backing->map[first + i] != h)
			gp_check_fail(c, "handle at %llu: hole in the map",
				      (ull)h->granule);
	if (h->granules - free_in(c, h) != h->used)
		gp_check_fail(c, "handle at %llu: %u used, free ranges %llu",
			      (ull)h->granule, h->used, (ull)free_in(c, h));
	sums->count++;
	sums->granules += h->granules;
	if (h->used == 0) {
		sums->idle++;
		sums->idle_granules += h->granules;
	}
}

/* Mapped where there are tiles, nowhere else. */
static void check_map(struct gp_check *c, struct sums *sums)
{
	const struct gp_pool *pool = c->pool;

	for (struct gp_block *b = pool->arena.first; b && !c->rc; b = b->next) {
		uint64_t at = gp_block_granule(b);

		if (gp_block_state(b) == GP_VACANT) {
			if (gp_backing_at(pool, at) ||
			    gp_backing_at(pool, gp_block_end(b) - 1))
				gp_check_fail(c, "vacant tile %llu is mapped",
					      (ull)at);
			continue;
		}
		while (at < gp_block_end(b) && !c->rc) {
			const struct gp_handle *h = gp_backing_at(pool, at);

			if (!h && gp_block_state(b) == GP_HELD)
				break; /* being filled */
			if (!h) {
				gp_check_fail(c, "nothing mapped at %llu",
					      (ull)at);
				break;
			}
			if (h->granule >= gp_block_granule(b))
				check_handle(c, h, sums);
			at = h->granule + h->granules;
		}
	}
}

/* What counts for neither class was never mapped. */
static void check_classes(struct gp_check *c)
{
	const struct gp_account *a = &c->pool->account;
	uint64_t reserved = a->reserved.current;
	uint64_t orphans = c->pool->backing.orphan_granules << GP_GRANULE_SHIFT;
	uint64_t classes = a->class_reserved[GP_CLASS_SMALL].current +
			   a->class_reserved[GP_CLASS_LARGE].current;

	/* An operation in flight may hold what was an orphan. */
	if (classes > reserved ||
	    (c->pool->in_flight == 0 && classes + orphans < reserved))
		gp_check_fail(c, "%llu bytes by class, %llu reserved",
			      (ull)classes, (ull)reserved);
}

void gp_check_handles(struct gp_check *c)
{
	const struct gp_backing *backing = &c->pool->backing;
	struct sums sums = {0};
	uint64_t idle = 0, orphans = 0;

	check_map(c, &sums);
	for (int i = 0; i < GP_BACKING_BUCKETS; i++)
		for (const struct gp_handle *h = backing->idle[i].head; h;
		     h = h->next) {
			idle++;
			if (h->used)
				gp_check_fail(c, "handle at %llu is not idle",
					      (ull)h->granule);
			if (h->next ? h->next->prev != h
				    : backing->idle[i].tail != h)
				gp_check_fail(c, "idle list %d is broken", i);
		}
	for (const struct gp_handle *h = backing->orphans.head; h;
	     h = h->next) {
		sums.count++;
		sums.granules += h->granules;
		orphans += h->granules;
	}
	if (idle != sums.idle || sums.idle_granules != backing->idle_granules)
		gp_check_fail(c, "%llu idle handles listed, %llu exist",
			      (ull)idle, (ull)sums.idle);
	if (orphans != backing->orphan_granules)
		gp_check_fail(c, "wrong sum of orphans");
	/* What an operation in flight holds is in no list. */
	if (c->pool->in_flight == 0 && (sums.count != backing->count ||
					sums.granules != backing->granules))
		gp_check_fail(c, "%llu handles held, %llu found",
			      (ull)backing->count, (ull)sums.count);
	if (c->pool->account.reserved.current != backing->granules
							 << GP_GRANULE_SHIFT ||
	    c->pool->account.segments.current != backing->count)
		gp_check_fail(c, "reserved bytes differ from the handles");
	check_classes(c);
}

/* ---- lists -------------------------------------------------------------------- */

/* Counts a list of blocks of one state off what the walk has found. */
static void check_list(struct gp_check *c, const char *name,
		       const struct gp_block *b, enum gp_state state,
		       uint64_t *count)
{
	for (; b && !c->rc; b = b->right) {
		if (gp_block_state(b) != state)
			gp_check_fail(c, "%s: block %llu in state %d", name,
				      (ull)gp_block_granule(b),
				      gp_block_state(b));
		if ((*count)-- == 0)
			gp_check_fail(c, "%s: more blocks than exist", name);
	}
}

static void check_cache(struct gp_check *c, struct gp_cache *cache)
{
	uint64_t before = c->cached;

	for (unsigned i = 0; i < GP_CACHE_SMALL; i++) {
		if (cache->bins[i] && !(cache->used[i / 64] >> i % 64 & 1))
			gp_check_fail(c, "cache %u: bin %u without its bit",
				      cache->number, i);
		if (cache->bins[i] && cache->bins[i]->granules != i)
			gp_check_fail(c, "cache %u: wrong size in bin %u",
				      cache->number, i);
		check_list(c, "cache", cache->bins[i], GP_CACHED, &c->cached);
	}
	if (before - c->cached != cache->small)
		gp_check_fail(c, "cache %u: %u small blocks, found %llu",
			      cache->number, cache->small,
			      (ull)(before - c->cached));
	before = c->cached;
	for (unsigned i = 0; i < GP_CACHE_LARGE; i++) {
		if (cache->large_lists[i] && !(cache->large_used >> i & 1))
			gp_check_fail(c, "cache %u: list %u without its bit",
				      cache->number, i);
		check_list(c, "cache", cache->large_lists[i], GP_CACHED,
			   &c->cached);
	}
	if (before - c->cached != cache->large)
		gp_check_fail(c, "cache %u: %u large blocks, found %llu",
			      cache->number, cache->large,
			      (ull)(before - c->cached));
}

void gp_check_lists(struct gp_check *c)
{
	struct gp_pool *pool = c->pool;

	for (int i = 0; i < GP_NUM_REGIONS; i++)
		check_list(c, "vacant", pool->regions[i].vacant, GP_VACANT,
			   &c->vacant);
	check_list(c, "stuck", pool->stuck, GP_STUCK, &c->stuck);
	check_list(c, "aside", pool->aside, GP_SET_ASIDE, &c->aside);
	check_list(c, "lent", pool->notes.lent, GP_LENT, &c->lent);
	if (c->vacant || c->stuck || c->aside || c->lent)
		gp_check_fail(c, "a vacant, stuck, aside or lent block is "
				 "unlisted");
	for (uint32_t i = 1; i < pool->num_caches && !c->rc; i++)
		check_cache(c, pool->caches[i]);
	/* Pushed since the walk over the tiles, or counted there: a remote
	 * list may be longer than what the walk saw. */
	for (uint32_t i = 1; i < pool->num_caches && !c->rc; i++) {
		const struct gp_block *b = __atomic_load_n(
			&pool->caches[i]->remote, __ATOMIC_ACQUIRE);

		for (; b && !c->rc; b = b->right) {
			if (gp_block_state(b) != GP_CACHED)
				gp_check_fail(c, "remote: block in state %d",
					      gp_block_state(b));
			if (c->cached)
				c->cached--;
		}
	}
}
