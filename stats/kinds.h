/*
 * Device and pinned memory that does not come from the pool, by kind.
 * Lock-free counters; any thread, also a signal handler, may read them.
 */
#ifndef GP_STATS_KINDS_H
#define GP_STATS_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/pool_stats.h"

/* X(name, help) */
#define GP_KINDS(X)                                              \
	X(plain, "cuMemAlloc passed through to the driver")      \
	X(async, "stream-ordered allocations (cudaMallocAsync)") \
	X(managed, "managed memory (cudaMallocManaged)")         \
	X(array, "arrays and mipmapped arrays")                  \
	X(virtual, "the program's own cuMemCreate")              \
	X(graph, "allocation nodes of graphs")                   \
	X(external, "imported external memory and IPC handles")  \
	X(pinned, "pinned host memory (cudaMallocHost)")         \
	X(registered, "registered host memory (cudaHostRegister)")

enum gp_kind {
#define X(name, help) GP_KIND_##name,
	GP_KINDS(X)
#undef X
		GP_KIND_COUNT
};

struct gp_kind_stats {
	struct gp_stat bytes;
	struct gp_stat count;
};

/* One allocation of `bytes` of that kind came or went. */
void gp_kind_add(enum gp_kind kind, uint64_t bytes);
void gp_kind_sub(enum gp_kind kind, uint64_t bytes);

/* A picture of one kind. */
void gp_kind_get(enum gp_kind kind, struct gp_kind_stats *stats);

/* Every peak becomes what is there now. */
void gp_kinds_reset_peak(void);

/* True for kinds that take host memory (pinned, registered). */
bool gp_kind_is_host(enum gp_kind kind);

/* The kind's name, a string constant ("managed"). */
const char *gp_kind_name(enum gp_kind kind);

#endif
