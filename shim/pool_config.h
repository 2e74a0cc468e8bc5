/*
 * The pool's part of the configuration. conf/ and pool/ do not know each
 * other; whoever has both translates here.
 */
#ifndef GP_SHIM_POOL_CONFIG_H
#define GP_SHIM_POOL_CONFIG_H

#include <string.h>

#include "conf/conf.h"
#include "pool/pool.h"

_Static_assert((int)GP_CONF_KEEP == (int)GP_CACHE_KEEP &&
		       (int)GP_CONF_DECAY == (int)GP_CACHE_DECAY &&
		       (int)GP_CONF_NONE == (int)GP_CACHE_NONE,
	       "the two enums mean the same");
_Static_assert((int)GP_CONF_BARRIER_ALWAYS == (int)GP_BARRIER_ALWAYS &&
		       (int)GP_CONF_BARRIER_NEVER == (int)GP_BARRIER_NEVER,
	       "these too");
_Static_assert(GP_CONF_DIVISIONS == GP_DIVISIONS, "as do the arrays");

static inline void gp_pool_config_from(struct gp_pool_config *config,
				       const struct gp_conf *conf)
{
	gp_pool_config_init(config);
	config->expandable_segments = conf->expandable_segments;
	config->cache_policy = (enum gp_cache_policy)conf->cache_policy;
	config->decay_ms = conf->decay_ms;
	config->growth_factor = conf->growth_factor;
	config->large_segment_size = conf->large_segment_size;
	config->max_split_size = conf->max_split_size;
	config->max_non_split_rounding = conf->max_non_split_rounding;
	config->garbage_collection_threshold =
		conf->garbage_collection_threshold;
	config->zero = conf->zero_memory;
	config->poison = conf->poison_free;
	config->guard = conf->guard_bytes;
	config->overlap_slack = conf->overlap_slack;
	config->sync = conf->reuse == GP_CONF_REUSE_SYNC;
	config->barrier = (enum gp_free_barrier)conf->free_barrier;
	memcpy(config->roundup_power2_divisions, conf->roundup_power2_divisions,
	       sizeof(config->roundup_power2_divisions));
	config->check = conf->check;
}

#endif
