/*
 * What a program is told of an address that is gpupool's own: what the driver
 * would say of a plain allocation of that size.
 */
#ifndef GP_SHIM_POINTERS_H
#define GP_SHIM_POINTERS_H

#include "shim/hooks.h"

/* Is any of it in memory that gpupool maps itself? The program has no handle of
 * that memory and did not reserve its addresses: its calls on virtual memory
 * are refused there, as they are for plain allocations. Any thread. */
bool gp_is_our_memory(CUdeviceptr address, size_t bytes);

#endif
