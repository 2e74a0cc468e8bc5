/*
 * Graphs: nodes that allocate, and what puts memory behind them. No wait may
 * meet a launch.
 */
#include "shim/graphs.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"
#include "shim/work.h"

/* ---- nodes -------------------------------------------------------------------- */

/* False: the limit leaves no room. */
static bool may_add(const CUmemPoolProps *props, uint64_t bytes,
		    const char *call)
{
	return !gp_active() ||
	       props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	       gp_graph_memory(props->location.id, bytes, call);
}

static void added(CUresult rc, CUdeviceptr address, uint64_t bytes)
{
	struct gp_foreign entry = {
		.kind = GP_KIND_graph, .bytes = bytes, .refs = 1, .device = -1};

	if (rc == CUDA_SUCCESS && gp_active())
		gp_take_enter(address, &entry);
}

static void added_free(CUresult rc, CUdeviceptr address)
{
	struct gp_foreign entry;

	if (rc == CUDA_SUCCESS)
		gp_take_out(address, &entry);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph,
				const CUgraphNode *dependencies, size_t number,
				CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult rc;

	if (params && !may_add(&params->poolProps, params->bytesize,
			       "cuGraphAddMemAllocNode"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	rc = gp_real()->cuGraphAddMemAllocNode(node, graph, dependencies,
					       number, params);
	if (params)
		added(rc, params->dptr, params->bytesize);
	return rc;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph,
			       const CUgraphNode *dependencies, size_t number,
			       CUdeviceptr address)
{
	CUresult rc = gp_real()->cuGraphAddMemFreeNode(
		node, graph, dependencies, number, address);

	added_free(rc, address);
	return rc;
}

#if CUDA_VERSION >= 12020
bool gp_graph_may_add(const CUgraphNodeParams *params)
{
	return !params || params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	       may_add(&params->alloc.poolProps, params->alloc.bytesize,
		       "cuGraphAddNode");
}

CUresult gp_graph_added(CUresult rc, const CUgraphNodeParams *params)
{
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		added(rc, params->alloc.dptr, params->alloc.bytesize);
	else if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		added_free(rc, params->free.dptr);
	return rc;
}
#endif

/* ---- instances ------------------------------------------------------------------ */

static CUresult instantiated(CUresult rc, const CUgraphExec *exec,
			     CUgraph graph)
{
	if (rc == CUDA_SUCCESS && gp_graphs_may_allocate())
		gp_graph_instantiated(*exec, graph);
	return rc;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad,
			    char *text, size_t size)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuGraphInstantiate(exec, graph, bad, text, size);

	if (gp_room_made(rc))
		rc = real->cuGraphInstantiate(exec, graph, bad, text, size);
	return instantiated(rc, exec, graph);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph,
			       CUgraphNode *bad, char *text, size_t size)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuGraphInstantiate_v2(exec, graph, bad, text, size);

	if (gp_room_made(rc))
		rc = real->cuGraphInstantiate_v2(exec, graph, bad, text, size);
	return instantiated(rc, exec, graph);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
				     unsigned long long flags)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuGraphInstantiateWithFlags(exec, graph, flags);

	if (gp_room_made(rc))
		rc = real->cuGraphInstantiateWithFlags(exec, graph, flags);
	return instantiated(rc, exec, graph);
}

/* Submits only where it is asked to upload the graph. */
static bool uploads(const CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return params && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
}

static CUresult with_params(__typeof__(cuGraphInstantiateWithParams) *real,
			    CUgraphExec *exec, CUgraph graph,
			    CUDA_GRAPH_INSTANTIATE_PARAMS *params,
			    CUstream default_stream)
{
	struct gp_graph_launch launch = {0};
	struct gp_slot *slot = NULL;
	bool submits = uploads(params);
	CUresult rc;

	if (submits) {
		if (gp_graphs_may_allocate() &&
		    !gp_graph_begin_upload(&launch, graph,
					   "cuGraphInstantiateWithParams")) {
			params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		slot = gp_work_submit(params->hUploadStream, default_stream);
	}
	rc = real(exec, graph, params);
	if (gp_room_made(rc))
		rc = real(exec, graph, params);
	if (submits)
		gp_work_submitted(slot, rc);
	gp_graph_end(&launch, rc);
	return instantiated(rc, exec, graph);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return with_params(gp_real()->cuGraphInstantiateWithParams, exec, graph,
			   params, CU_STREAM_LEGACY);
}

CUresult
cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
				  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return with_params(gp_real()->cuGraphInstantiateWithParams_ptsz, exec,
			   graph, params, CU_STREAM_PER_THREAD);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	gp_graph_exec_goes(exec);
	return gp_real()->cuGraphExecDestroy(exec);
}

/* ---- launches ---------------------------------------------------------------------- */

static CUresult upload(__typeof__(cuGraphUpload) *real, CUgraphExec exec,
		       CUstream stream, CUstream default_stream)
{
	struct gp_graph_launch launch;
	struct gp_slot *slot;
	CUresult rc;

	if (!gp_graph_begin(&launch, exec, stream ? stream : default_stream,
			    "cuGraphUpload"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	slot = gp_work_submit(stream, default_stream);
	rc = real(exec, stream);
	if (gp_room_made(rc))
		rc = real(exec, stream);
	gp_work_submitted(slot, rc);
	gp_graph_end(&launch, rc);
	return rc;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	return upload(gp_real()->cuGraphUpload, exec, stream, CU_STREAM_LEGACY);
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return upload(gp_real()->cuGraphUpload_ptsz, exec, stream,
		      CU_STREAM_PER_THREAD);
}

static CUresult launch(__typeof__(cuGraphLaunch) *real, CUgraphExec exec,
		       CUstream stream, CUstream default_stream)
{
	struct gp_graph_launch launch;
	struct gp_slot *slot;
	CUresult rc;

	if (!gp_graph_begin(&launch, exec, stream ? stream : default_stream,
			    "cuGraphLaunch"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	slot = gp_work_submit(stream, default_stream);
	gp_order_launch_begin(slot);
	rc = real(exec, stream);
	gp_order_launch_end(slot);
	if (gp_room_made(rc)) {
		gp_order_launch_begin(slot);
		rc = real(exec, stream);
		gp_order_launch_end(slot);
	}
	gp_work_shown(slot, rc);
	gp_graph_end(&launch, rc);
	return rc;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return launch(gp_real()->cuGraphLaunch, exec, stream, CU_STREAM_LEGACY);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return launch(gp_real()->cuGraphLaunch_ptsz, exec, stream,
		      CU_STREAM_PER_THREAD);
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	bool watched = gp_graph_trim_begin(device);
	CUresult rc = gp_real()->cuDeviceGraphMemTrim(device);

	if (watched)
		gp_graph_trim_end(device);
	return rc;
}
