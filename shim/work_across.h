/*
 * Copies that reach memory of another context than the current one, or than
 * their stream's, be it on another card or on the same.
 *
 * Of plain memory the driver knows whose it is: it makes such copies whether or
 * not the cards are peers, those in the default stream in order with that of
 * the other context, and the other's free waits for them. Virtual memory it
 * refuses where the current device has no access, and where it has, it gives no
 * such order (measured, driver 580; tests/programs/drv_visits.c tells it all). A
 * copy with both contexts named is to it what one of plain memory is; so that
 * is what it gets. And the pools of both are told of the work: ORDER.md, [20].
 *
 * A process with one pool never gets here.
 */
#ifndef GP_SHIM_WORK_ACROSS_H
#define GP_SHIM_WORK_ACROSS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/work.h"

/* There was more than one pool. Synchronization: atomic, relaxed; never false
 * again. */
extern bool gp_across_on;

/* A pool was made. Thread-safe. */
void gp_across_pool_made(void);

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

/* Is one side of the copy in the pool of another context? `stream` as the
 * program gave it, NULL where the entry point has none. Any thread. */
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

/* The program names the contexts itself. */
CUresult gp_copy_peer(enum gp_work_id id, CUdeviceptr dst, CUcontext to,
		      CUdeviceptr src, CUcontext from, size_t bytes,
		      CUstream stream);
CUresult gp_copy_3d_peer(enum gp_work_id id, const CUDA_MEMCPY3D_PEER *box,
			 CUstream stream);

/* Host addresses come as they are. */
static inline CUdeviceptr gp_address(const void *host)
{
	return (CUdeviceptr)(uintptr_t)host;
}

#endif
