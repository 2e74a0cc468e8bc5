/*
 * The numbers of one pool, as plain data. One table drives the struct, the
 * report writers and the JSON keys.
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
	X(reserved_bytes, BYTES, "device memory the pool holds")              \
	X(allocation, COUNT, "live allocations")                              \
	X(segment, COUNT, "physical handles or segments held")

#define GP_POOL_COUNTERS(X)                                                  \
	X(num_alloc_calls, COUNT, "allocations asked of the pool")           \
	X(num_free_calls, COUNT, "frees of pool memory")                     \
	X(num_hits, COUNT, "allocations served without a driver call")       \
	X(num_ooms, COUNT, "allocations refused")                            \
	X(num_alloc_retries, COUNT, "allocations that had to reclaim first") \
	X(num_remaps, COUNT, "handles moved to another address")             \
	X(num_trims, COUNT, "times cached memory was given back")            \
	X(num_waits, COUNT, "waits on the host for the context's work")      \
	X(num_marks, COUNT, "marks made in the program's streams")           \
	X(num_stream_waits, COUNT, "waits put into streams")                 \
	X(num_result_waits, COUNT, "waits on the host for results it sees")  \
	X(num_memory_waits, COUNT, "waits on the host for idle memory")      \
	X(num_order_waits, COUNT, "waits on the host in place of a stream")  \
	X(num_deferred, COUNT, "frees set aside during a capture")           \
	X(num_driver_calls, COUNT, "driver calls the pool made")             \
	X(driver_ns, NS, "time spent in them")

/* Taken when the picture is taken. */
#define GP_POOL_LEVELS(X)                                                      \
	X(rounding_bytes, BYTES, "allocated above what was asked for")         \
	X(cached_bytes, BYTES, "reserved and free for the next request")       \
	X(largest_free_bytes, BYTES, "largest request a free range can serve") \
	X(free_ranges, COUNT, "free ranges")

struct gp_pool_stats {
#define X(name, unit, help) struct gp_stat name;
	GP_POOL_GAUGES(X)
#undef X
#define X(name, unit, help) uint64_t name;
	GP_POOL_COUNTERS(X)
	GP_POOL_LEVELS(X)
#undef X
};

#endif
