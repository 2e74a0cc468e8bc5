/*
 * What contexts themselves take of a device: measured once, when one is made,
 * by what the card has in use before and after. The driver tells that only
 * with a context, so NVML is asked; without it the figure stays unknown.
 *
 * Thread-safe. Sizes are bytes.
 */
#ifndef GP_SHIM_OVERHEAD_H
#define GP_SHIM_OVERHEAD_H

#include "shim/hooks.h"

/* One creation, from begin to end. On the caller's stack. */
struct gp_overhead {
	bool on; /* there is a limit, contexts count, and it can be measured */
	CUdevice device;
	uint64_t used, held; /* before: of the card, on the ledger */
};

/* Before a call that makes a context on `device`; `primary`: its primary one,
 * if there is none yet. */
void gp_overhead_begin(struct gp_overhead *overhead, CUdevice device,
		       bool primary);
/* Before the same call once more, after room was made for it. */
void gp_overhead_again(struct gp_overhead *overhead);
/* After it; `context` NULL: the primary one. */
void gp_overhead_end(struct gp_overhead *overhead, CUresult rc,
		     CUcontext context);

/* The context is gone, with what it took. NULL: the primary one of `device`. */
void gp_overhead_gone(CUcontext context, CUdevice device);

#endif
