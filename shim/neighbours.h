/*
 * Other processes of this user on the same device.
 *
 * A request that the device has no memory for, after all that this process
 * could give back, is a reason to ask them: each has a thread of its own that
 * gives back what it only caches, whatever its program does. Nobody waits for
 * them longer than neighbour_wait, and nothing is shared that a process could
 * die holding.
 */
#ifndef GP_SHIM_NEIGHBOURS_H
#define GP_SHIM_NEIGHBOURS_H

#include <stdint.h>

/* Asks for `bytes` (UINT64_MAX: all they can spare) on the device of that
 * UUID. Returns the bytes they gave back; also above 0 when another thread
 * asked meanwhile and got some. Any thread, no lock held; may take
 * neighbour_wait. */
uint64_t gp_neighbours_ask(const uint8_t uuid[16], uint32_t device,
			   uint64_t bytes);

#endif
