/*
 * The numbers of one pool, as plain data. One table drives the struct, the
 * report writers and the JSON keys.
 *
 * Gauges have PyTorch's names and, as there, stand for all memory, for the
 * small pool and for the large one. Here the small pool is what slabs serve:
 * blocks below 1 MiB. Where the notions differ:
 *
 *   active          allocated, and freed blocks that may not be handed out
 *                   before the host has waited for work (set aside: during a
 *                   capture, with reuse:sync). Memory that is free in stream
 *                   order is not active: it can be handed out at once.
 *   segment         handles of physical memory, with
 *                   expandable_segments:False segments; of the small pool:
 *                   those mapped in the slabs' part of the address space. One
 *                   that moves from part to part is freed here, allocated
 *                   there. One whose mapping failed is in neither part.
 *   inactive_split  free ranges that hold memory of a handle of which another
 *                   part is in use: it can neither move nor be given back.
 *                   Changes between two looks at the pool are not seen.
 *   peaks of the small and the large pool: exact for one thread that uses one
 *                   of them; else a little below, as are those of several
 *                   threads (pool/account.h).
 *   oversize        from max_split_size_mb on, with
 *                   expandable_segments:False; else 0. Allocations: again
 *                   without changes between two looks.
 */
#ifndef GP_STATS_POOL_STATS_H
#define GP_STATS_POOL_STATS_H

#include <stdint.h>

/* A quantity over time, under PyTorch's names: what it is now, its highest
 * value, everything ever added, everything ever taken away. */
struct gp_stat {
	uint64_t current;
	uint64_t peak;
	uint64_t allocated;
	uint64_t freed;
};

/* X(name, unit, help) */
#define GP_POOL_GAUGES(X)                                                     \
	X(allocated_bytes, BYTES, "handed to the program, rounding included") \
	X(requested_bytes, BYTES, "what the program asked for")               \
	X(active_bytes, BYTES, "allocated, or freed and not usable yet")      \
	X(reserved_bytes, BYTES, "device memory the pool holds")              \
	X(inactive_split_bytes, BYTES, "free, beside what is in use")         \
	X(allocation, COUNT, "live allocations")                              \
	X(active, COUNT, "live, or freed and not usable yet")                 \
	X(segment, COUNT, "physical handles or segments held")                \
	X(inactive_split, COUNT, "free ranges beside what is in use")

/* The same, not by pool. */
#define GP_POOL_OVERSIZE(X)                                            \
	X(oversize_allocations, COUNT, "live, from max_split_size on") \
	X(oversize_segments, COUNT, "segments from max_split_size on")

#define GP_POOL_COUNTERS(X)                                                   \
	X(num_alloc_calls, COUNT, "allocations asked of the pool")            \
	X(num_free_calls, COUNT, "frees of pool memory")                      \
	X(num_hits, COUNT, "allocations served without a driver call")        \
	X(num_ooms, COUNT, "allocations refused")                             \
	X(num_alloc_retries, COUNT, "allocations that had to reclaim first")  \
	X(num_remaps, COUNT, "handles moved to another address")              \
	X(num_trims, COUNT, "times cached memory was given back")             \
	X(num_marks, COUNT, "marks put into streams, to order reuse")         \
	X(num_stream_waits, COUNT,                                            \
	  "times a stream waited for a mark, on the GPU")                     \
	X(num_waits, COUNT, "frees that kept the program waiting")            \
	X(num_result_waits, COUNT,                                            \
	  "waits of the program for results it may read")                     \
	X(num_memory_waits, COUNT,                                            \
	  "waits of the program to move or give back")                        \
	X(num_order_waits, COUNT, "waits of the program in a stream's place") \
	X(num_deferred, COUNT, "frees set aside until work was done")         \
	X(num_driver_calls, COUNT,                                            \
	  "driver calls that get or give back memory")                        \
	X(driver_ns, NS, "time spent in them")

/* Taken when the picture is taken. */
#define GP_POOL_LEVELS(X)                                                      \
	X(rounding_bytes, BYTES, "allocated above what was asked for")         \
	X(cached_bytes, BYTES, "reserved and free for the next request")       \
	X(movable_bytes, BYTES, "cached, in handles that are wholly free")     \
	X(largest_free_bytes, BYTES, "largest request a free range can serve") \
	X(free_ranges, COUNT, "free ranges")                                   \
	X(saved_ns, NS, "driver time saved, estimated")

/* What the pool asks of the driver, timed each. X(name, what it is) */
#define GP_TIMED_CALLS(X)                 \
	X(reserve, "cuMemAddressReserve") \
	X(unreserve, "cuMemAddressFree")  \
	X(create, "cuMemCreate")          \
	X(release, "cuMemRelease")        \
	X(map, "cuMemMap")                \
	X(set_access, "cuMemSetAccess")   \
	X(unmap, "cuMemUnmap")            \
	X(segment_alloc, "cuMemAlloc")    \
	X(segment_free, "cuMemFree")

enum gp_timed_call {
#define X(name, function) GP_TIMED_##name,
	GP_TIMED_CALLS(X)
#undef X
		GP_TIMED_COUNT
};

struct gp_call_stat {
	uint64_t calls, ns;
};

struct gp_pool_stats {
#define X(name, unit, help) struct gp_stat name, name##_small, name##_large;
	GP_POOL_GAUGES(X)
#undef X
#define X(name, unit, help) struct gp_stat name;
	GP_POOL_OVERSIZE(X)
#undef X
#define X(name, unit, help) uint64_t name;
	GP_POOL_COUNTERS(X)
	GP_POOL_LEVELS(X)
#undef X
	struct gp_call_stat calls[GP_TIMED_COUNT];
	uint64_t max_split_size; /* UINT64_MAX: unlimited */
	/* The highest of the whole run; peaks may have been reset. */
	uint64_t most_allocated_bytes, most_reserved_bytes;
};

/* The pools of one device together; peaks add up to more than ever was at one
 * time. */
void gp_pool_stats_add(struct gp_pool_stats *sum,
		       const struct gp_pool_stats *stats);

/* Every peak becomes what is there now. */
void gp_pool_stats_reset_peak(struct gp_pool_stats *stats);

/* The pool's memory went with its context. */
void gp_pool_stats_drop(struct gp_pool_stats *stats);

#endif
