/*
 * The program's green contexts: parts of a primary context, with streams of
 * their own. What is allocated in one is the driver's; the pool of the primary
 * one serves their work, and follows their streams. Any thread.
 */
#ifndef GP_SHIM_GREEN_H
#define GP_SHIM_GREEN_H

#include <stdbool.h>

#include "shim/hooks.h"

struct gp_green {
	const void *green; /* its CUgreenCtx, which older headers lack */
	CUcontext context; /* what it is when it is current */
	CUdevice device;
};

/* Known from now on; without memory as gp_green_unknown(). */
void gp_green_add(const struct gp_green *green);

/* There is one that is not known: not all work is seen, and frees wait. */
void gp_green_unknown(void);

/* No longer known, before it is destroyed: the handles may come back at once.
 * False: it was not. */
bool gp_green_take(const void *green, struct gp_green *was);

/* The device of a green context that is known; -1: it is none. */
CUdevice gp_green_device(CUcontext context);

#endif
