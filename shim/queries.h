/*
 * What a program is told that asks how much memory a device has: the limit as
 * the size of the card, and what the pools have cached as free.
 */
#ifndef GP_SHIM_QUERIES_H
#define GP_SHIM_QUERIES_H

#include "shim/hooks.h"

/* Makes the card's figures of CUDA device `device` those that are shown. -2:
 * some device, of which none is known yet. False: they stay as they are.
 * Thread-safe; starts gpupool only if there is a limit. */
bool gp_query_show(int device, uint64_t *free, uint64_t *total);

#endif
