/*
 * Memory of graphs. The driver takes it at a launch (or upload), keeps it for the
 * graph, and says only what it has for all graphs of a device together; what it
 * takes cannot be refused any more. So on a device with a cap a launch reserves
 * all that its graph can need, unless the graph surely has it already, and the
 * answer afterwards is what counts.
 *
 * Thread-safe. Sizes are bytes.
 */
#ifndef GP_SHIM_GRAPHS_H
#define GP_SHIM_GRAPHS_H

#include "shim/hooks.h"

/* A graph that allocates on more devices is only counted. */
#define GP_GRAPH_DEVICES 16

/* What the nodes of a graph take. */
struct gp_graph_need {
	bool told; /* false: the driver does not say; nothing below is known */
	bool leaves; /* a launch leaves some of it allocated */
	unsigned num;
	struct {
		CUdevice device;
		uint64_t bytes;
	} on[GP_GRAPH_DEVICES];
};

/* No lock is held. */
void gp_graph_ask(CUgraph graph, struct gp_graph_need *need);

/* One launch or upload, from begin to end. On the caller's stack. */
struct gp_graph_launch {
	CUgraphExec exec; /* NULL: there is none yet */
	uintptr_t stream; /* 0: it cannot be told from others */
	bool leaves;
	unsigned num; /* 0: nothing is to be done */
	struct gp_graph_share {
		CUdevice device;
		uint64_t bytes;  /* that the nodes take */
		uint64_t taken;  /* reserved on the ledger */
		uint64_t before; /* charged for graphs, then */
		uint64_t era;    /* of the device, then; 0: it was ending */
		bool leans;      /* it has its memory already */
		bool alone;      /* with no other launch */
	} on[GP_GRAPH_DEVICES];
};

/* Set once a graph may allocate. Synchronization: atomic, relaxed. */
extern bool gp_graphs_allocate;

static inline bool gp_graphs_may_allocate(void)
{
	return __builtin_expect(
		__atomic_load_n(&gp_graphs_allocate, __ATOMIC_RELAXED), 0);
}

/* The program adds an allocation of `bytes` to one. False: the limit leaves no
 * room for that. */
bool gp_graph_memory(CUdevice device, uint64_t bytes, const char *call);

#if CUDA_VERSION >= 12020
/* The same of any node, and that it was added: returns `rc`, the driver's
 * answer. */
bool gp_graph_may_add(const CUgraphNodeParams *params);
CUresult gp_graph_added(CUresult rc, const CUgraphNodeParams *params);
#endif

/* Out of line. `stream`: as the driver takes it, never NULL. False: the limit
 * leaves no room; the refusal was told. */
bool gp_graph_begin_launch(struct gp_graph_launch *launch, CUgraphExec exec,
			   CUstream stream, const char *call);
/* The same of a graph that will be uploaded as it is instantiated. */
bool gp_graph_begin_upload(struct gp_graph_launch *launch, CUgraph graph,
			   const char *call);
void gp_graph_end_launch(struct gp_graph_launch *launch, CUresult rc);

static inline bool gp_graph_begin(struct gp_graph_launch *launch,
				  CUgraphExec exec, CUstream stream,
				  const char *call)
{
	launch->num = 0;
	return !gp_graphs_may_allocate() ||
	       gp_graph_begin_launch(launch, exec, stream, call);
}

/* The driver answered `rc`. */
static inline void gp_graph_end(struct gp_graph_launch *launch, CUresult rc)
{
	if (__builtin_expect(launch->num, 0))
		gp_graph_end_launch(launch, rc);
}

/* It has been instantiated; will be destroyed (before the call: the handle may
 * come back at once). */
void gp_graph_instantiated(CUgraphExec exec, CUgraph graph);
void gp_graph_exec_goes(CUgraphExec exec);
/* It was last launched into `stream`, in this era of the device: see
 * graph_memory.c. False: nobody knows it, so it does not allocate. *era 0: into
 * another stream. */
bool gp_graph_exec_find(CUgraphExec exec, uintptr_t stream,
			struct gp_graph_need *need, uint64_t *era);
void gp_graph_exec_has(CUgraphExec exec, uintptr_t stream, uint64_t era);
/* So will a stream, or some context has been: the handles may come back. */
void gp_graph_stream_goes(CUstream stream);
void gp_graph_context_gone(void);

/* Ask what the driver has for graphs of the device. */
void gp_graph_refresh(CUdevice device);
/* Let it give back what no graph uses now. Returns the bytes that came back.
 * Waits for nothing. */
uint64_t gp_graph_trim(CUdevice device);
/* The program does so, between the two: false: it is not watched. */
bool gp_graph_trim_begin(CUdevice device);
void gp_graph_trim_end(CUdevice device);

#endif
