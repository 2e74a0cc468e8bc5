/*
 * A pool over a model driver, for one test: opened, used, closed.
 */
#ifndef GP_TESTS_POOL_RIG_H
#define GP_TESTS_POOL_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"
#include "tests/support/model_driver.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

struct pool_rig {
	struct model *model;
	struct gp_pool_config config;
	struct gp_driver driver;
	struct gp_pool *pool;
};

/* A rig with this much memory and no pool yet; change `config` at will. */
struct pool_rig pool_rig_new(uint64_t total_bytes, bool no_vmm);

/* Make the pool. The result of gp_pool_create(). */
int pool_rig_open(struct pool_rig *rig);

/* Destroys both. NULL, or a sentence about a broken rule of the driver, a
 * failing gp_pool_check() or memory left behind. */
const char *pool_rig_close(struct pool_rig *rig);

/* The same, as what ends a test whose set-up put its rig into *state. 0, or 1
 * with the sentence on stderr. */
int pool_rig_end(void **state);

/* NULL, or what gp_pool_check() or the model has to say. */
const char *pool_rig_check(struct pool_rig *rig);

struct gp_pool_stats pool_rig_stats(struct pool_rig *rig);

/* Allocate; 0 when refused. */
uint64_t pool_rig_alloc(struct pool_rig *rig, uint64_t bytes);

#endif
