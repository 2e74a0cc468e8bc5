/*
 * warn_at: a report before memory runs out.
 *
 * Looked at where the process takes memory of a device, and now and then by
 * the keeper, since what was cached may come into use without a driver call.
 * Never where an allocation hits.
 */
#ifndef GP_SHIM_WARN_H
#define GP_SHIM_WARN_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/hooks.h"

/* A device whose mark was passed. */
struct gp_warning {
	int device;
	uint64_t used, of; /* bytes in use, and what there may be */
};

/* The process has just taken memory of the device. Any thread, no lock held. */
void gp_warn_grew(CUdevice device);

/* All devices. The keeper. */
void gp_warn_tick(void);

/* The next warning that nobody has had; false: there is none. Thread-safe. */
bool gp_warn_next(struct gp_warning *warning);

#endif
