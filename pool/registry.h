/*
 * Which pool holds an address? Every pool of the process, without a lock.
 *
 * Pools with virtual memory are one range each. Plain segments lie anywhere:
 * a table by 2 MiB of address finds them.
 *
 * Thread-safe; changes take the registry's lock.
 */
#ifndef GP_POOL_REGISTRY_H
#define GP_POOL_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

struct gp_handle;
struct gp_pool;

#define GP_REGISTRY_POOLS 64

/* Makes the pool known. 0, or -ENOSPC with too many pools. */
int gp_registry_add(struct gp_pool *pool);
void gp_registry_remove(struct gp_pool *pool);

/* All memory that pools ever had lies from low to high. Atomic. */
extern uint64_t gp_registry_low, gp_registry_high;

/* Is it worth a look? Any thread. */
static inline bool gp_registry_near(uint64_t va)
{
	return va - __atomic_load_n(&gp_registry_low, __ATOMIC_RELAXED) <
	       __atomic_load_n(&gp_registry_high, __ATOMIC_RELAXED) -
		       __atomic_load_n(&gp_registry_low, __ATOMIC_RELAXED);
}

/* The pool of this serial number while it exists, else NULL. Between lock and
 * unlock, which keep it so. */
struct gp_pool *gp_registry_find(uint64_t serial);
void gp_registry_lock(void);
void gp_registry_unlock(void);

/* A segment is there, or about to go back to the driver. 0, or -ENOMEM;
 * -EINVAL for an address off 2 MiB or out of the table's reach. */
int gp_registry_map(struct gp_pool *pool, struct gp_handle *segment);
void gp_registry_unmap(struct gp_handle *segment);

/* The segment that contains va, or NULL. Any thread. */
struct gp_handle *gp_registry_segment(uint64_t va);

#endif
