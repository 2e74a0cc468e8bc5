/*
 * The driver's own pools, of cudaMallocAsync: what they really reserve is what
 * counts, not the sum of the requests.
 *
 * A pool is asked before and after an allocation on a device with a cap; it
 * grows by what its spare memory does not cover, and that is reserved first.
 * Elsewhere nobody asks, but reports and queries do.
 *
 * Thread-safe. Sizes are bytes.
 */
#ifndef GP_SHIM_ASYNC_H
#define GP_SHIM_ASYNC_H

#include "shim/foreign.h"
#include "shim/hooks.h"

struct gp_async_pool;

/* One allocation, from begin to end. On the caller's stack. */
struct gp_async {
	bool counted;  /* false: gpupool is off, or the stream captures */
	bool captured; /* the memory will be a graph's */
	CUdevice device;
	CUcontext context;
	CUstream stream;
	const char *call;           /* not owned */
	void *owner;                /* of the entry; the caller may set it */
	struct gp_async_pool *pool; /* NULL: no cap, nothing was reserved */
	uint64_t bytes;             /* as asked for */
	uint64_t span;              /* what the pool hands out for it */
	uint64_t grows;             /* reserved on the ledger */
	uint64_t before;            /* what the pool had reserved */
	uint64_t version;           /* of the pool, then; 0: not alone */
};

/* Before an allocation of `bytes` in `stream` (as the driver takes it, never
 * NULL) from `pool` (NULL: the current one of the stream's device). False: the
 * limit leaves no room. */
bool gp_async_begin(struct gp_async *async, CUmemoryPool pool, uint64_t bytes,
		    CUstream stream, const char *call);

/* After it. Returns what the program is to be told: where the pool has grown
 * beyond the limit the memory is freed again, and it is out of memory. */
CUresult gp_async_end(struct gp_async *async, CUresult rc, CUdeviceptr address);

/* An entry that gp_async_end() made was freed. */
void gp_async_freed(const struct gp_foreign *entry);

/* The program made a pool on `device`. */
void gp_async_created(CUmemoryPool pool, CUdevice device);
/* gpupool made it for itself: what it reserves counts as the pool's. NULL: no
 * memory for that. */
struct gp_async_pool *gp_async_own(CUmemoryPool pool, CUdevice device);

/* Ask one of them what it reserves now; and what it last said. */
void gp_async_look(struct gp_async_pool *pool);
uint64_t gp_async_reserved(const struct gp_async_pool *pool);

/* One that is being destroyed. On the caller's stack. */
struct gp_async_rest {
	struct gp_async_pool *pool; /* NULL: not known */
	bool told;
	uint64_t bytes; /* what it said that it keeps */
	uint64_t version;
};

/* Before the call that destroys one, the last time that it is asked; and after
 * it: where it did, or did not. What others allocate from it meanwhile counts
 * on. */
void gp_async_destroys(struct gp_async_rest *rest, CUmemoryPool pool);
void gp_async_destroyed(const struct gp_async_rest *rest);
void gp_async_kept(const struct gp_async_rest *rest);

/* Ask all pools of the device what they reserve now. */
void gp_async_refresh(CUdevice device);

/* What those pools (`own`: gpupool's alone) have reserved and nobody uses, bytes.
 * Asks them, too. */
uint64_t gp_async_spare(CUdevice device, bool own);

/* Let the pools of the device (-1: of all) give back what they keep unused.
 * Returns the bytes that came back. */
uint64_t gp_async_trim(CUdevice device);

#endif
