/*
 * Which pool holds an address? Every pool of the process, without a lock.
 *
 * Pools with virtual memory are one range each. Plain segments lie anywhere:
 * a table by 2 MiB of address finds them.
 */
#ifndef GP_POOL_REGISTRY_H
#define GP_POOL_REGISTRY_H

#include <stdint.h>

struct gp_handle;
struct gp_pool;

#define GP_REGISTRY_POOLS 64

/* Makes the pool known. 0, or -ENOSPC with too many pools. */
int gp_registry_add(struct gp_pool *pool);
void gp_registry_remove(struct gp_pool *pool);

/* True while the pool of this serial number exists. Call with
 * gp_registry_lock() to keep it so. */
struct gp_pool *gp_registry_find(uint64_t serial);
void gp_registry_lock(void);
void gp_registry_unlock(void);

#endif
