/*
 * Copies between cards by addresses alone. The driver makes them of plain
 * memory whether or not the cards are peers; of virtual memory it refuses them
 * where the device that copies has no access (measured, driver 580). What it
 * does take is the same copy with both contexts named, so that is what it gets.
 *
 * A process whose pools are all on one device never gets here.
 */
#ifndef GP_SHIM_WORK_ACROSS_H
#define GP_SHIM_WORK_ACROSS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/work.h"

/* There are pools of virtual memory on more than one device. Synchronization:
 * atomic, relaxed; never false again. */
extern bool gp_across_on;

/* A pool of virtual memory was made on `device`. Thread-safe. */
void gp_across_pool_made(CUdevice device);

/* Out of line. */
bool gp_across_look(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
		    CUstream stream);
bool gp_across_look_2d(enum gp_work_id id, const CUDA_MEMCPY2D *copy,
		       CUstream stream);
bool gp_across_look_3d(enum gp_work_id id, const CUDA_MEMCPY3D *copy,
		       CUstream stream);

static inline bool gp_across_may_be(void)
{
	return __builtin_expect(
		__atomic_load_n(&gp_across_on, __ATOMIC_RELAXED), 0);
}

/* Is one side of the copy in the pool of a device to whose memory the one that
 * copies has no access? `stream` as the program gave it, NULL where the entry
 * point has none. Any thread. */
static inline bool gp_goes_across(enum gp_work_id id, CUdeviceptr dst,
				  CUdeviceptr src, CUstream stream)
{
	return gp_across_may_be() && gp_across_look(id, dst, src, stream);
}

static inline bool gp_goes_across_2d(enum gp_work_id id,
				     const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return gp_across_may_be() && gp_across_look_2d(id, copy, stream);
}

static inline bool gp_goes_across_3d(enum gp_work_id id,
				     const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return gp_across_may_be() && gp_across_look_3d(id, copy, stream);
}

/* Makes such a copy, in the place of the entry point `id` and with its
 * semantics. The driver's answer. Any thread. */
CUresult gp_copy_across(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
			size_t bytes, CUstream stream);
CUresult gp_copy_across_2d(enum gp_work_id id, const CUDA_MEMCPY2D *copy,
			   CUstream stream);
CUresult gp_copy_across_3d(enum gp_work_id id, const CUDA_MEMCPY3D *copy,
			   CUstream stream);

/* Host addresses come as they are. */
static inline CUdeviceptr gp_address(const void *host)
{
	return (CUdeviceptr)(uintptr_t)host;
}

#endif
