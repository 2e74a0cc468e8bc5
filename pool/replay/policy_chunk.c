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
	return torch_carve(t, block, size, placement);
}

static int chunk_create(const struct gp_driver *driver,
			const struct gp_conf *conf, void **state)
{
	struct gp_conf split_all = *conf;

	split_all.max_split_size = UINT64_MAX;
	/* The expandable rules split every rest that is a block. */
	return torch_create(driver, &split_all, true, state);
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
