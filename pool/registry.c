/*
 * The table of pools; see registry.h.
 *
 * A slot is published by a release store of its end and withdrawn by setting
 * it to 0. A reader that overlaps the withdrawal may still answer with the
 * pool: that is a program that frees memory of a context while it destroys
 * it.
 */
#include "pool/registry.h"

#include <errno.h>
#include <stddef.h>

#include "pool/lock.h"
#include "pool/pool.h"
#include "pool/state.h"

struct slot {
	uint64_t base; /* atomic; written while end is 0 */
	uint64_t end;  /* atomic; 0: not in use */
	struct gp_pool *pool;
	uint64_t serial; /* registry lock */
};

static struct slot slots[GP_REGISTRY_POOLS];
static unsigned num_slots; /* ever used; atomic, written under the lock */
static uint64_t serials;   /* registry lock */
static struct gp_lock lock = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.rank = GP_RANK_REGISTRY,
};

void gp_registry_lock(void)
{
	gp_lock(&lock);
}

void gp_registry_unlock(void)
{
	gp_unlock(&lock);
}

int gp_registry_add(struct gp_pool *pool)
{
	int rc = -ENOSPC;

	gp_lock(&lock);
	for (unsigned i = 0; i < GP_REGISTRY_POOLS; i++) {
		struct slot *s = &slots[i];

		if (s->serial)
			continue;
		s->serial = pool->serial = ++serials;
		pool->slot = i;
		__atomic_store_n(&s->pool, pool, __ATOMIC_RELAXED);
		__atomic_store_n(&s->base, pool->base, __ATOMIC_RELAXED);
		__atomic_store_n(&s->end, pool->base + pool->arena_bytes,
				 __ATOMIC_RELEASE);
		if (i >= num_slots)
			__atomic_store_n(&num_slots, i + 1, __ATOMIC_RELEASE);
		rc = 0;
		break;
	}
	gp_unlock(&lock);
	return rc;
}

void gp_registry_remove(struct gp_pool *pool)
{
	gp_lock(&lock);
	for (unsigned i = 0; i < GP_REGISTRY_POOLS; i++)
		if (slots[i].serial == pool->serial) {
			__atomic_store_n(&slots[i].end, 0, __ATOMIC_RELEASE);
			slots[i].serial = 0;
		}
	gp_unlock(&lock);
}

struct gp_pool *gp_registry_find(uint64_t serial)
{
	for (unsigned i = 0; i < GP_REGISTRY_POOLS; i++)
		if (serial && slots[i].serial == serial)
			return slots[i].pool;
	return NULL;
}

struct gp_pool *gp_pool_of(uint64_t va)
{
	unsigned n = __atomic_load_n(&num_slots, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < n; i++) {
		const struct slot *s = &slots[i];

		if (va < __atomic_load_n(&s->end, __ATOMIC_ACQUIRE) &&
		    va >= __atomic_load_n(&s->base, __ATOMIC_RELAXED))
			return __atomic_load_n(&s->pool, __ATOMIC_RELAXED);
	}
	return NULL;
}
