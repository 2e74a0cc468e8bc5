/*
 * The caching pool: one per CUDA context.
 *
 * Serves device memory of one context from an address range it reserved,
 * and keeps what the program frees for the next request. Knows the driver
 * only through driver.h.
 *
 * All functions are thread-safe unless they say otherwise. Sizes are bytes.
 * Errors are -errno as in driver.h, and:
 *   -ENOENT   the address is not the start of a live allocation
 *   -EINVAL   zero bytes, NULL
 */
#ifndef GP_POOL_H
#define GP_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "stats/pool_stats.h"
#include "stats/timeline.h"

struct gp_order;
struct gp_pool;

/* When a free waits on the host for results that the host may look at. */
enum gp_free_barrier {
	GP_BARRIER_AUTO,   /* for such results, if any are outstanding */
	GP_BARRIER_ALWAYS, /* for everything */
	GP_BARRIER_NEVER,
};

/* The order of the pool's context, for those that see the program's work. Lives
 * as long as the pool. */
struct gp_order *gp_pool_order(struct gp_pool *pool);

/* Alignment of what the pool hands out (CUDA: 512 B small; DMA-BUF and RDMA
 * users of large allocations need pages). */
#define GP_ALIGN_SMALL 512u
#define GP_ALIGN_LARGE (64u << 10)
#define GP_LARGE_FROM  (1u << 20)

enum gp_cache_policy {
	GP_CACHE_KEEP,  /* give memory back only when somebody needs it */
	GP_CACHE_DECAY, /* give back what has been idle for decay_ms */
	GP_CACHE_NONE,  /* give back at once what is wholly free */
};

#define GP_DIVISIONS \
	16 /* roundup_power2_divisions: slot k is [2^k,2^(k+1)) MiB */

/* Bytes beside a block that somebody wrote. */
struct gp_damage {
	uint64_t va, bytes; /* of the block, as the program has it */
	uint64_t guard;     /* so many before and behind it were looked at */
	int64_t first;      /* the first wrong one, counted from va */
	uint64_t wrong;     /* how many */
	uint32_t device;
};

/* What the pool needs of the configuration; conf/ fills it. Zeroed with
 * gp_pool_config_init() is the default. */
struct gp_pool_config {
	bool expandable_segments; /* virtual memory; default true */
	enum gp_cache_policy cache_policy;
	uint64_t decay_ms;
	double growth_factor;        /* >= 1.0 */
	uint64_t large_segment_size; /* 20 MiB */
	uint64_t max_split_size;     /* UINT64_MAX: unlimited */
	uint64_t max_non_split_rounding;
	double garbage_collection_threshold; /* 0: off */
	double overlap_slack; /* growth above peak live rather than a wait */
	uint32_t roundup_power2_divisions[GP_DIVISIONS]; /* 0: off */
	bool zero; /* what is handed out is filled with zeros */
	/* Debug aids, aids.h: what is freed is filled with a pattern; so many
	 * bytes before and behind each block are looked at when it is freed. */
	bool poison;
	uint64_t guard;
	/* Some of them were written; called in the free, with no lock held. */
	void (*damaged)(const struct gp_damage *damage);
	bool check; /* pool_check after every step */
	/* Frees wait on the host; default true. Else somebody must tell the
	 * order of all work (order.h). */
	bool sync;
	enum gp_free_barrier barrier;
};

void gp_pool_config_init(struct gp_pool_config *config);

/* Makes an empty pool: reserves address space, takes no device memory.
 * `config` is copied; `driver` is copied, driver->dev must outlive the pool. */
int gp_pool_create(const struct gp_driver *driver,
		   const struct gp_pool_config *config, struct gp_pool **pool);

/* Gives everything back and frees the pool. No other thread may be using
 * it. Live allocations become invalid, as after cudaDeviceReset. */
void gp_pool_destroy(struct gp_pool *pool);

/* Its context is about to be destroyed, and its segments with it: their
 * addresses are nobody's from now on, as the driver may hand them out before
 * gp_pool_destroy() comes. None is given back any more; a release under way is
 * waited for. `leaves` false: it was not destroyed. */
void gp_pool_leave(struct gp_pool *pool, bool leaves);

/* The pool that holds address va (live, free or interior), else NULL.
 * Lock-free; safe on any address at any time. */
struct gp_pool *gp_pool_of(uint64_t va);

/* Allocate. *va is aligned to GP_ALIGN_SMALL, from GP_LARGE_FROM bytes on
 * to GP_ALIGN_LARGE. On error *va is untouched. */
int gp_pool_alloc(struct gp_pool *pool, uint64_t bytes, uint64_t *va);

/* Free. What the program submits later is ordered behind all work so far, as
 * after cuMemFree; order.h says how, and what is waited for on the host. With
 * `sync` everything is, before the block can be handed out again; while a
 * stream captures the block is set aside instead. A failing wait is returned
 * (-EIO) after the block was taken from the program: it is freed all the same,
 * and reused only once a later wait succeeds. */
int gp_pool_free(struct gp_pool *pool, uint64_t va);

/* Free for a caller that orders its own streams: only work that gets the block
 * next is ordered behind what used it, and nothing is waited for. */
int gp_pool_free_own(struct gp_pool *pool, uint64_t va);

/* Free a block whose last use the caller has already waited for. */
int gp_pool_free_idle(struct gp_pool *pool, uint64_t va);

/* A live block, which the program does not know yet, was entered into
 * stats/sites.h under its address, with the pool's address as its owner: its
 * free, or the pool's end, takes it out there. */
void gp_pool_watch(struct gp_pool *pool, uint64_t va);

/* The live allocation that contains va: its start and requested bytes. */
int gp_pool_find(struct gp_pool *pool, uint64_t va, uint64_t *base,
		 uint64_t *bytes);

/* The same for an address anywhere in the block, the bytes beyond what was
 * asked for among it; *held: its size. */
int gp_pool_span(struct gp_pool *pool, uint64_t va, uint64_t *base,
		 uint64_t *bytes, uint64_t *held);

/* False: va is in a live block, but so many bytes go beyond what was asked for;
 * or in one that has been freed. True: they fit, or nothing is known. Any
 * thread. */
bool gp_pool_fits(struct gp_pool *pool, uint64_t va, uint64_t bytes);

/* Give back at least `bytes` of cached memory to the driver if there is so
 * much (UINT64_MAX: all that is possible). Returns the bytes given back. */
uint64_t gp_pool_trim(struct gp_pool *pool, uint64_t bytes);

/* The same for what is idle now, without a wait, and never more than `most`.
 * *more: the device still works on memory that a later call may give back. */
uint64_t gp_pool_trim_idle(struct gp_pool *pool, uint64_t bytes, uint64_t most,
			   bool *more);

/* Device memory that the pool holds, and has handed out, as last published. Any
 * thread, no lock. */
uint64_t gp_pool_reserved(const struct gp_pool *pool);
uint64_t gp_pool_allocated(const struct gp_pool *pool);

/* Who may reach the memory, as the driver's set_access says it, has changed: it is
 * told so for all that is mapped. 0 or -errno. */
int gp_pool_regrant(struct gp_pool *pool);

/* Housekeeping (decay); gpupool's own thread calls it about every decay_ms/4.
 * Never blocks a thread of the program for longer than one driver call. */
void gp_pool_tick(struct gp_pool *pool);

/* What threads keep for themselves goes where everybody finds it, so that the
 * figures of free memory are what a request would see. */
void gp_pool_collect(struct gp_pool *pool);

/* A consistent picture of the pool. Takes no lock that a program thread may
 * hold across a driver call. */
void gp_pool_get_stats(struct gp_pool *pool, struct gp_pool_stats *stats);

/* The curve of the pool's memory so far into points[0..GP_TIMELINE_POINTS), its
 * last point at *now; times are the driver's clock. Returns their number. */
size_t gp_pool_timeline(struct gp_pool *pool, struct gp_timeline_point *points,
			uint64_t *now);

/* Every peak becomes what is there now. */
void gp_pool_reset_peaks(struct gp_pool *pool);

/* The highest of a stretch of the program's run. */
struct gp_section_peak {
	uint64_t allocated, reserved; /* bytes, at one time each */
};

/* The peaks since the last call with `begin`, or since the pool was made; with
 * `begin` a new stretch starts. */
void gp_pool_section(struct gp_pool *pool, bool begin,
		     struct gp_section_peak *peak);

/* Check every invariant: each block in exactly one list, ranges disjoint and
 * covering, counters equal to sums. 0, or -EINVAL with a sentence in why. */
int gp_pool_check(struct gp_pool *pool, char *why, size_t why_size);

#endif
