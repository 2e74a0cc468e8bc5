/*
 * Work whose streams no parameter names but a list, and a question that the
 * driver alone cannot answer.
 */
#include "shim/follow.h"
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
