/*
 * Room under the limit and on the card, for whoever in the process asks.
 *
 * What the pools cache, and what the driver's pools, of cudaMallocAsync and of
 * graphs, keep unused, is given back before anybody goes without. Thread-safe; no lock is held.
 */
#ifndef GP_SHIM_ROOM_H
#define GP_SHIM_ROOM_H

#include "pool/limit.h"
#include "shim/hooks.h"

/* Give back unused memory of a device, at least `bytes` if there is so much; of
 * the pools all but that of `except` (NULL: of all). Returns the bytes. */
uint64_t gp_room_make(CUdevice device, uint64_t bytes, CUcontext except);

/* The same, but only what is idle: waits for no work of the device's. */
uint64_t gp_room_make_idle(CUdevice device, uint64_t bytes);

/* Reserve on the device's ledger, making room as above if need be. 0, or
 * -ENOMEM: the limit leaves no room. */
int gp_room_reserve(CUdevice device, const struct gp_charge *charge,
		    CUcontext except);

/* A call of the program, on this thread's current device, answered `rc`. If
 * that was for lack of memory and room could be made, here or by another
 * process of this user: true, try the call once more. */
static inline bool gp_room_made(CUresult rc);
/* The same where it is known how much is lacking: if this process had less, the
 * others are asked as well. */
static inline bool gp_room_made_for(uint64_t bytes, CUresult rc);
/* The same where the device is known, too. */
static inline bool gp_room_made_on(CUdevice device, uint64_t bytes,
				   CUresult rc);

/* Who refused memory to this thread last: the limit, or the card. */
bool gp_room_limit_refused(void);
void gp_room_card_refused(void);

/* Out of line. `bytes` 0: it is not known how much. */
bool gp_room_lacked(uint64_t bytes);
bool gp_room_lacked_on(CUdevice device, uint64_t bytes);

static inline bool gp_room_made(CUresult rc)
{
	return __builtin_expect(rc == CUDA_ERROR_OUT_OF_MEMORY, 0) &&
	       gp_room_lacked(0);
}

static inline bool gp_room_made_for(uint64_t bytes, CUresult rc)
{
	return __builtin_expect(rc == CUDA_ERROR_OUT_OF_MEMORY, 0) &&
	       gp_room_lacked(bytes);
}

static inline bool gp_room_made_on(CUdevice device, uint64_t bytes, CUresult rc)
{
	return __builtin_expect(rc == CUDA_ERROR_OUT_OF_MEMORY, 0) &&
	       gp_room_lacked_on(device, bytes);
}

#endif
