/*
 * Memory that a call of the program takes outside the pool, from the question
 * whether the limit leaves room for it to the entry that a free will find.
 *
 *	struct gp_take take;
 *
 *	if (!gp_take_begin(&take, GP_KIND_managed, bytes, "cuMemAllocManaged"))
 *		return CUDA_ERROR_OUT_OF_MEMORY;
 *	rc = the driver's call;
 *	gp_take_end(&take, rc, address);
 *
 * Thread-safe; preserves errno.
 */
#ifndef GP_SHIM_TAKE_H
#define GP_SHIM_TAKE_H

#include "shim/foreign.h"
#include "shim/hooks.h"

struct gp_take {
	bool on;          /* gpupool runs */
	const char *call; /* not owned */
	struct gp_foreign entry;
};

/* On the current device, for as long as the current context lives. Host kinds
 * count against host_limit. False: no room; the refusal was told. */
bool gp_take_begin(struct gp_take *take, enum gp_kind kind, uint64_t bytes,
		   const char *call);

/* On this device, whatever becomes of any context. */
bool gp_take_begin_on(struct gp_take *take, CUdevice device, enum gp_kind kind,
		      uint64_t bytes, const char *call);

/* The call answered `rc`; the memory is known by `key`. A card without room is
 * told in a report. */
void gp_take_end(struct gp_take *take, CUresult rc, uint64_t key);

/* Enters memory that has been charged. False: it will not be found, and is not
 * counted; the caller takes it off the ledger. */
bool gp_take_enter(uint64_t key, const struct gp_foreign *entry);

/* ---- frees: take the entry out, call the driver, say what came of it ---- */

/* Stops counting `key`, before the real free: the address may come back at
 * once on another thread. */
bool gp_take_out(uint64_t key, struct gp_foreign *entry);

/* `known`: the entry was there. Where the free failed it goes back, else it
 * leaves the ledger. */
void gp_take_freed(bool known, uint64_t key, const struct gp_foreign *entry,
		   CUresult rc);

/* What was taken in this context went with it. NULL: the primary context of
 * `device`; `created` tells the contexts that are not. */
void gp_take_context_gone(CUcontext context, CUdevice device,
			  bool (*created)(CUcontext));

/* Is it the start of an allocation in a gp_driver_pool? */
bool gp_take_is_owned(uint64_t key);

/* The gp_driver_pool gives back all that is live of it; tells it of each. */
void gp_take_owner_goes(const void *owner);

/* The limit refused `bytes` to the program: counted, and told in a report. */
void gp_take_refused(CUdevice device, uint64_t bytes, const char *call);
/* The card did. */
void gp_take_lacked(CUdevice device, uint64_t bytes, const char *call);

#endif
