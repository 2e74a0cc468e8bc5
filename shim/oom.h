/*
 * What only the moment of a refusal can tell: how much is free, and who else
 * is on the device.
 */
#ifndef GP_SHIM_OOM_H
#define GP_SHIM_OOM_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/oom.h"

/* `call` asked for `bytes` on `device`, and the limit (`limit`) or the card
 * refused. Calls the driver and, where the machine has it, NVML; may take
 * milliseconds. Any thread, no lock held. */
void gp_oom_look(struct gp_oom *oom, uint64_t bytes, int device,
		 const char *call, bool limit);

#endif
