/*
 * The figures of a device: its contexts' pools together. A device of -1 stands
 * for all. All functions are thread-safe; where gpupool does not run yet they
 * find nothing.
 */
#ifndef GP_SHIM_FIGURES_H
#define GP_SHIM_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/device.h"

/* The figures of now, destroyed pools included. `collect`: first
 * gp_pool_collect(). No driver call. */
void gp_figures_take(int device, bool collect,
		     struct gp_device_figures *figures);

/* Every peak becomes what is there now; for -1 also those of what does not
 * come from a pool, which is counted for all devices together. */
void gp_figures_reset_peak(int device);

/* Free and total memory of a device (not -1), as a program in one of its
 * contexts sees it; 0 and 0 if no context is known there. */
void gp_figures_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes);

#endif
