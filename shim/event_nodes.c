/*
 * Events that are recorded where no record is seen: by a graph's launch, or by
 * another process. From the moment that this may happen a wait for the event
 * proves nothing any more: [11] in pool/ORDER.md.
 */
#include "shim/events.h"
#include "shim/graphs.h"
#include "shim/state.h"
#include "shim/work.h"

static void recorded_unseen(CUevent event)
{
	/* A forked child asks for no lock: a thread of its parent may have had
	 * it. */
	if (event && gp_may_intercept())
		gp_event_loosen(event, NULL);
}

/* ---- nodes of graphs ---------------------------------------------------------------- */

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph,
				   const CUgraphNode *dependencies,
				   size_t number, CUevent event)
{
	recorded_unseen(event);
	return gp_real()->cuGraphAddEventRecordNode(node, graph, dependencies,
						    number, event);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
	recorded_unseen(event);
	return gp_real()->cuGraphEventRecordNodeSetEvent(node, event);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
					    CUevent event)
{
	recorded_unseen(event);
	return gp_real()->cuGraphExecEventRecordNodeSetEvent(exec, node, event);
}

/* While its stream captures; elsewhere the driver refuses the flag. */
static void becomes_node(CUevent event, unsigned flags)
{
	if (flags & CU_EVENT_RECORD_EXTERNAL)
		recorded_unseen(event);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
	struct gp_work work;
	CUresult rc;

	becomes_node(event, flags);
	gp_work_begin(&work, GP_WORK_ID_cuEventRecordWithFlags, stream, NULL,
		      event);
	rc = gp_real()->cuEventRecordWithFlags(event, stream, flags);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream,
				     unsigned flags)
{
	struct gp_work work;
	CUresult rc;

	becomes_node(event, flags);
	gp_work_begin(&work, GP_WORK_ID_cuEventRecordWithFlags_ptsz, stream,
		      NULL, event);
	rc = gp_real()->cuEventRecordWithFlags_ptsz(event, stream, flags);
	gp_work_end(&work, rc);
	return rc;
}

#if CUDA_VERSION >= 12020
static void node_may_record(const CUgraphNodeParams *params)
{
	if (params && params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		recorded_unseen(params->eventRecord.event);
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph,
			const CUgraphNode *dependencies, size_t number,
			CUgraphNodeParams *params)
{
	node_may_record(params);
	if (!gp_graph_may_add(params))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return gp_graph_added(gp_real()->cuGraphAddNode(node, graph,
							dependencies, number,
							params),
			      params);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
	node_may_record(params);
	return gp_real()->cuGraphNodeSetParams(node, params);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
				  CUgraphNodeParams *params)
{
	node_may_record(params);
	return gp_real()->cuGraphExecNodeSetParams(exec, node, params);
}
#endif

#if CUDA_VERSION >= 12030
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph,
			   const CUgraphNode *dependencies,
			   const CUgraphEdgeData *edges, size_t number,
			   CUgraphNodeParams *params)
{
	node_may_record(params);
	if (!gp_graph_may_add(params))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return gp_graph_added(gp_real()->cuGraphAddNode_v2(node, graph,
							   dependencies, edges,
							   number, params),
			      params);
}
#endif

/* ---- other processes ------------------------------------------------------------------ */

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	recorded_unseen(event);
	return gp_real()->cuIpcGetEventHandle(handle, event);
}
