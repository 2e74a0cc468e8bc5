/*
 * Between async.c, which knows the pools, and async_alloc.c, which knows the
 * allocations.
 *
 * Figures of a pool are asked without a lock and may be old when they are
 * used: every change counts up `version`, and who finds another than before
 * asks again. What other threads are about to take is in `inflight` (spans)
 * and `growing` (reserved for it on the ledger).
 */
#ifndef GP_SHIM_ASYNC_IMPL_H
#define GP_SHIM_ASYNC_IMPL_H

#include <pthread.h>

#include "shim/async.h"

#define GP_ASYNC_TRIES 64

struct gp_async_pool {
	CUmemoryPool handle; /* constant, as are the next three */
	CUdevice device;
	struct gp_limit *limit;  /* of the device */
	enum gp_limit_part part; /* and what of it this is */
	/* Guarded by gp_async_lock. */
	struct gp_async_pool *next;
	uint64_t charged; /* on the ledger, for what it reserves */
	uint64_t inflight, growing;
	uint64_t live;    /* bytes of its allocations that are known */
	uint64_t chunk;   /* it grows by multiples of this, as far as seen */
	uint64_t version; /* see above */
	unsigned takers;  /* allocations between begin and end */
	bool leaving;     /* being destroyed: not to be asked any more */
	bool dying;       /* destroyed; goes with its last allocation */
};

/* Under the lock: destroyed, and nothing of it is left or may still come. */
static inline bool gp_async_is_over(const struct gp_async_pool *pool)
{
	return pool->dying && !pool->live && !pool->takers;
}

/* Rank: above the ledgers. Not held across a driver call. */
extern pthread_mutex_t gp_async_lock;

/* The pool behind a handle, entered as `part` of the limit when it was not known;
 * NULL: no memory for that. It lives for ever. */
struct gp_async_pool *gp_async_learn(CUmemoryPool handle, CUdevice device,
				     enum gp_limit_part part);

/* Asks the driver for a figure in bytes. False: it does not say, or must not be
 * asked. */
bool gp_async_ask(const struct gp_async_pool *pool, CUmemPool_attribute which,
		  uint64_t *bytes);

uint64_t gp_async_version(const struct gp_async_pool *pool);

#endif
