/*
 * gpupool's own pool: the code of the library, over the modelled driver.
 * shim/pool_config.h is the one header of shim/ used here: it needs no CUDA.
 */
#include "pool/pool.h"
#include "pool/replay/policy.h"
#include "shim/pool_config.h"

static int pool_create(const struct gp_driver *driver,
		       const struct gp_conf *conf, void **state)
{
	struct gp_pool_config config;
	struct gp_pool *pool;
	int err;

	gp_pool_config_from(&config, conf);
	err = gp_pool_create(driver, &config, &pool);
	if (!err)
		*state = pool;
	return err;
}

static void pool_destroy(void *state)
{
	gp_pool_destroy(state);
}

static int pool_alloc(void *state, uint64_t bytes, uint32_t stream,
		      struct gp_placement *placement)
{
	/* cudaMalloc names no stream. */
	(void)stream;
	placement->block = NULL;
	return gp_pool_alloc(state, bytes, &placement->va);
}

static int pool_free(void *state, const struct gp_placement *placement,
		     bool idle)
{
	return idle ? gp_pool_free_idle(state, placement->va)
		    : gp_pool_free(state, placement->va);
}

static void pool_tick(void *state)
{
	gp_pool_tick(state);
}

static int pool_check(void *state, char *why, size_t why_size)
{
	return gp_pool_check(state, why, why_size);
}

const struct gp_policy gp_policy_pool = {
	.name = "pool",
	.help = "gpupool: best fit over virtual memory, remapping on a miss",
	.create = pool_create,
	.destroy = pool_destroy,
	.alloc = pool_alloc,
	.free = pool_free,
	.tick = pool_tick,
	.check = pool_check,
};
