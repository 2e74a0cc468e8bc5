/*
 * Memory that the program took without the pool, by address or handle, so that
 * a free can be counted under the right kind and taken off the right ledger.
 *
 * Thread-safe; preserves errno. Sizes are bytes.
 */
#ifndef GP_SHIM_FOREIGN_H
#define GP_SHIM_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/limit.h"
#include "stats/kinds.h"

struct gp_foreign {
	enum gp_kind kind;
	uint64_t bytes;
	uint64_t handle; /* mappings: the handle that is mapped, else 0 */
	uint32_t refs;   /* handles: holders and mappings; else 1 */
	bool watched;    /* in stats/sites.h under the same key */
	uint64_t mapped; /* mappings: bytes mapped (counted by the handle) */

	/* What take.h and async.h need. */
	int device;              /* whose memory it is; -1: no device's */
	uint64_t context;        /* goes with this CUcontext; 0: with none */
	struct gp_limit *limit;  /* where it was charged; NULL: nowhere */
	struct gp_charge charge; /* and how */
	void *pool;              /* stream-ordered: its pool, see async.c */
	void *owner; /* gp_driver_pool, which counts it; NULL: its kind does */
};

/* Enter `key` (device address, host address, handle) and count it. An entry
 * already there is replaced: its owner must have freed it unseen; then *before
 * is what it was, else its refs are 0. `before` may be NULL. False: without
 * memory for the table it is not entered, and not counted. */
bool gp_foreign_add(uint64_t key, const struct gp_foreign *entry,
		    struct gp_foreign *before);

/* Take `key` out and stop counting it. False if unknown. Take it out before
 * the real free: the address may come back at once on another thread. */
bool gp_foreign_take(uint64_t key, struct gp_foreign *entry);

/* The entry of `key`, which stays. False if unknown. */
bool gp_foreign_look(uint64_t key, struct gp_foreign *entry);

/* One more reference to a handle. False: unknown. */
bool gp_foreign_ref(uint64_t key);
/* One less. True: it was the last, the entry is gone (and no longer counted)
 * and *entry is what it was. Unknown keys are ignored. */
bool gp_foreign_unref(uint64_t key, struct gp_foreign *entry);

/* Takes out, and stops counting, all that `match` says; `dropped` is called
 * for each, with no lock held. */
void gp_foreign_forget(bool (*match)(const struct gp_foreign *, const void *),
		       const void *arg,
		       void (*dropped)(uint64_t key,
				       const struct gp_foreign *));

#endif
