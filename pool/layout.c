/*
 * What lies where: every tile looked at in turn, a stretch at a time, so that
 * the lock is never held for long. What changes meanwhile, before or behind the
 * place that the walk has come to, the events tell.
 */
#include "pool/layout.h"

#include "pool/aids.h"
#include "pool/state.h"
#include "stats/sites.h"

#define AT_ONCE 1024 /* blocks under one hold of the lock */

/* What is told as one block once the table is full: nothing, neighbours in a
 * slab, neighbours. */
enum joined { JOIN_NONE, JOIN_SMALL, JOIN_ALL, JOIN_NUM };

struct walk {
	struct gp_pool *pool;
	struct gp_layout *out;
	enum joined joined;
	unsigned looked_at; /* blocks, under this hold of the lock */
};

/* Another segment of the driver begins there. */
static bool begins_segment(const struct gp_pool *pool, uint64_t granule)
{
	return !pool->has_vmm &&
	       gp_backing_at(pool, granule)->granule == granule;
}

/* Which stack allocated it. Who frees it may be at it now, and the next to get
 * it has not been told of yet: then 0. */
static uint64_t site_of(const struct walk *walk, const struct gp_block *b,
			uint64_t address, uint64_t requested)
{
	if (!walk->out->has_sites ||
	    !(__atomic_load_n(&b->owner, __ATOMIC_RELAXED) & GP_WATCHED))
		return 0;
	return gp_sites_number(address + gp_aids_front(walk->pool, requested));
}

static void put_block(struct walk *walk, const struct gp_block *b, bool small)
{
	struct gp_layout *out = walk->out;
	struct gp_layout_range *last = &out->blocks[out->num_blocks];
	uint64_t address = gp_pool_address(walk->pool, gp_block_granule(b));
	uint64_t requested = __atomic_load_n(&b->requested, __ATOMIC_RELAXED);
	uint64_t site = site_of(walk, b, address, requested);

	if (walk->joined > (small ? JOIN_NONE : JOIN_SMALL) &&
	    !begins_segment(walk->pool, gp_block_granule(b)) &&
	    out->num_blocks && last[-1].address + last[-1].bytes == address) {
		last[-1].bytes += gp_block_bytes(b);
		last[-1].requested += requested;
		last[-1].blocks++;
		if (last[-1].site != site)
			last[-1].site = 0;
	} else if (out->num_blocks == out->max_blocks) {
		out->left_out++;
	} else {
		*last = (struct gp_layout_range){address, gp_block_bytes(b),
						 requested, 1, site};
		out->num_blocks++;
	}
}

static void put_memory(struct walk *walk, uint64_t granule, uint64_t granules)
{
	struct gp_layout *out = walk->out;
	struct gp_layout_range *last = &out->segments[out->num_segments];
	uint64_t address = gp_pool_address(walk->pool, granule);
	uint64_t bytes = granules << GP_GRANULE_SHIFT;

	if (!begins_segment(walk->pool, granule) && out->num_segments &&
	    last[-1].address + last[-1].bytes == address) {
		last[-1].bytes += bytes;
	} else if (out->num_segments == out->max_segments) {
		out->left_out++;
	} else {
		*last = (struct gp_layout_range){address, bytes, 0, 0, 0};
		out->num_segments++;
	}
}

static void tell_memory(struct walk *walk, const struct gp_block *tile,
			uint64_t at)
{
	uint64_t end = gp_block_end(tile);

	while (at < end) {
		const struct gp_handle *h = gp_backing_at(walk->pool, at);
		uint64_t to = h ? h->granule + h->granules
				: at + gp_backing_chunk(&walk->pool->backing);

		if (to > end)
			to = end;
		if (h) /* else it is being filled */
			put_memory(walk, at, to - at);
		at = to;
	}
}

static void tell_slab(struct walk *walk, const struct gp_block *tile)
{
	uint64_t first = gp_block_granule(tile);
	struct gp_slab *slab;

	gp_arena_at(&walk->pool->arena, first, &slab);
	if (!slab)
		return;
	gp_lock(&slab->part->lock);
	for (struct gp_block *b = gp_slab_at(slab, first); b; b = b->next) {
		walk->looked_at++;
		if (gp_state_is_live(gp_block_state(b)))
			put_block(walk, b, true);
	}
	gp_unlock(&slab->part->lock);
}

/* The tile that a granule lies in. */
static struct gp_block *tile_at(struct gp_pool *pool, uint64_t granule)
{
	struct gp_slab *slab;
	struct gp_block *b = gp_arena_at(&pool->arena, granule, &slab);

	if (slab)
		return slab->tile;
	return b ? b : gp_arena_around(&pool->arena, granule);
}

/* From that granule on, for as long as the lock may be held. Where to go on; 0:
 * that was all. */
static uint64_t stretch(struct walk *walk, uint64_t from)
{
	struct gp_block *tile = tile_at(walk->pool, from);

	for (walk->looked_at = 0; tile && walk->looked_at < AT_ONCE;
	     tile = tile->next) {
		enum gp_state state = gp_block_state(tile);
		/* It has grown downwards meanwhile, or is a newer one. */
		bool cut = gp_block_granule(tile) < from;

		walk->looked_at++;
		if (state == GP_VACANT)
			continue;
		tell_memory(walk, tile, cut ? from : gp_block_granule(tile));
		if (cut)
			continue;
		if (state == GP_SLAB)
			tell_slab(walk, tile);
		else if (gp_state_is_live(state))
			put_block(walk, tile, false);
	}
	return tile ? gp_block_granule(tile) : 0;
}

void gp_pool_layout(struct gp_pool *pool, struct gp_layout *layout)
{
	struct walk walk = {.pool = pool, .out = layout};

	layout->expandable = pool->has_vmm;
	do {
		uint64_t from = 0;

		layout->num_segments = layout->num_blocks = 0;
		layout->left_out = 0;
		do {
			gp_lock(&pool->lock);
			from = stretch(&walk, from);
			gp_unlock(&pool->lock);
		} while (from);
	} while (layout->left_out && ++walk.joined < JOIN_NUM);
}
