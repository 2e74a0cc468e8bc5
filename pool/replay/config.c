/*
 * The pool knows no configuration text and conf/ knows no pool: who uses both
 * translates.
 */
#include "pool/replay/config.h"

#include <string.h>

_Static_assert(GP_DIVISIONS == GP_CONF_DIVISIONS,
	       "conf and pool agree on the slots of roundup_power2_divisions");

static enum gp_cache_policy cache_policy(enum gp_conf_cache cache)
{
	switch (cache) {
	case GP_CONF_DECAY:
		return GP_CACHE_DECAY;
	case GP_CONF_NONE:
		return GP_CACHE_NONE;
	case GP_CONF_KEEP:
		break;
	}
	return GP_CACHE_KEEP;
}

void gp_pool_config_from_conf(const struct gp_conf *conf,
			      struct gp_pool_config *config)
{
	gp_pool_config_init(config);
	config->expandable_segments = conf->expandable_segments;
	config->cache_policy = cache_policy(conf->cache_policy);
	config->decay_ms = conf->decay_ms;
	config->growth_factor = conf->growth_factor;
	config->large_segment_size = conf->large_segment_size;
	config->max_split_size = conf->max_split_size;
	config->max_non_split_rounding = conf->max_non_split_rounding;
	config->garbage_collection_threshold =
		conf->garbage_collection_threshold;
	memcpy(config->roundup_power2_divisions, conf->roundup_power2_divisions,
	       sizeof(config->roundup_power2_divisions));
	config->check = conf->check;
}
