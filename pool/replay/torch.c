/*
 * Rounding, searching, splitting and merging.
 */
#include "pool/replay/torch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int by_address(const struct torch_block *a, const struct torch_block *b)
{
	return (a->va > b->va) - (a->va < b->va);
}

static int free_order(const struct gp_sorted_node *x,
		      const struct gp_sorted_node *y)
{
	const struct torch_block *a =
		gp_sorted_entry(x, struct torch_block, node);
	const struct torch_block *b =
		gp_sorted_entry(y, struct torch_block, node);

	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return by_address(a, b);
}

static int unmapped_order(const struct gp_sorted_node *x,
			  const struct gp_sorted_node *y)
{
	const struct torch_block *a =
		gp_sorted_entry(x, struct torch_block, node);
	const struct torch_block *b =
		gp_sorted_entry(y, struct torch_block, node);

	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	return by_address(a, b);
}

static void pool_init(struct torch_pool *pool, bool is_small)
{
	pool->is_small = is_small;
	pool->searches = 0;
	gp_sorted_init(&pool->free, free_order);
	gp_sorted_init(&pool->unmapped, unmapped_order);
}

int torch_create(const struct gp_driver *driver, const struct gp_conf *conf,
		 bool expandable, void **state)
{
	struct torch *t = malloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->driver = *driver;
	t->conf = *conf;
	t->expandable = expandable;
	t->reserved = 0;
	t->segments = NULL;
	pool_init(&t->small, true);
	pool_init(&t->large, false);
	*state = t;
	return 0;
}

/* The power of two at or below n > 0. */
static uint64_t floor_power(uint64_t n)
{
	return 1ull << (63 - __builtin_clzll(n));
}

static uint32_t divisions(const struct torch *t, uint64_t size)
{
	/* Slot k is [2^k, 2^(k+1)) MiB; smaller sizes use slot 0. */
	uint64_t mib = size >> 20;
	int slot = mib ? 63 - __builtin_clzll(mib) : 0;

	if (slot >= GP_CONF_DIVISIONS)
		slot = GP_CONF_DIVISIONS - 1;
	return t->conf.roundup_power2_divisions[slot];
}

uint64_t torch_round(const struct torch *t, uint64_t size)
{
	uint64_t step, parts;

	if (size < TORCH_MIN_BLOCK)
		return TORCH_MIN_BLOCK;
	parts = divisions(t, size);
	if (parts > 1 && size > TORCH_MIN_BLOCK * parts) {
		if (floor_power(size) == size)
			return size;
		step = floor_power(size) / floor_power(parts);
		return (size + step - 1) & ~(step - 1);
	}
	return (size + TORCH_MIN_BLOCK - 1) & ~(TORCH_MIN_BLOCK - 1);
}

struct torch_block *torch_block_new(struct torch_pool *pool, uint32_t stream,
				    uint64_t va, uint64_t bytes)
{
	struct torch_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->pool = pool;
	block->stream = stream;
	block->va = va;
	block->bytes = bytes;
	block->mapped = true;
	return block;
}

void torch_insert(struct torch_block *block)
{
	struct torch_pool *pool = block->pool;

	block->free_since = pool->searches;
	gp_sorted_insert(block->mapped ? &pool->free : &pool->unmapped,
			 &block->node);
}

void torch_erase(struct torch_block *block)
{
	struct torch_pool *pool = block->pool;

	gp_sorted_erase(block->mapped ? &pool->free : &pool->unmapped,
			&block->node);
}

void torch_link(struct torch_block *block, struct torch_block *prev,
		struct torch_block *next)
{
	block->prev = prev;
	block->next = next;
	if (prev)
		prev->next = block;
	if (next)
		next->prev = block;
}

void torch_merge(struct torch_block *dst, struct torch_block *src)
{
	if (!src || src->allocated || src->mapped != dst->mapped)
		return;
	torch_erase(src);
	if (dst->prev == src) {
		dst->va = src->va;
		dst->prev = src->prev;
		if (dst->prev)
			dst->prev->next = dst;
	} else {
		dst->next = src->next;
		if (dst->next)
			dst->next->prev = dst;
	}
	dst->bytes += src->bytes;
	free(src);
}

/* A block that can grow into unmapped space behind it counts as large as it
 * can become: then a smaller one elsewhere is the better fit. */
static uint64_t expandable_size(const struct torch_block *block)
{
	const struct torch_block *next = block->next;

	return block->bytes + (next && !next->mapped ? next->bytes : 0);
}

static struct torch_block *best_expandable(struct torch_block *block)
{
	uint32_t stream = block->stream;

	for (;;) {
		struct gp_sorted_node *node = gp_sorted_next(&block->node);

		if (!node || torch_block_of(node)->stream != stream ||
		    expandable_size(torch_block_of(node)) >=
			    expandable_size(block))
			return block;
		block = torch_block_of(node);
	}
}

struct torch_block *torch_find(struct torch *t, struct torch_pool *pool,
			       uint64_t size, uint32_t stream)
{
	struct torch_block key = {.stream = stream, .bytes = size};
	struct gp_sorted_node *node;
	struct torch_block *block;

	pool->searches++;
	node = gp_sorted_lower_bound(&pool->free, &key.node);
	if (!node || torch_block_of(node)->stream != stream)
		return NULL;
	block = torch_block_of(node);
	if (t->expandable)
		block = best_expandable(block);

	/* Large blocks are kept whole, for requests of about their size. */
	if (size < t->conf.max_split_size
		    ? block->bytes >= t->conf.max_split_size
		    : block->bytes >= size + t->conf.max_non_split_rounding)
		return NULL;
	torch_erase(block);
	return block;
}

static bool should_split(const struct torch *t, const struct torch_block *block,
			 uint64_t size)
{
	uint64_t rest = block->bytes - size;

	if (block->pool->is_small || t->expandable)
		return rest >= TORCH_MIN_BLOCK;
	return size < t->conf.max_split_size && rest > TORCH_SMALL_SIZE;
}

int torch_carve(struct torch *t, struct torch_block *block, uint64_t size,
		struct gp_placement *placement)
{
	struct torch_block *rest;

	if (should_split(t, block, size)) {
		rest = torch_block_new(block->pool, block->stream,
				       block->va + size, block->bytes - size);
		if (!rest) {
			torch_insert(block);
			return -ENOMEM;
		}
		rest->segment = block->segment;
		block->bytes = size;
		torch_link(rest, block, block->next);
		torch_insert(rest);
	}
	block->allocated = true;
	placement->va = block->va;
	placement->block = block;
	return 0;
}

int torch_free(void *state, const struct gp_placement *placement, bool idle)
{
	struct torch_block *block = placement->block;

	/* The allocator orders by stream: it never waits for work. */
	(void)state;
	(void)idle;
	block->allocated = false;
	torch_merge(block, block->prev);
	torch_merge(block, block->next);
	torch_insert(block);
	return 0;
}

int torch_segment_alloc(struct torch *t, struct torch_pool *pool,
			uint64_t bytes, uint32_t stream,
			struct torch_block **block)
{
	const struct gp_driver *d = &t->driver;
	uint64_t va;
	int err = d->ops->segment_alloc(d->dev, bytes, &va);

	if (err)
		return err;
	*block = torch_block_new(pool, stream, va, bytes);
	if (!*block) {
		d->ops->segment_free(d->dev, va, bytes);
		return -ENOMEM;
	}
	t->reserved += bytes;
	return 0;
}

void torch_segment_free(struct torch *t, struct torch_block *block)
{
	const struct gp_driver *d = &t->driver;

	torch_erase(block);
	t->reserved -= block->bytes;
	d->ops->segment_free(d->dev, block->va, block->bytes);
	free(block);
}

void torch_segments_free(struct torch *t, struct torch_pool *pool)
{
	struct gp_sorted_node *node = gp_sorted_first(&pool->free), *next;

	for (; node; node = next) {
		next = gp_sorted_next(node);
		if (torch_whole(torch_block_of(node)))
			torch_segment_free(t, torch_block_of(node));
	}
}

static int check_pool(const struct torch_pool *pool, uint64_t *free_bytes,
		      char *why, size_t why_size)
{
	struct gp_sorted_node *node;

	for (node = gp_sorted_first(&pool->free); node;
	     node = gp_sorted_next(node)) {
		struct torch_block *b = torch_block_of(node), *next = b->next;

		*free_bytes += b->bytes;
		if (b->allocated || !b->mapped ||
		    (next && (next->prev != b || next->va != b->va + b->bytes ||
			      (!next->allocated && next->mapped)))) {
			snprintf(why, why_size, "free block at %#llx",
				 (unsigned long long)b->va);
			return -EINVAL;
		}
	}
	return 0;
}

int torch_check(void *state, char *why, size_t why_size)
{
	struct torch *t = state;
	uint64_t free_bytes = 0;
	int err = check_pool(&t->small, &free_bytes, why, why_size);

	if (!err)
		err = check_pool(&t->large, &free_bytes, why, why_size);
	if (!err && free_bytes > t->reserved) {
		snprintf(why, why_size, "more free than reserved");
		err = -EINVAL;
	}
	return err;
}
