/*
 * Work whose streams no parameter names: several of them in a list, or one
 * that counts only under a flag; graphs, whose launch no wait may meet; and a
 * question that the driver alone cannot answer.
 */
#include "shim/async.h"
#include "shim/follow.h"
#include "shim/room.h"
#include "shim/work.h"

/* A launch goes to each device once, and no host has more of them; the driver
 * refuses a longer list. */
#define MAX_DEVICES 128

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches,
					      unsigned count, unsigned flags)
{
	struct gp_slot *slots[MAX_DEVICES];
	unsigned watched = launches && count <= MAX_DEVICES ? count : 0;
	CUresult rc;

	for (unsigned i = 0; i < watched; i++)
		slots[i] =
			gp_work_submit(launches[i].hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuLaunchCooperativeKernelMultiDevice(launches, count,
							     flags);
	for (unsigned i = watched; i-- > 0;)
		gp_work_submitted(slots[i], rc);
	return rc;
}

/* Submits only where it is asked to upload the graph. */
static bool uploads(const CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return params && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	const struct gp_real *real = gp_real();
	struct gp_slot *slot;
	CUresult rc;

	if (!uploads(params)) {
		rc = real->cuGraphInstantiateWithParams(exec, graph, params);
		return gp_room_made(rc) ? real->cuGraphInstantiateWithParams(
						  exec, graph, params)
					: rc;
	}
	slot = gp_work_submit(params->hUploadStream, CU_STREAM_LEGACY);
	rc = real->cuGraphInstantiateWithParams(exec, graph, params);
	if (gp_room_made(rc))
		rc = real->cuGraphInstantiateWithParams(exec, graph, params);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult
cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
				  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	const struct gp_real *real = gp_real();
	struct gp_slot *slot;
	CUresult rc;

	if (!uploads(params)) {
		rc = real->cuGraphInstantiateWithParams_ptsz(exec, graph,
							     params);
		return gp_room_made(rc)
			       ? real->cuGraphInstantiateWithParams_ptsz(
					 exec, graph, params)
			       : rc;
	}
	slot = gp_work_submit(params->hUploadStream, CU_STREAM_PER_THREAD);
	rc = real->cuGraphInstantiateWithParams_ptsz(exec, graph, params);
	if (gp_room_made(rc))
		rc = real->cuGraphInstantiateWithParams_ptsz(exec, graph,
							     params);
	gp_work_submitted(slot, rc);
	return rc;
}

static CUresult launch_graph(__typeof__(cuGraphLaunch) *real, CUgraphExec exec,
			     CUstream stream, struct gp_slot *slot)
{
	CUresult rc;

	gp_order_launch_begin(slot);
	rc = real(exec, stream);
	gp_order_launch_end(slot);
	if (gp_room_made(rc)) {
		gp_order_launch_begin(slot);
		rc = real(exec, stream);
		gp_order_launch_end(slot);
	}
	gp_work_shown(slot, rc);
	gp_graph_launched(rc);
	return rc;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return launch_graph(gp_real()->cuGraphLaunch, exec, stream,
			    gp_work_submit(stream, CU_STREAM_LEGACY));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return launch_graph(gp_real()->cuGraphLaunch_ptsz, exec, stream,
			    gp_work_submit(stream, CU_STREAM_PER_THREAD));
}

/* [18] */
static CUresult answer(const struct gp_work *work, CUresult rc)
{
	return rc == CUDA_ERROR_NOT_READY && work->on &&
			       gp_follow_is_empty(work)
		       ? CUDA_SUCCESS
		       : rc;
}

CUresult cuStreamQuery(CUstream stream)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuStreamQuery, stream, NULL, NULL);
	rc = gp_real()->cuStreamQuery(stream);
	gp_work_end(&work, rc);
	return answer(&work, rc);
}

CUresult cuStreamQuery_ptsz(CUstream stream)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuStreamQuery_ptsz, stream, NULL, NULL);
	rc = gp_real()->cuStreamQuery_ptsz(stream);
	gp_work_end(&work, rc);
	return answer(&work, rc);
}
