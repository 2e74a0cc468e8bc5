/*
 * What a device's ledger says, as plain data.
 */
#ifndef GP_STATS_LIMIT_STATS_H
#define GP_STATS_LIMIT_STATS_H

#include <stdint.h>

/* X(name, help): what may count against the limit of a device. Those that are
 * kinds of kinds.h bear their names. */
#define GP_LIMIT_PARTS(X)                                       \
	X(pool, "the pool")                                     \
	X(plain, "cuMemAlloc passed through to the driver")     \
	X(async, "pools of cudaMallocAsync, what they reserve") \
	X(managed, "managed memory (cudaMallocManaged)")        \
	X(array, "arrays and mipmapped arrays")                 \
	X(virtual, "the program's own cuMemCreate")             \
	X(graph, "memory of graphs, what the driver reserves")  \
	X(external, "imported external memory")                 \
	X(context, "contexts, as measured when made")

enum gp_limit_part {
#define X(name, help) GP_PART_##name,
	GP_LIMIT_PARTS(X)
#undef X
		GP_PART_NUM
};

/* What counts there, for people. */
const char *gp_limit_part_help(enum gp_limit_part part);

#define GP_NO_LIMIT UINT64_MAX

struct gp_limit_stats {
	uint64_t cap;  /* bytes, or GP_NO_LIMIT */
	uint64_t held; /* what counts against it now: the sum of the parts */
	uint64_t peak; /* the most there ever was */
	uint64_t refusals; /* requests that it left no room for */
	uint64_t part[GP_PART_NUM];
};

#endif
