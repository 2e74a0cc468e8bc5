/*
 * What graphs allocate: addresses from the moment that a node is added, memory
 * behind them (graph_pages.h) from a launch on. All functions: locked.
 */
#ifndef SIM_GRAPH_MEMORY_H
#define SIM_GRAPH_MEMORY_H

#include "tests/sim/graph.h"
#include "tests/sim/graph_pages.h"

/* Addresses for `bytes` more, for a node behind `deps`: memory that was freed
 * by then has its addresses again. `device`: whose memory. */
CUresult sim_graph_take(struct sim_graph *graph, struct sim_ctx *ctx,
			struct sim_device *device, uint64_t bytes,
			struct sim_node *const *deps, size_t dep_count,
			struct sim_region **out);
/* May a node of the graph free it? One that has been added does. */
bool sim_graph_may_free(const struct sim_graph *graph,
			const struct sim_region *region);
void sim_graph_frees(struct sim_graph *graph, const struct sim_region *region,
		     struct sim_node *node);

/* Add a node that allocates for the graph, or frees memory of any: graph_nodes.c.
 */
CUresult sim_graph_node_alloc(struct sim_graph *graph, struct sim_ctx *ctx,
			      struct sim_device *device, uint64_t bytes,
			      struct sim_node *const *deps, size_t dep_count,
			      struct sim_node **out);
CUresult sim_graph_node_free(struct sim_graph *graph, CUdeviceptr va,
			     struct sim_node *const *deps, size_t dep_count,
			     struct sim_node **out);

/* It goes, and leaves what a launch left allocated. */
void sim_graph_memory_drop(struct sim_graph *graph);

/* Memory for all its addresses, as launches into `stream` have it. */
CUresult sim_graph_map(struct sim_graph *graph,
		       const struct sim_stream *stream);
/* The same, for a launch now; *run: a reference (NULL: it has no memory).
 * auto_free: what the last launch left allocated is freed. */
CUresult sim_graph_begin(struct sim_graph *graph,
			 const struct sim_stream *stream, bool auto_free,
			 struct sim_run **run);
/* There is no launch after all. */
void sim_graph_cancel(struct sim_graph *graph);

/* The program frees what a launch left allocated: at the call (false: that is
 * not so), and when the free is reached. */
bool sim_graph_freed(struct sim_region *region);
void sim_graph_reached(struct sim_region *region);
/* The region is being destroyed. */
void sim_graph_region_gone(struct sim_region *region);

#endif
