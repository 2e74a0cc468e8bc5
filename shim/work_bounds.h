/*
 * Copies and sets that go past the end of their memory, or to memory that has
 * been freed. The driver refuses them; in the pool it would find other blocks.
 *
 * Each answers whether the call is one of these. False where it is for the
 * driver to say: other memory, figures that make no sense. Any thread; no
 * driver call unless the answer is true.
 */
#ifndef GP_SHIM_WORK_BOUNDS_H
#define GP_SHIM_WORK_BOUNDS_H

#include <stdbool.h>

#include "pool/registry.h"
#include "shim/hooks.h"

bool gp_past_block(CUdeviceptr at, size_t bytes);

static inline bool gp_past_end(CUdeviceptr at, size_t bytes)
{
	return gp_registry_near(at) && gp_past_block(at, bytes);
}

/* Elements of `unit` bytes; with one row `pitch` says nothing. */
bool gp_past_set(CUdeviceptr at, size_t pitch, unsigned unit, size_t width,
		 size_t height);
bool gp_past_2d(const CUDA_MEMCPY2D *copy);
bool gp_past_3d(const CUDA_MEMCPY3D *copy);
bool gp_past_3d_peer(const CUDA_MEMCPY3D_PEER *copy);
/* *bad: which one, as the driver tells it; may be NULL. */
bool gp_past_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
		   const size_t *sizes, size_t count, size_t *bad);

#endif
