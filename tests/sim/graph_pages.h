/*
 * The memory of graphs (CUDA C++ Programming Guide, "Graph Memory Nodes").
 *
 * Each device has one pool of pages for all graphs, apart from the pools of
 * stream-ordered memory. A page is put behind a graph's addresses when the graph
 * is launched or uploaded, and stays there. Graphs that were launched into one
 * stream, where they cannot meet, have pages in common, but for what a launch
 * left allocated; a graph that comes into another stream gets others. Pages go
 * back to the device only when that is asked for, with its last context, or when
 * a launch finds no more. All functions: locked.
 */
#ifndef SIM_GRAPH_PAGES_H
#define SIM_GRAPH_PAGES_H

#include "tests/sim/sim.h"

/* Addresses of whole pages: one large allocation, or several small ones. Lives
 * as long as its graph and what was allocated there. */
struct sim_slot {
	unsigned refs; /* the graph, and each region */
	unsigned held; /* regions that a launch left allocated */
	struct sim_device *device;
	CUdeviceptr va;
	uint64_t bytes;
	uint64_t filled;          /* of small allocations */
	struct sim_page **page;   /* owned array; NULL: nothing is mapped */
	struct sim_map *map;      /* owned array, as long */
	struct sim_page **chosen; /* owned array, or NULL: what it gets next */
	struct sim_list link;     /* in the pool, while it is mapped */
};

/* The work of a launch: pages are busy until it is done. */
struct sim_run {
	unsigned refs;
	bool done;
};

void sim_run_done(struct sim_run *run);
void sim_run_unref(struct sim_run *run);

/* NULL: there is no more host memory, or address space. */
struct sim_slot *sim_slot_new(struct sim_device *device, uint64_t bytes);
void sim_slot_unref(struct sim_slot *slot);

/* Choose the pages that launches into this stream (its id) may have, of those
 * that the same search has not chosen before. False: there are no more. */
bool sim_slot_choose(struct sim_slot *slot, uint64_t stream, uint64_t search);
void sim_slot_forgo(struct sim_slot *slot);
/* Those that are behind it count as chosen. */
void sim_slot_claim(struct sim_slot *slot, uint64_t search);
/* Put those that were chosen behind it. False: no host memory. */
bool sim_slot_map(struct sim_slot *slot, uint64_t stream);
void sim_slot_unmap(struct sim_slot *slot);
/* Is it mapped so, and is none of it held by others? What is held by its own regions
 * stays where it is, and is this stream's from now on. */
bool sim_slot_is_mapped(struct sim_slot *slot, uint64_t stream);
/* So many more of its regions are held. */
void sim_slot_hold(struct sim_slot *slot, int by);
/* Its pages are busy with this now. */
void sim_slot_use(struct sim_slot *slot, struct sim_run *run);

/* Give the device what no work uses. True: some. */
bool sim_graphs_trim(struct sim_device *device);

#endif
