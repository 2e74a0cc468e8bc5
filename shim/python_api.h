/*
 * Python frames by Python's own functions: for a Python whose structures are not
 * known, and only where the calling thread holds the GIL.
 */
#ifndef GP_SHIM_PYTHON_API_H
#define GP_SHIM_PYTHON_API_H

#include <stdbool.h>

#include "stats/stack.h"

/* The functions, found once. False: this Python lacks some, or has no GIL. */
bool gp_python_api_find(void);

/* Fills stack->frames, .python and .python_cut. False, and nothing was called
 * that could harm, if the thread does not hold the GIL: `state` is its own
 * state. Python's error indicator stays; no collection of garbage is begun. */
bool gp_python_api_walk(const void *state, struct gp_stack *stack);

#endif
