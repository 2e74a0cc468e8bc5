/*
 * Memory of the pool in other processes: cuIpcGetMemHandle and its like.
 *
 * The driver makes no such handle of virtual memory. A handle of gpupool's names
 * the process and the allocation; who opens it asks that process, over a socket
 * in the runtime directory, for the physical memory behind it and maps that.
 * The connection lives as long as the mapping: so the owner knows who has its
 * memory mapped, also when they die.
 *
 *   - The same allocation has the same handle each time, another one never.
 *   - A handle of an interior address is the allocation's, as the driver's is:
 *     to open it gives the allocation's start.
 *   - Freed while others have it mapped, the memory is not used again before
 *     the last of them closes it or ends. They keep what they have mapped also
 *     when its owner ends.
 *   - A process without gpupool gets an error from the driver.
 *   - Whoever opens a handle could reach the whole physical pieces that the
 *     allocation lies in (2 MiB or more). Only processes of the same user can.
 *
 * Thread-safe.
 */
#ifndef GP_SHIM_IPC_H
#define GP_SHIM_IPC_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/hooks.h"
#include "stats/handoff.h"

/* What a CUipcMemHandle holds. */
struct gp_ipc_handle {
	char magic[8];
	uint32_t pid;
	uint32_t check; /* of all the rest */
	uint64_t start; /* of the process */
	uint64_t token; /* of its socket */
	uint64_t base;
	uint64_t id; /* of the allocation */
	uint64_t bytes;
	uint64_t unused;
};
_Static_assert(sizeof(struct gp_ipc_handle) == CU_IPC_HANDLE_SIZE,
	       "a handle has 64 bytes");

/* Between the two processes. */
struct gp_ipc_ask {
	uint32_t version;
	uint32_t bye; /* it has been unmapped */
	uint64_t base, id;
};

struct gp_ipc_part {
	uint32_t version;
	int32_t error;          /* a CUresult; nothing else is valid then */
	uint64_t bytes, offset; /* the allocation's, in the first piece */
	uint64_t span;          /* all pieces */
	uint32_t pieces, first; /* altogether; the first one here */
	uint64_t sizes[GP_HANDOFF_FDS];
};

#define GP_IPC_VERSION 1u

/* ---- the owner's side: ipc_owner.c ------------------------------------------ */

/* The handle of the pool's allocation that starts at `base`. */
CUresult gp_ipc_export(CUdeviceptr base, uint64_t bytes, CUipcMemHandle *out);

/* Is it one of gpupool's? Its parts. */
bool gp_ipc_read(const CUipcMemHandle *handle, struct gp_ipc_handle *parts);

/* Of this very process? */
bool gp_ipc_is_own(const struct gp_ipc_handle *parts);

/* The process ends; and, in the child of a fork: nothing of this is the
 * child's. */
void gp_ipc_end(void);
void gp_ipc_forget(void);

/* ---- the other side: ipc_import.c ------------------------------------------- */

struct gp_ipc_range {
	CUcontext context;
	CUdeviceptr base;
	uint64_t bytes;
	uint64_t id; /* in this process */
};

/* What was opened, and has that address. */
bool gp_ipc_find(CUdeviceptr address, struct gp_ipc_range *range);

/* Is the address anywhere in what was mapped for that? */
bool gp_ipc_is_mapped(CUdeviceptr address);

/* What was opened in this context went with it. NULL: the primary context of
 * `device`. */
void gp_ipc_context_gone(CUcontext context, CUdevice device);

void gp_ipc_forget_imports(void);

#endif
