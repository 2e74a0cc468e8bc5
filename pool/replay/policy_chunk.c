/*
 * Fixed-size chunks: memory comes from the driver in chunks of
 * large_segment_size (20 MiB unless set), a larger request takes as many in a
 * row as it needs. Best fit within them, every rest is split off, streams and
 * small requests have no place of their own. The simplest pool that people
 * write; a yardstick.
 */
#include <errno.h>
#include <stdlib.h>

#include "pool/replay/torch.h"

static int chunk_alloc(void *state, uint64_t bytes, uint32_t stream,
		       struct gp_placement *placement)
{
	struct torch *t = state;
	uint64_t chunk = t->conf.large_segment_size;
	uint64_t size = (bytes + TORCH_MIN_BLOCK - 1) & ~(TORCH_MIN_BLOCK - 1);
	uint64_t whole = (size + chunk - 1) / chunk * chunk;
	struct torch_block *block = torch_find(t, &t->large, size, 0);
	int err;

	(void)stream;
	if (!block) {
		err = torch_segment_alloc(t, &t->large, whole, 0, &block);
		if (err == -ENOMEM) {
			torch_segments_free(t, &t->large);
			err = torch_segment_alloc(t, &t->large, whole, 0,
						  &block);
		}
		if (err)
			return err;
	}
	err = torch_carve(t, block, size);
	if (err)
		return err;
	placement->va = block->va;
	placement->block = block;
	return 0;
}

static int chunk_create(const struct gp_driver *driver,
			const struct gp_conf *conf, void **state)
{
	struct torch *t = malloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	/* The expandable rules split every rest that is a block. */
	torch_init(t, driver, conf, true);
	t->conf.max_split_size = UINT64_MAX;
	*state = t;
	return 0;
}

static void chunk_destroy(void *state)
{
	struct torch *t = state;

	torch_segments_free(t, &t->large);
	free(t);
}

const struct gp_policy gp_policy_chunk = {
	.name = "chunk",
	.help = "fixed-size chunks of large_segment_size, best fit within",
	.create = chunk_create,
	.destroy = chunk_destroy,
	.alloc = chunk_alloc,
	.free = torch_free,
	.check = torch_check,
};
