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
#include <sys/mman.h>

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

uint64_t gp_registry_low = UINT64_MAX, gp_registry_high;

/* Under the lock. A reader that misses it overlaps the first use. */
static void widen(uint64_t low, uint64_t high)
{
	if (low < gp_registry_low)
		__atomic_store_n(&gp_registry_low, low, __ATOMIC_RELAXED);
	if (high > gp_registry_high)
		__atomic_store_n(&gp_registry_high, high, __ATOMIC_RELEASE);
}

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
		if (pool->has_vmm)
			widen(pool->base, pool->base + pool->arena_bytes);
		__atomic_store_n(&s->end,
				 pool->has_vmm ? pool->base + pool->arena_bytes
					       : 0,
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

/* ---- segments --------------------------------------------------------------- */

#define PAGE_SHIFT 21u
#define LEAF_BITS  14u
#define ROOT_BITS  14u
#define LEAF_PAGES (1u << LEAF_BITS)

/* Leaves are made under the registry's lock and never go; all words atomic. */
static struct gp_handle **leaves[1u << ROOT_BITS];
static bool any_segments;

static struct gp_handle **leaf_of(uint64_t page)
{
	if (page >> (LEAF_BITS + ROOT_BITS))
		return NULL;
	return __atomic_load_n(&leaves[page >> LEAF_BITS], __ATOMIC_ACQUIRE);
}

static int make_leaf(uint64_t page)
{
	struct gp_handle ***slot = &leaves[page >> LEAF_BITS];
	void *leaf;

	if (*slot)
		return 0;
	leaf = mmap(NULL, LEAF_PAGES * sizeof(void *), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (leaf == MAP_FAILED)
		return -ENOMEM;
	__atomic_store_n(slot, leaf, __ATOMIC_RELEASE);
	__atomic_store_n(&any_segments, true, __ATOMIC_RELEASE);
	return 0;
}

static struct gp_handle **word_of(uint64_t page)
{
	return &leaf_of(page)[page % LEAF_PAGES];
}

static uint64_t pages_of(const struct gp_handle *segment)
{
	uint64_t bytes = (uint64_t)segment->granules << GP_GRANULE_SHIFT;

	return (bytes + (1u << PAGE_SHIFT) - 1) >> PAGE_SHIFT;
}

int gp_registry_map(struct gp_pool *pool, struct gp_handle *segment)
{
	uint64_t bytes = (uint64_t)segment->granules << GP_GRANULE_SHIFT;
	uint64_t first = segment->id >> PAGE_SHIFT;
	uint64_t last = (segment->id + bytes - 1) >> PAGE_SHIFT;
	int rc = 0;

	if (segment->id % (1u << PAGE_SHIFT) || last >> (LEAF_BITS + ROOT_BITS))
		return -EINVAL;
	segment->pool = pool;
	gp_lock(&lock);
	for (uint64_t page = first; page <= last && !rc;
	     page = (page | (LEAF_PAGES - 1)) + 1)
		rc = make_leaf(page);
	for (uint64_t i = 0; i < pages_of(segment) && !rc; i++)
		__atomic_store_n(word_of(first + i), segment, __ATOMIC_RELEASE);
	if (!rc)
		widen(segment->id, segment->id + bytes);
	gp_unlock(&lock);
	return rc;
}

/* Where a context took the memory with it, another pool may have the address
 * already. */
void gp_registry_unmap(struct gp_handle *segment)
{
	uint64_t first = segment->id >> PAGE_SHIFT;

	for (uint64_t i = 0; i < pages_of(segment); i++) {
		struct gp_handle *own = segment;

		__atomic_compare_exchange_n(word_of(first + i), &own, NULL,
					    false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
	}
}

struct gp_handle *gp_registry_segment(uint64_t va)
{
	uint64_t page = va >> PAGE_SHIFT;
	struct gp_handle **leaf = leaf_of(page);

	if (!leaf)
		return NULL;
	return __atomic_load_n(&leaf[page % LEAF_PAGES], __ATOMIC_ACQUIRE);
}

/* ---- lookup ------------------------------------------------------------------- */

struct gp_pool *gp_pool_of(uint64_t va)
{
	unsigned n = __atomic_load_n(&num_slots, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < n; i++) {
		const struct slot *s = &slots[i];

		if (va < __atomic_load_n(&s->end, __ATOMIC_ACQUIRE) &&
		    va >= __atomic_load_n(&s->base, __ATOMIC_RELAXED))
			return __atomic_load_n(&s->pool, __ATOMIC_RELAXED);
	}
	if (!__atomic_load_n(&any_segments, __ATOMIC_RELAXED))
		return NULL;
	const struct gp_handle *segment = gp_registry_segment(va);

	return segment && !__atomic_load_n(&segment->pool->leaves,
					   __ATOMIC_ACQUIRE)
		       ? segment->pool
		       : NULL;
}
