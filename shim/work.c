/* The way of calls that do more than put work into a stream; see work.h. */
#include "shim/work.h"

#include "shim/follow.h"
#include "shim/special.h"

#define LEGACY     CU_STREAM_LEGACY
#define PER_THREAD CU_STREAM_PER_THREAD
#define NONE       NULL
#define HOST       GP_WORK_HOST
#define DRAINS     GP_WORK_DRAINS

const struct gp_work_row gp_work_rows[GP_WORK_NUM_IDS] = {
#define GP_WORK(name, class, default, stream, object, event, flags) \
	{#name, GP_WORK_##class, default, flags},
#define GP_WORK_HAND(name, class, default, stream, object, event, flags) \
	{#name, GP_WORK_##class, default, flags},
#include "shim/work.def"
};

int gp_work_on;

void gp_work_watch(bool on)
{
	__atomic_store_n(&gp_work_on, on, __ATOMIC_RELAXED);
	gp_follow_expire();
	gp_special_set(GP_SPECIAL_UNWATCHED, !on);
}

void gp_work_enter(struct gp_work *work, enum gp_work_id id, CUstream stream,
		   void *object, CUevent event)
{
	const struct gp_work_row *row = &gp_work_rows[id];

	work->id = id;
	work->stream = stream ? stream : row->default_stream;
	work->object = object;
	work->event = event;
	work->slot = NULL;
	work->proves = false;
	gp_follow_begin(work, row);
}

void gp_work_failed(CUresult rc)
{
	switch ((int)rc) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
		/* For good: whoever allocates or frees asks the driver whether
		 * it was his context. */
		gp_special_set(GP_SPECIAL_FAULT, true);
		break;
	default:
		break;
	}
}

void gp_work_leave(struct gp_work *work, CUresult rc)
{
	gp_follow_end(work, &gp_work_rows[work->id], rc);
}
