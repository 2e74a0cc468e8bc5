/* A pool over a model driver; see pool_rig.h. */
#include "tests/support/pool_rig.h"

#include <stddef.h>
#include <stdio.h>

static char why[256];

struct pool_rig pool_rig_new(uint64_t total_bytes, bool no_vmm)
{
	struct model_config config = {
		.total_bytes = total_bytes,
		.no_vmm = no_vmm,
	};
	struct pool_rig rig = {.model = model_create(&config)};

	rig.driver = model_driver(rig.model);
	gp_pool_config_init(&rig.config);
	return rig;
}

int pool_rig_open(struct pool_rig *rig)
{
	return gp_pool_create(&rig->driver, &rig->config, &rig->pool);
}

const char *pool_rig_check(struct pool_rig *rig)
{
	if (gp_pool_check(rig->pool, why, sizeof(why)))
		return why;
	return model_error(rig->model);
}

const char *pool_rig_close(struct pool_rig *rig)
{
	const char *result = rig->pool ? pool_rig_check(rig) : NULL;

	if (rig->pool)
		gp_pool_destroy(rig->pool);
	rig->pool = NULL;
	if (!result && model_objects(rig->model))
		result = "memory is left after gp_pool_destroy()";
	if (!result && model_error(rig->model))
		result = "the driver objects after gp_pool_destroy()";
	model_destroy(rig->model);
	return result;
}

int pool_rig_end(void **state)
{
	const char *result = pool_rig_close(*state);

	if (result)
		fprintf(stderr, "%s\n", result);
	return result != NULL;
}

struct gp_pool_stats pool_rig_stats(struct pool_rig *rig)
{
	struct gp_pool_stats stats;

	gp_pool_get_stats(rig->pool, &stats);
	return stats;
}

uint64_t pool_rig_alloc(struct pool_rig *rig, uint64_t bytes)
{
	uint64_t va = 0;

	return gp_pool_alloc(rig->pool, bytes, &va) ? 0 : va;
}
