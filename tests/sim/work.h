/*
 * What one asynchronous operation does, apart from where it is queued: the
 * same description serves a stream's operation and a graph's node.
 */
#ifndef SIM_WORK_H
#define SIM_WORK_H

#include "tests/sim/sim.h"

enum sim_work_kind {
	SIM_W_SET,
	SIM_W_COPY,
	SIM_W_KERNEL,
	SIM_W_HOST,       /* host function */
	SIM_W_CALLBACK,   /* cuStreamAddCallback */
	SIM_W_MARK,       /* an event's record; nothing is done */
	SIM_W_WAIT,       /* for another operation */
	SIM_W_WRITE,      /* write value */
	SIM_W_POLL,       /* wait value */
	SIM_W_FREE,       /* stream-ordered free */
	SIM_W_GRAPH,      /* all nodes of a graph */
	SIM_W_NODE_ALLOC, /* a graph's own, see graph_memory.h: nothing is */
	SIM_W_NODE_FREE,  /* done where they stand */
};

/* A box of bytes: `depth` slices of `height` rows of `width` bytes. */
struct sim_box {
	CUdeviceptr va;
	uint64_t pitch, slice; /* from row to row, from slice to slice */
	uint64_t width, height, depth;
};

#define SIM_ARGS_MAX 4

/* Memory that a kernel uses: where argument i points to. */
struct sim_touch {
	enum { SIM_LEAVES, SIM_READS, SIM_WRITES } access;
	int words; /* the argument that counts them; -1: one word */
};

struct sim_kernel {
	const char *name;
	unsigned args;
	unsigned char size[SIM_ARGS_MAX]; /* bytes of each */
	/* What it does, without the lock; an error is the context's. */
	CUresult (*run)(struct sim_ctx *ctx, const uint64_t *args);
	struct sim_touch touch[SIM_ARGS_MAX];
};

struct sim_work {
	enum sim_work_kind kind;
	uint64_t us;  /* how long it takes */
	bool program; /* of a mark or wait: the program asked for it */
	struct sim_event *event; /* of a mark in a graph: what it records */
	struct sim_box dst, src;
	/* Of a copy: with whose access. NULL: the stream's. */
	struct sim_ctx *dst_ctx, *src_ctx;
	bool named;     /* the program named them: a peer copy */
	void *staging;  /* a copy's source, held until it is done */
	uint64_t value; /* of a set, write or wait value */
	unsigned bytes; /* of that value */
	unsigned flags; /* of a wait value */
	const struct sim_kernel *kernel;
	uint64_t args[SIM_ARGS_MAX];
	CUhostFn host;
	CUstreamCallback callback;
	void *data;
	struct sim_op *awaited;    /* a wait's; owned */
	struct sim_region *region; /* a free's */
	struct sim_exec *exec;     /* a graph's instance; owned */
	struct sim_run *run;       /* of a graph with memory; owned */
};

/* The box of a one-dimensional range. */
struct sim_box sim_box_line(CUdeviceptr va, uint64_t bytes);
/* From its first byte to its last; 0: it is empty. */
uint64_t sim_box_extent(const struct sim_box *box);

/* Do it, without the lock, on behalf of a stream of ctx. */
CUresult sim_work_run(struct sim_ctx *ctx, CUstream stream,
		      const struct sim_work *work);
/* Must it run where host functions run? */
bool sim_work_is_host(const struct sim_work *work);
/* Let go of what it owns. locked. */
void sim_work_drop(struct sim_work *work);

/* Check a copy or set and submit it, with the rules of the call that waits
 * (sync) or not. Takes the lock. copy.c. */
CUresult sim_transfer(CUstream stream, struct sim_work *work, bool sync);
/* An array's memory: address, bytes a row, rows a slice. array.c. locked. */
bool sim_array_layout(CUarray array, CUdeviceptr *va, size_t *pitch,
		      size_t *rows);

/* Kernels, by name. */
const struct sim_kernel *sim_kernel_find(const char *name);
bool sim_kernel_is(const void *kernel);

#endif
