/*
 * From the configuration to what the pool takes of it.
 */
#ifndef GP_REPLAY_CONFIG_H
#define GP_REPLAY_CONFIG_H

#include "conf/conf.h"
#include "pool/pool.h"

/* Fills *config: defaults of the pool, then conf's settings. Thread-safe. */
void gp_pool_config_from_conf(const struct gp_conf *conf,
			      struct gp_pool_config *config);

#endif
