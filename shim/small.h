/*
 * Small allocations of the driver, context by context: those of one context
 * share pieces (pool/limit.h), and no context's piece is another's.
 *
 * Thread-safe.
 */
#ifndef GP_SHIM_SMALL_H
#define GP_SHIM_SMALL_H

#include "pool/limit.h"
#include "shim/hooks.h"

/* What small charges of the context share; NULL: nothing, as there are too many
 * contexts. Never freed. */
struct gp_limit_small *gp_small_of(CUcontext context, CUdevice device);

/* Contexts that are gone, as `gone` says, and whose charges were given back. */
void gp_small_forget(bool (*gone)(CUcontext context, CUdevice device,
				  const void *arg),
		     const void *arg);

#endif
