/*
 * The pool's figures: what is counted, what is observed, and what follows from
 * that. See stats/pool_stats.h for what each means.
 */
#include <stddef.h>
#include <string.h>

#include "pool/cache.h"
#include "pool/state.h"

void gp_pool_collect(struct gp_pool *pool)
{
	gp_lock(&pool->lock);
	gp_cache_flush_all(pool, NULL, GP_CACHE_PART_ALL);
	gp_unlock(&pool->lock);
}

/* ---- free memory -------------------------------------------------------------- */

/* Free memory of one part: all of it, what of it is bound to handles that are
 * in use elsewhere, and in how many ranges that is. Bytes. */
struct free_memory {
	uint64_t bytes, bound, ranges, bound_ranges, largest;
};

/* Of a free range, what is in wholly free handles. */
static uint64_t unbound(const struct gp_pool *pool, const struct gp_block *b)
{
	uint64_t at = gp_block_granule(b), end = gp_block_end(b);
	uint64_t granules = 0;

	while (at < end) {
		const struct gp_handle *h = gp_backing_at(pool, at);

		if (h->used == 0)
			granules += h->granules;
		at = h->granule + h->granules;
	}
	return granules << GP_GRANULE_SHIFT;
}

static void look_at_ranges(const struct gp_pool *pool,
			   const struct gp_ranges *ranges,
			   struct free_memory *memory)
{
	const struct gp_block *b;

	for (b = gp_ranges_best(ranges, 1); b; b = gp_ranges_next(ranges, b)) {
		uint64_t bytes = gp_block_bytes(b);
		uint64_t loose = unbound(pool, b);

		memory->bytes += bytes;
		memory->bound += bytes - loose;
		memory->ranges++;
		memory->bound_ranges += loose < bytes;
		if (bytes > memory->largest)
			memory->largest = bytes;
	}
}

static uint64_t largest_in(const struct gp_slab_part *part)
{
	unsigned i = sizeof(part->used) / sizeof(part->used[0]);

	while (i-- > 0)
		if (part->used[i])
			return (i * 64u + 63u -
				(unsigned)__builtin_clzll(part->used[i]))
			       << GP_GRANULE_SHIFT;
	return 0;
}

/* A slab is in use as a whole, but for one that is kept with nothing in it. */
static void look_at_slabs(struct gp_slab_part *part, struct free_memory *memory)
{
	const struct gp_block *b;
	uint64_t bytes, largest;

	gp_lock(&part->lock);
	bytes = part->granules << GP_GRANULE_SHIFT;
	memory->bytes += bytes;
	memory->bound += bytes;
	largest = largest_in(part);
	if (largest > memory->largest)
		memory->largest = largest;
	memory->ranges += part->free_blocks;
	memory->bound_ranges += part->free_blocks;
	for (b = part->bins[GP_SLAB_GRANULES]; b; b = b->right) {
		memory->bound -= gp_block_bytes(b);
		memory->bound_ranges--;
	}
	gp_unlock(&part->lock);
}

static void observe_free(struct gp_pool *pool, struct free_memory *all)
{
	struct gp_account *account = &pool->account;
	struct free_memory of[GP_NUM_CLASSES] = {0};

	look_at_ranges(pool, &pool->regions[GP_REGION_LARGE].ranges,
		       &of[GP_CLASS_LARGE]);
	look_at_ranges(pool, &pool->regions[GP_REGION_SLABS].ranges,
		       &of[GP_CLASS_SMALL]);
	for (uint32_t i = 0; i < pool->slabs.num_parts; i++)
		look_at_slabs(&pool->slabs.parts[i], &of[GP_CLASS_SMALL]);
	for (int i = GP_CLASS_SMALL; i < GP_NUM_CLASSES; i++) {
		of[0].bytes += of[i].bytes;
		of[0].bound += of[i].bound;
		of[0].ranges += of[i].ranges;
		of[0].bound_ranges += of[i].bound_ranges;
		if (of[i].largest > of[0].largest)
			of[0].largest = of[i].largest;
	}
	for (int i = 0; i < GP_NUM_CLASSES; i++) {
		gp_stat_observe(&account->split[0][i], of[i].bound);
		gp_stat_observe(&account->split[1][i], of[i].bound_ranges);
	}
	*all = of[GP_CLASS_ALL];
}

/* ---- live memory ---------------------------------------------------------------- */

/* What is not large; its peak is kept apart. */
static struct gp_stat rest(const struct gp_stat *all,
			   const struct gp_stat *large, uint64_t peak)
{
	return (struct gp_stat){
		.current = all->current - large->current,
		.peak = peak,
		.allocated = all->allocated - large->allocated,
		.freed = all->freed - large->freed,
	};
}

static void split_by_size(const struct gp_account *a, enum gp_measure measure,
			  struct gp_stat out[GP_NUM_CLASSES])
{
	const struct gp_stat *all = &a->sum[measure];
	const struct gp_stat *large = &a->sum[GP_M_LARGE + measure];

	out[GP_CLASS_ALL] = *all;
	out[GP_CLASS_LARGE] = *large;
	out[GP_CLASS_SMALL] = rest(all, large, a->small_peak[measure]);
}

/* Allocated, and what is set aside. */
static void observe_active(struct gp_account *a, int kind, int class,
			   const struct gp_stat *live, uint64_t aside,
			   struct gp_stat *active)
{
	uint64_t *peak = &a->active_peak[kind][class];

	*active = *live;
	active->current += aside;
	active->freed -= aside;
	if (active->current > *peak)
		*peak = active->current;
	if (*peak > active->peak)
		active->peak = *peak;
}

/* Bytes and number of a list's blocks, added to `aside`. */
static void look_aside(const struct gp_block *b,
		       uint64_t aside[2][GP_NUM_CLASSES])
{
	for (; b; b = b->right) {
		uint64_t bytes = gp_block_bytes(b);
		int class =
			bytes < GP_LARGE_FROM ? GP_CLASS_SMALL : GP_CLASS_LARGE;

		aside[0][GP_CLASS_ALL] += bytes;
		aside[1][GP_CLASS_ALL]++;
		aside[0][class] += bytes;
		aside[1][class]++;
	}
}

/* With segments and a limit to splitting. There are few of them. */
static uint64_t count_oversize(const struct gp_pool *pool)
{
	uint64_t n = 0;

	if (pool->has_vmm || pool->config.max_split_size == UINT64_MAX)
		return 0;
	for (const struct gp_block *b = pool->arena.first; b; b = b->next)
		n += gp_state_is_live(gp_block_state(b)) &&
		     gp_block_bytes(b) >= pool->config.max_split_size;
	return n;
}

/* ---- the driver ----------------------------------------------------------------- */

static double mean(const struct gp_call_stat *stat)
{
	return stat->calls ? (double)stat->ns / (double)stat->calls : 0;
}

/* What the allocations and frees that made no driver call would have taken: as
 * many times the mean of this program's own calls for one handle or segment.
 * That an allocation of one handle costs about what cuMemAlloc does, and giving
 * it back what cuMemFree does, was measured; the wait for running work in
 * cuMemFree comes on top and is not counted. Without a call to measure, 0. */
static uint64_t saved_ns(const struct gp_pool *pool,
			 const struct gp_pool_stats *s)
{
	const struct gp_call_stat *calls = s->calls;
	const struct gp_stat *made = &s->segment;
	uint64_t allocs = s->allocation.allocated, frees = s->num_free_calls;
	double take, give;

	allocs -= allocs < made->allocated ? allocs : made->allocated;
	frees -= frees < made->freed ? frees : made->freed;
	if (pool->has_vmm) {
		take = mean(&calls[GP_TIMED_create]) +
		       mean(&calls[GP_TIMED_map]) +
		       mean(&calls[GP_TIMED_set_access]);
		give = mean(&calls[GP_TIMED_unmap]) +
		       mean(&calls[GP_TIMED_release]);
	} else {
		take = mean(&calls[GP_TIMED_segment_alloc]);
		give = mean(&calls[GP_TIMED_segment_free]);
	}
	return (uint64_t)((double)allocs * take + (double)frees * give);
}

static void driver_figures(struct gp_pool *pool, struct gp_pool_stats *stats)
{
	gp_call_figures(pool, stats->calls);
	for (int i = 0; i < GP_TIMED_COUNT; i++) {
		stats->num_driver_calls += stats->calls[i].calls;
		stats->driver_ns += stats->calls[i].ns;
	}
	stats->saved_ns = saved_ns(pool, stats);
}

static void order_figures(const struct gp_order *order,
			  struct gp_pool_stats *stats)
{
	const struct gp_order_counters *c = &order->counters;

	stats->num_marks = __atomic_load_n(&c->marks, __ATOMIC_RELAXED);
	stats->num_stream_waits =
		__atomic_load_n(&c->stream_waits, __ATOMIC_RELAXED);
	stats->num_result_waits =
		__atomic_load_n(&c->wait_results, __ATOMIC_RELAXED);
	stats->num_memory_waits =
		__atomic_load_n(&c->wait_memory, __ATOMIC_RELAXED);
	stats->num_order_waits =
		__atomic_load_n(&c->wait_streams, __ATOMIC_RELAXED);
}

/* ---- the picture ---------------------------------------------------------------- */

#define CLASSES(stats, name)                                                   \
	(struct gp_stat *const[GP_NUM_CLASSES])                                \
	{                                                                      \
		&(stats)->name, &(stats)->name##_small, &(stats)->name##_large \
	}

static void put(struct gp_stat *const to[GP_NUM_CLASSES],
		const struct gp_stat from[GP_NUM_CLASSES])
{
	for (int i = 0; i < GP_NUM_CLASSES; i++)
		*to[i] = from[i];
}

/* Under the lock, with every tally in the sums. */
static void gauges(struct gp_pool *pool, struct gp_pool_stats *s)
{
	struct gp_account *a = &pool->account;
	struct gp_stat live[2][GP_NUM_CLASSES], active[2][GP_NUM_CLASSES];
	struct gp_stat of[GP_NUM_CLASSES];
	uint64_t aside[2][GP_NUM_CLASSES] = {0};

	split_by_size(a, GP_M_ALLOCATED, live[0]);
	split_by_size(a, GP_M_COUNT, live[1]);
	split_by_size(a, GP_M_REQUESTED, of);
	put(CLASSES(s, requested_bytes), of);
	look_aside(pool->aside, aside);
	look_aside(pool->notes.lent, aside);
	for (int kind = 0; kind < 2; kind++)
		for (int class = 0; class < GP_NUM_CLASSES; class ++)
			observe_active(a, kind, class, &live[kind][class],
				       aside[kind][class],
				       &active[kind][class]);
	put(CLASSES(s, allocated_bytes), live[0]);
	put(CLASSES(s, allocation), live[1]);
	put(CLASSES(s, active_bytes), active[0]);
	put(CLASSES(s, active), active[1]);
	put(CLASSES(s, inactive_split_bytes), a->split[0]);
	put(CLASSES(s, inactive_split), a->split[1]);
	put(CLASSES(s, reserved_bytes), a->class_reserved);
	put(CLASSES(s, segment), a->class_segments);
	s->reserved_bytes = a->reserved;
	s->segment = a->segments;
	s->oversize_segments = a->oversize_segments;
	gp_stat_observe(&a->oversize, count_oversize(pool));
	s->oversize_allocations = a->oversize;
}

void gp_pool_get_stats(struct gp_pool *pool, struct gp_pool_stats *stats)
{
	const struct gp_account *a = &pool->account;
	struct free_memory memory;

	*stats = (struct gp_pool_stats){0};
	gp_lock(&pool->lock);
	gp_cache_publish_all(pool, NULL);
	observe_free(pool, &memory);
	gauges(pool, stats);
	stats->num_alloc_calls = stats->allocation.allocated + a->ooms;
	stats->num_free_calls = stats->allocation.freed;
	stats->num_hits = stats->allocation.allocated - a->misses;
	stats->num_ooms = a->ooms;
	stats->num_alloc_retries = a->retries;
	stats->num_remaps = a->remaps;
	stats->num_trims = a->trims;
	stats->num_deferred = a->deferred;
	stats->num_waits = a->waits;
	stats->free_ranges = memory.ranges;
	stats->largest_free_bytes = memory.largest;
	stats->movable_bytes = memory.bytes - memory.bound;
	stats->max_split_size = pool->config.max_split_size;
	stats->most_allocated_bytes = a->most_live;
	stats->most_reserved_bytes = a->most_reserved;
	gp_unlock(&pool->lock);
	order_figures(&pool->order, stats);
	driver_figures(pool, stats);
	stats->rounding_bytes =
		stats->allocated_bytes.current - stats->requested_bytes.current;
	stats->cached_bytes =
		stats->reserved_bytes.current - stats->allocated_bytes.current;
}

size_t gp_pool_timeline(struct gp_pool *pool, struct gp_timeline_point *points,
			uint64_t *now)
{
	const struct gp_timeline *t = &pool->timeline;
	size_t n;

	gp_lock(&pool->lock);
	gp_cache_publish_all(pool, NULL);
	n = t->n;
	memcpy(points, t->points, n * sizeof(*points));
	*now = points[n - 1].ns;
	gp_unlock(&pool->lock);
	return n;
}

/* ---- peaks ---------------------------------------------------------------------- */

static void reset(struct gp_stat *stat)
{
	stat->peak = stat->current;
}

void gp_pool_reset_peaks(struct gp_pool *pool)
{
	struct gp_account *a = &pool->account;

	gp_lock(&pool->lock);
	gp_cache_publish_all(pool, NULL);
	for (int i = 0; i < GP_M_NUM; i++)
		reset(&a->sum[i]);
	for (int i = 0; i < GP_M_LARGE; i++)
		a->small_peak[i] =
			a->sum[i].current - a->sum[GP_M_LARGE + i].current;
	reset(&a->reserved);
	reset(&a->segments);
	reset(&a->oversize_segments);
	reset(&a->oversize);
	for (int class = 0; class < GP_NUM_CLASSES; class ++) {
		reset(&a->class_reserved[class]);
		reset(&a->class_segments[class]);
		for (int kind = 0; kind < 2; kind++) {
			reset(&a->split[kind][class]);
			a->active_peak[kind][class] = 0;
		}
	}
	gp_unlock(&pool->lock);
}

void gp_pool_section(struct gp_pool *pool, bool begin,
		     struct gp_section_peak *peak)
{
	struct gp_account *a = &pool->account;

	gp_lock(&pool->lock);
	gp_cache_publish_all(pool, NULL);
	*peak = a->section;
	if (begin)
		a->section = (struct gp_section_peak){
			.allocated = a->sum[GP_M_ALLOCATED].current,
			.reserved = a->reserved.current,
		};
	gp_unlock(&pool->lock);
}
