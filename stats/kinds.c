/*
 * Counters by kind. No lock, so that a signal handler can read them and a
 * hook never waits; each figure is exact, a picture of several may be taken
 * between two of them.
 */
#include <stdatomic.h>

#include "stats/kinds.h"

struct counter {
	_Atomic uint64_t current, peak, allocated, freed;
};

/* Synchronization: atomic. A cache line or more each: kinds are used by
 * different threads. */
static struct {
	struct counter bytes, count;
} __attribute__((aligned(64))) kinds[GP_KIND_COUNT];

static void counter_add(struct counter *counter, uint64_t amount)
{
	uint64_t now, peak;

	atomic_fetch_add_explicit(&counter->allocated, amount,
				  memory_order_relaxed);
	now = amount + atomic_fetch_add_explicit(&counter->current, amount,
						 memory_order_relaxed);
	peak = atomic_load_explicit(&counter->peak, memory_order_relaxed);
	while (peak < now &&
	       !atomic_compare_exchange_weak_explicit(&counter->peak, &peak,
						      now, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* Never below zero: a free whose allocation was not seen (made before us, or
 * in a way we do not know) takes what there is. */
static void counter_sub(struct counter *counter, uint64_t amount)
{
	uint64_t now, taken;

	now = atomic_load_explicit(&counter->current, memory_order_relaxed);
	do {
		taken = amount < now ? amount : now;
	} while (!atomic_compare_exchange_weak_explicit(
		&counter->current, &now, now - taken, memory_order_relaxed,
		memory_order_relaxed));
	atomic_fetch_add_explicit(&counter->freed, taken, memory_order_relaxed);
}

static struct gp_stat counter_get(struct counter *counter)
{
	struct gp_stat stat = {
		.current = atomic_load_explicit(&counter->current,
						memory_order_relaxed),
		.peak = atomic_load_explicit(&counter->peak,
					     memory_order_relaxed),
		.allocated = atomic_load_explicit(&counter->allocated,
						  memory_order_relaxed),
		.freed = atomic_load_explicit(&counter->freed,
					      memory_order_relaxed),
	};

	/* The other thread may be between its two steps. */
	if (stat.peak < stat.current)
		stat.peak = stat.current;
	return stat;
}

void gp_kind_add(enum gp_kind kind, uint64_t bytes)
{
	counter_add(&kinds[kind].bytes, bytes);
	counter_add(&kinds[kind].count, 1);
}

void gp_kind_sub(enum gp_kind kind, uint64_t bytes)
{
	counter_sub(&kinds[kind].bytes, bytes);
	counter_sub(&kinds[kind].count, 1);
}

void gp_kind_get(enum gp_kind kind, struct gp_kind_stats *stats)
{
	stats->bytes = counter_get(&kinds[kind].bytes);
	stats->count = counter_get(&kinds[kind].count);
}

static void counter_reset(struct counter *counter)
{
	atomic_store_explicit(
		&counter->peak,
		atomic_load_explicit(&counter->current, memory_order_relaxed),
		memory_order_relaxed);
}

void gp_kinds_reset_peak(void)
{
	for (int i = 0; i < GP_KIND_COUNT; i++) {
		counter_reset(&kinds[i].bytes);
		counter_reset(&kinds[i].count);
	}
}

bool gp_kind_is_host(enum gp_kind kind)
{
	return kind == GP_KIND_pinned || kind == GP_KIND_registered;
}

const char *gp_kind_name(enum gp_kind kind)
{
	static const char *const names[] = {
#define X(name, help) #name,
		GP_KINDS(X)
#undef X
	};

	return (unsigned)kind < GP_KIND_COUNT ? names[kind] : "?";
}
