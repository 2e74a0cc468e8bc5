/*
 * The nodes of a graph: added by hand, and asked about.
 */
#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/event.h"
#include "tests/sim/graph_memory.h"

CUresult sim_graph_add_record(CUgraphNode *out, CUgraph handle,
			      const CUgraphNode *deps, size_t count,
			      CUevent event)
{
	struct sim_work mark = {.kind = SIM_W_MARK};
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_graph *graph;
	struct sim_node *node;

	sim_lock();
	graph = sim_graph_of(handle);
	mark.event = sim_event_of(event);
	if (out && graph && mark.event && (deps || !count)) {
		node = sim_graph_add(graph, &mark,
				     (struct sim_node *const *)deps, count);
		err = node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		*out = (CUgraphNode)(void *)node;
	}
	sim_unlock();
	return err;
}

CUresult sim_graph_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	struct sim_graph *graph;

	sim_lock();
	graph = sim_graph_of(handle);
	if (graph && count) {
		for (size_t i = 0; nodes && i < *count; i++)
			nodes[i] =
				i < graph->count
					? (CUgraphNode)(void *)graph->nodes[i]
					: NULL;
		if (!nodes || *count > graph->count)
			*count = graph->count;
	}
	sim_unlock();
	return graph && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- memory ---------------------------------------------------------------- */

CUresult sim_graph_node_alloc(struct sim_graph *graph, struct sim_ctx *ctx,
			      struct sim_device *device, uint64_t bytes,
			      struct sim_node *const *deps, size_t dep_count,
			      struct sim_node **out)
{
	struct sim_work work = {.kind = SIM_W_NODE_ALLOC};
	struct sim_region *region;
	CUresult err = sim_graph_take(graph, ctx, device, bytes, deps,
				      dep_count, &region);

	if (err)
		return err;
	graph->has_memory = true;
	work.dst = sim_box_line(region->va, bytes);
	work.value = region->id;
	work.flags = (unsigned)device->ordinal;
	*out = sim_graph_add(graph, &work, deps, dep_count);
	/* Its addresses stay with the graph whatever comes of it. */
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_graph_node_free(struct sim_graph *graph, CUdeviceptr va,
			     struct sim_node *const *deps, size_t dep_count,
			     struct sim_node **out)
{
	struct sim_region *region = sim_region_at(va);
	struct sim_work work = {.kind = SIM_W_NODE_FREE};

	if (!region || region->va != va || region->kind != SIM_GRAPH ||
	    !sim_graph_may_free(graph, region))
		return CUDA_ERROR_INVALID_VALUE;
	work.dst = sim_box_line(va, region->bytes);
	work.value = region->id;
	*out = sim_graph_add(graph, &work, deps, dep_count);
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->has_memory = true;
	sim_graph_frees(graph, region, *out);
	return CUDA_SUCCESS;
}

CUresult sim_graph_add_alloc(CUgraphNode *out, CUgraph handle,
			     const CUgraphNode *deps, size_t count,
			     CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_device *device;
	struct sim_graph *graph;
	struct sim_node *node;

	if (!sim.settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out || !params || !params->bytesize || (count && !deps) ||
	    params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return err;
	device = sim_device_of(params->poolProps.location.id);
	sim_lock();
	graph = sim_graph_of(handle);
	if (graph && device)
		err = sim_graph_node_alloc(
			graph, sim_current(), device, params->bytesize,
			(struct sim_node *const *)deps, count, &node);
	if (!err) {
		params->dptr = node->work.dst.va;
		*out = (CUgraphNode)(void *)node;
	}
	sim_unlock();
	return err;
}

CUresult sim_graph_add_free(CUgraphNode *out, CUgraph handle,
			    const CUgraphNode *deps, size_t count,
			    CUdeviceptr va)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_graph *graph;
	struct sim_node *node;

	if (!out || (count && !deps))
		return err;
	sim_lock();
	graph = sim_graph_of(handle);
	if (graph)
		err = sim_graph_node_free(graph, va,
					  (struct sim_node *const *)deps, count,
					  &node);
	if (!err)
		*out = (CUgraphNode)(void *)node;
	sim_unlock();
	return err;
}

#if CUDA_VERSION >= 12020
/* Of the other types there are none. */
CUresult sim_graph_add_node(CUgraphNode *out, CUgraph graph,
			    const CUgraphNode *deps, size_t count,
			    CUgraphNodeParams *params)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {0};
	CUresult err;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return sim_graph_add_free(out, graph, deps, count,
					  params->free.dptr);
	if (params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_ERROR_NOT_SUPPORTED;
	alloc.poolProps = params->alloc.poolProps;
	alloc.bytesize = params->alloc.bytesize;
	err = sim_graph_add_alloc(out, graph, deps, count, &alloc);
	params->alloc.dptr = alloc.dptr;
	return err;
}
#endif

#if CUDA_VERSION >= 12030
CUresult sim_graph_add_node_v2(CUgraphNode *out, CUgraph graph,
			       const CUgraphNode *deps,
			       const CUgraphEdgeData *edges, size_t count,
			       CUgraphNodeParams *params)
{
	if (edges)
		return CUDA_ERROR_NOT_SUPPORTED;
	return sim_graph_add_node(out, graph, deps, count, params);
}
#endif

/* ---- questions ------------------------------------------------------------- */

CUresult sim_graph_node_type(CUgraphNode handle, CUgraphNodeType *type)
{
	static const CUgraphNodeType types[] = {
		[SIM_W_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
		[SIM_W_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
		[SIM_W_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
		[SIM_W_HOST] = CU_GRAPH_NODE_TYPE_HOST,
		[SIM_W_CALLBACK] = CU_GRAPH_NODE_TYPE_HOST,
		[SIM_W_MARK] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
		[SIM_W_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		[SIM_W_WRITE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[SIM_W_POLL] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[SIM_W_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
		[SIM_W_NODE_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		[SIM_W_NODE_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
	};
	const struct sim_node *node = (struct sim_node *)(void *)handle;

	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*type = types[node->work.kind];
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_graph_alloc_params(CUgraphNode handle,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	const struct sim_node *node = (struct sim_node *)(void *)handle;

	if (!node || !params || node->work.kind != SIM_W_NODE_ALLOC)
		return CUDA_ERROR_INVALID_VALUE;
	*params = (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
					   .id = (int)node->work.flags}},
		.bytesize = node->work.dst.width,
		.dptr = node->work.dst.va,
	};
	return CUDA_SUCCESS;
}

CUresult sim_graph_free_params(CUgraphNode handle, CUdeviceptr *va)
{
	const struct sim_node *node = (struct sim_node *)(void *)handle;

	if (!node || !va || node->work.kind != SIM_W_NODE_FREE)
		return CUDA_ERROR_INVALID_VALUE;
	*va = node->work.dst.va;
	return CUDA_SUCCESS;
}
