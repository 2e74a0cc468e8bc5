/*
 * Memory that the program took without the pool, by address or handle, so that
 * a free can be counted under the right kind.
 */
#ifndef GP_SHIM_FOREIGN_H
#define GP_SHIM_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/kinds.h"

struct gp_foreign {
	enum gp_kind kind;
	uint64_t bytes;
	uint64_t handle; /* mappings: the handle that is mapped, else 0 */
	uint32_t refs;   /* handles: holders and mappings; else 1 */
	uint64_t mapped; /* mappings: bytes mapped (counted by the handle) */
};

/* Enter `key` (device address, host address, handle) and count it. An entry
 * already there is replaced: its owner must have freed it unseen.
 * Thread-safe; preserves errno. Without memory for the table it is not
 * entered, and not counted. */
void gp_foreign_add(uint64_t key, const struct gp_foreign *entry);

/* Take `key` out and stop counting it. False if unknown. Take it out before
 * the real free: the address may come back at once on another thread. */
bool gp_foreign_take(uint64_t key, struct gp_foreign *entry);

/* One more or one less reference to a handle; the entry goes (and stops being
 * counted) with the last. Unknown keys are ignored. */
void gp_foreign_ref(uint64_t key);
void gp_foreign_unref(uint64_t key);

/* Size of the entry at `key`; 0 if unknown. */
uint64_t gp_foreign_bytes(uint64_t key);

#endif
