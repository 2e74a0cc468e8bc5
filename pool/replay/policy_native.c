/*
 * PyTorch's default rules: segments from cudaMalloc, one pool for requests to
 * 1 MiB and one for the rest, each by stream.
 *
 * A miss: garbage collection, cudaMalloc, giving back blocks of at least
 * max_split_size, giving back every whole segment, then out of memory. The
 * garbage collection of PyTorch acts only in a process that set a memory
 * fraction; here the fraction is 1, so that the setting can be tried.
 */
#include <errno.h>
#include <stdlib.h>

#include "pool/replay/torch.h"

/* max_split_size: the smallest block that would do, else the largest ones
 * until their sum would. False: they are not enough. */
static bool release_oversize(struct torch *t, uint64_t size, uint32_t stream)
{
	struct torch_pool *pool = torch_pool_of(t, size);
	uint64_t min = t->conf.max_split_size, released = 0;
	struct torch_block key = {.stream = stream,
				  .bytes = size < min ? min : size};
	struct gp_sorted_node *node, *prev;

	if (min == UINT64_MAX)
		return false;
	node = gp_sorted_lower_bound(&pool->free, &key.node);
	if (node && torch_block_of(node)->stream == stream) {
		torch_segment_free(t, torch_block_of(node));
		return true;
	}
	node = node ? gp_sorted_prev(node) : gp_sorted_last(&pool->free);
	for (; node && released < key.bytes; node = prev) {
		struct torch_block *block = torch_block_of(node);

		if (block->stream != stream || block->bytes < min)
			break;
		prev = gp_sorted_prev(node);
		released += block->bytes;
		torch_segment_free(t, block);
	}
	return released >= key.bytes;
}

/* garbage_collection_threshold: gives back blocks of at least the mean age,
 * in searches of the pool, until the excess is gone. */
static void collect_garbage(struct torch *t)
{
	struct torch_pool *pool = &t->large;
	uint64_t limit = (uint64_t)(t->conf.garbage_collection_threshold *
				    (double)t->driver.total_bytes);
	uint64_t excess, reclaimed = 0, total_age = 0, count = 0;
	struct gp_sorted_node *node, *next;
	bool freed = true;

	if (t->reserved <= limit)
		return;
	excess = t->reserved - limit;
	for (node = gp_sorted_first(&pool->free); node;
	     node = gp_sorted_next(node)) {
		if (torch_whole(torch_block_of(node))) {
			total_age += pool->searches -
				     torch_block_of(node)->free_since;
			count++;
		}
	}
	while (reclaimed < excess && freed && count) {
		double mean = (double)total_age / (double)count;

		freed = false;
		for (node = gp_sorted_first(&pool->free); node; node = next) {
			struct torch_block *block = torch_block_of(node);
			uint64_t age = pool->searches - block->free_since;

			next = gp_sorted_next(node);
			if (!torch_whole(block) || (double)age < mean)
				continue;
			freed = true;
			reclaimed += block->bytes;
			total_age -= age;
			count--;
			torch_segment_free(t, block);
		}
	}
}

static uint64_t segment_size(const struct torch *t, uint64_t size)
{
	if (size <= TORCH_SMALL_SIZE)
		return TORCH_SMALL_BUFFER;
	if (size < TORCH_MIN_LARGE)
		return t->conf.large_segment_size;
	return (size + TORCH_ROUND_LARGE - 1) & ~(TORCH_ROUND_LARGE - 1);
}

static int new_segment(struct torch *t, uint64_t size, uint32_t stream,
		       struct torch_block **block)
{
	return torch_segment_alloc(t, torch_pool_of(t, size),
				   segment_size(t, size), stream, block);
}

static int miss(struct torch *t, uint64_t size, uint32_t stream,
		struct torch_block **block)
{
	int err;

	if (t->conf.garbage_collection_threshold > 0)
		collect_garbage(t);
	err = new_segment(t, size, stream, block);
	if (err == -ENOMEM && release_oversize(t, size, stream))
		err = new_segment(t, size, stream, block);
	if (err == -ENOMEM) {
		torch_segments_free(t, &t->large);
		torch_segments_free(t, &t->small);
		err = new_segment(t, size, stream, block);
	}
	return err;
}

static int native_alloc(void *state, uint64_t bytes, uint32_t stream,
			struct gp_placement *placement)
{
	struct torch *t = state;
	uint64_t size = torch_round(t, bytes);
	struct torch_block *block =
		torch_find(t, torch_pool_of(t, size), size, stream);
	int err;

	if (!block) {
		err = miss(t, size, stream, &block);
		if (err)
			return err;
	}
	return torch_carve(t, block, size, placement);
}

static int native_create(const struct gp_driver *driver,
			 const struct gp_conf *conf, void **state)
{
	return torch_create(driver, conf, false, state);
}

static void native_destroy(void *state)
{
	/* The caller has freed its blocks: every segment is whole. */
	struct torch *t = state;

	torch_segments_free(t, &t->large);
	torch_segments_free(t, &t->small);
	free(t);
}

const struct gp_policy gp_policy_native = {
	.name = "native",
	.help = "PyTorch's default rules: segments, split and cached by stream",
	.create = native_create,
	.destroy = native_destroy,
	.alloc = native_alloc,
	.free = torch_free,
	.check = torch_check,
};
