/*
 * Graphs: nodes with work and the nodes they come after. A node's number is
 * greater than those of all it comes after.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "tests/sim/work.h"

struct sim_node {
	size_t number;
	struct sim_node **deps; /* owned */
	size_t dep_count;
	struct sim_work work; /* owned */
};

/* An allocation of a graph. */
struct sim_graph_part {
	CUdeviceptr va;
	uint64_t id; /* of its region */
	struct sim_node
		*freed_by; /* a node of the graph; NULL: none frees it */
};

/* Nodes are only added, never changed. Guarded by sim.lock. */
struct sim_graph {
	unsigned refs;
	struct sim_node **nodes; /* owned */
	size_t count;
	bool has_memory;    /* it allocates, or frees what others do */
	unsigned num_execs; /* instances that have not been destroyed */
	struct sim_graph_part *memory; /* owned; see graph_memory.h */
	size_t memory_count;
	struct sim_slot **slots; /* owned; where that lies */
	size_t num_slots;
	struct sim_run *run; /* of the latest launch; a reference, or NULL */
};

/* An instance: the nodes there were. Guarded by sim.lock, then immutable. */
struct sim_exec {
	unsigned refs;
	struct sim_graph *graph; /* a reference */
	struct sim_node **nodes; /* owned array of the graph's nodes */
	size_t count;
	bool has_host;
	bool auto_free; /* a launch frees what the last one left allocated */
	uint64_t us;    /* the longest way through */
	/* The latest launch, until it is destroyed: a reference. Changes. */
	struct sim_op *last;
};

/* All locked. */
struct sim_graph *sim_graph_new(void);
void sim_graph_ref(struct sim_graph *graph);
void sim_graph_unref(struct sim_graph *graph);
void sim_exec_unref(struct sim_exec *exec);
/* The graph behind a handle, else NULL. */
struct sim_graph *sim_graph_of(CUgraph handle);
/* Add a node that takes over what `work` owns; NULL: no host memory. */
struct sim_node *sim_graph_add(struct sim_graph *graph, struct sim_work *work,
			       struct sim_node *const *deps, size_t dep_count);
/* Is `node` one of `from`, or before one of them? */
bool sim_node_before(const struct sim_node *node, struct sim_node *const *from,
		     size_t count);

/* Run all nodes, in an order their dependencies allow. Without the lock. */
CUresult sim_exec_run(const struct sim_exec *exec, struct sim_ctx *ctx,
		      CUstream stream);

#endif
