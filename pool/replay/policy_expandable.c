/*
 * PyTorch's expandable_segments:True: one long reservation for each pool and
 * stream, mapped page by page (2 MiB small, 20 MiB large) as blocks need it.
 *
 * Pages stay where they are until an allocation is refused; then every page
 * that is wholly free goes back to the driver. A segment serves one stream
 * only, so that a program on several streams pays for each of them.
 *
 * Pages follow what the program holds so closely that a single foreign block
 * shows: a trace of driver calls also has what libraries allocate themselves
 * (cuBLAS: 64 MiB a handle on Hopper), and PyTorch places those elsewhere.
 * Played as if they were tensors they cut the segment in two: 7,220 MiB for a
 * graph network for which PyTorch reported 6,520. Left out (--without 64MiB)
 * they are 6,520 here too.
 */
#include <errno.h>
#include <stdlib.h>

#include "pool/replay/torch.h"

struct torch_segment {
	struct torch_segment *next;
	uint64_t va, bytes, page;
	uint64_t handles[]; /* by page; 0: not mapped */
};

static struct torch_segment *segment_new(struct torch *t, uint64_t page)
{
	const struct gp_driver *d = &t->driver;
	/* An eighth more than the card has, so that the end can be reached
	 * although pages in the middle were given back. */
	uint64_t bytes = d->total_bytes + d->total_bytes / 8;
	uint64_t pages = (bytes + page - 1) / page;
	struct torch_segment *s =
		calloc(1, sizeof(*s) + pages * sizeof(s->handles[0]));

	if (!s)
		return NULL;
	s->page = page;
	s->bytes = pages * page;
	if (d->ops->reserve(d->dev, s->bytes, &s->va)) {
		free(s);
		return NULL;
	}
	s->next = t->segments;
	t->segments = s;
	return s;
}

/* Maps the pages of [va, va+bytes), which begins at a page; the bytes mapped,
 * whole pages, or 0: refused, nothing changed. */
static uint64_t map_pages(struct torch *t, struct torch_segment *s, uint64_t va,
			  uint64_t bytes)
{
	const struct gp_driver *d = &t->driver;
	uint64_t first = (va - s->va) / s->page, i;
	uint64_t count = (bytes + s->page - 1) / s->page;

	for (i = first; i < first + count; i++) {
		if (!d->ops->create(d->dev, s->page, &s->handles[i]))
			continue;
		while (i-- > first) {
			d->ops->release(d->dev, s->handles[i], s->page);
			s->handles[i] = 0;
		}
		return 0;
	}
	for (i = first; i < first + count; i++)
		d->ops->map(d->dev, s->va + i * s->page, s->page,
			    s->handles[i]);
	d->ops->set_access(d->dev, va, count * s->page);
	return count * s->page;
}

/* Gives back the pages that lie wholly in [*va, *va+*bytes) and makes that
 * the range of them. False: there are none. */
static bool unmap_pages(struct torch *t, struct torch_segment *s, uint64_t *va,
			uint64_t *bytes)
{
	const struct gp_driver *d = &t->driver;
	uint64_t first = (*va - s->va + s->page - 1) / s->page, i;
	uint64_t last = (*va + *bytes - s->va) / s->page;

	if (first >= last)
		return false;
	d->ops->sync(d->dev);
	for (i = first; i < last; i++) {
		d->ops->unmap(d->dev, s->va + i * s->page, s->page);
		d->ops->release(d->dev, s->handles[i], s->page);
		s->handles[i] = 0;
	}
	*va = s->va + first * s->page;
	*bytes = (last - first) * s->page;
	return true;
}

static bool allocatable(const struct torch_block *block)
{
	return block && !block->allocated;
}

static bool has_room(const struct torch_block *block, uint64_t size)
{
	uint64_t bytes = 0;

	for (; bytes < size && allocatable(block); block = block->next)
		bytes += block->bytes;
	return bytes >= size;
}

/* The lowest unmapped block of the stream, or the free one before it, from
 * which `size` bytes can be had; a new segment if there is none. */
static struct torch_block *find_expandable(struct torch *t,
					   struct torch_pool *pool,
					   uint64_t size, uint32_t stream)
{
	struct torch_block key = {.stream = stream}, *block;
	struct gp_sorted_node *node;
	struct torch_segment *s;

	for (node = gp_sorted_lower_bound(&pool->unmapped, &key.node);
	     node && torch_block_of(node)->stream == stream;
	     node = gp_sorted_next(node)) {
		block = torch_block_of(node);
		if (allocatable(block->prev))
			block = block->prev;
		if (has_room(block, size))
			return block;
	}
	s = segment_new(t, pool->is_small ? TORCH_SMALL_BUFFER
					  : TORCH_LARGE_BUFFER);
	if (!s)
		return NULL;
	block = torch_block_new(pool, stream, s->va, s->bytes);
	if (!block)
		return NULL;
	block->segment = s;
	block->mapped = false;
	torch_insert(block);
	return block;
}

/* Maps the first `size` bytes of an unmapped block, to whole pages, and puts
 * it, merged with its neighbours, among the free. False: refused. */
static bool map_block(struct torch *t, struct torch_block *block, uint64_t size)
{
	uint64_t bytes = map_pages(t, block->segment, block->va, size);
	struct torch_block *rest;

	if (!bytes)
		return false;
	torch_erase(block);
	block->mapped = true;
	if (bytes < block->bytes) {
		rest = torch_block_new(block->pool, block->stream,
				       block->va + bytes, block->bytes - bytes);
		if (!rest)
			abort();
		rest->segment = block->segment;
		rest->mapped = false;
		block->bytes = bytes;
		torch_link(rest, block, block->next);
		torch_insert(rest);
	}
	torch_merge(block, block->prev);
	torch_merge(block, block->next);
	torch_insert(block);
	t->reserved += bytes;
	return true;
}

/* Candidates are unmapped, or free and followed by unmapped. */
static struct torch_block *expand(struct torch *t, uint64_t size,
				  uint32_t stream)
{
	struct torch_pool *pool = torch_pool_of(t, size);
	struct torch_block *block = find_expandable(t, pool, size, stream);

	if (!block)
		return NULL;
	if (!block->mapped &&
	    !map_block(t, block, size < block->bytes ? size : block->bytes))
		return NULL;
	while (block->bytes < size) {
		struct torch_block *next = block->next;
		uint64_t more = size - block->bytes;

		if (!map_block(t, next,
			       more < next->bytes ? more : next->bytes))
			return NULL;
		block = next; /* it took in the one before */
	}
	torch_erase(block);
	return block;
}

static struct torch_block *piece(struct torch_block *of, uint64_t va,
				 uint64_t bytes)
{
	struct torch_block *block =
		torch_block_new(of->pool, of->stream, va, bytes);

	if (!block)
		abort();
	block->segment = of->segment;
	return block;
}

/* Unmaps the whole pages of a free block; what is left at its ends stays
 * free. */
static void unmap_block(struct torch *t, struct torch_block *block)
{
	uint64_t va = block->va, bytes = block->bytes, end = va + bytes;
	struct torch_block *part;

	if (!unmap_pages(t, block->segment, &va, &bytes))
		return;
	torch_erase(block);
	if (va > block->va) {
		part = piece(block, block->va, va - block->va);
		torch_link(part, block->prev, block);
		torch_insert(part);
	}
	if (va + bytes < end) {
		part = piece(block, va + bytes, end - va - bytes);
		torch_link(part, block, block->next);
		torch_insert(part);
	}
	block->va = va;
	block->bytes = bytes;
	block->mapped = false;
	torch_merge(block, block->prev);
	torch_merge(block, block->next);
	torch_insert(block);
	t->reserved -= bytes;
}

static void unmap_pool(struct torch *t, struct torch_pool *pool)
{
	struct gp_sorted_node *node = gp_sorted_first(&pool->free);
	struct torch_block **blocks;
	size_t count = 0, i;

	for (; node; node = gp_sorted_next(node))
		count++;
	if (!count)
		return;
	/* Unmapping changes the set: gather first. */
	blocks = malloc(count * sizeof(struct torch_block *));
	if (!blocks)
		abort();
	node = gp_sorted_first(&pool->free);
	for (i = 0; i < count; node = gp_sorted_next(node))
		blocks[i++] = torch_block_of(node);
	for (i = 0; i < count; i++)
		unmap_block(t, blocks[i]);
	free(blocks);
}

static int expandable_alloc(void *state, uint64_t bytes, uint32_t stream,
			    struct gp_placement *placement)
{
	struct torch *t = state;
	uint64_t size = torch_round(t, bytes);
	struct torch_block *block =
		torch_find(t, torch_pool_of(t, size), size, stream);

	if (!block)
		block = expand(t, size, stream);
	if (!block) {
		unmap_pool(t, &t->large);
		unmap_pool(t, &t->small);
		block = expand(t, size, stream);
	}
	if (!block)
		return -ENOMEM;
	return torch_carve(t, block, size, placement);
}

static int expandable_create(const struct gp_driver *driver,
			     const struct gp_conf *conf, void **state)
{
	return torch_create(driver, conf, true, state);
}

static void drop_blocks(struct gp_sorted *set)
{
	while (set->root) {
		struct torch_block *block = torch_block_of(set->root);

		gp_sorted_erase(set, &block->node);
		free(block);
	}
}

static void expandable_destroy(void *state)
{
	struct torch *t = state;
	struct torch_segment *s;

	unmap_pool(t, &t->large);
	unmap_pool(t, &t->small);
	drop_blocks(&t->large.unmapped);
	drop_blocks(&t->small.unmapped);
	while ((s = t->segments)) {
		t->segments = s->next;
		t->driver.ops->unreserve(t->driver.dev, s->va, s->bytes);
		free(s);
	}
	free(t);
}

const struct gp_policy gp_policy_expandable = {
	.name = "expandable",
	.help = "PyTorch's expandable_segments:True: pages mapped on demand",
	.create = expandable_create,
	.destroy = expandable_destroy,
	.alloc = expandable_alloc,
	.free = torch_free,
	.check = torch_check,
};
