/*
 * backend:cudaMallocAsync: plain allocations from a pool of the driver's.
 *
 * Each context has a pool of its own, which the program does not know, and a
 * private stream in which the pool's memory is taken and given back.
 *
 * The order. The driver hands memory out in the order of a stream; cuMemAlloc
 * and cuMemFree know none. So an allocation is waited for in the private
 * stream, where nothing of the program's ever is: the memory may be used in any
 * stream then, and no work of the program was waited for, as cuMemAlloc waits
 * for none. A free waits for all work of the context first, as cuMemFree does,
 * while cuMemFree of such memory would not (measured): so everything that the
 * program did with it is over before the private stream gets it back, all
 * results are there for the host to see, and the driver may hand it out again at
 * once. That is neither weaker nor stronger than the plain program's own order.
 * What is saved is the time that cuMemAlloc and cuMemFree take themselves.
 *
 * Memory that the program frees in a stream of its own (cuMemFreeAsync) comes
 * back when that stream gets there. The pool may not make the private stream
 * wait for that instead (REUSE_ALLOW_INTERNAL_DEPENDENCIES is off): an
 * allocation would wait for work.
 *
 * Thread-safe, where nothing else is said. Sizes are bytes.
 */
#ifndef GP_SHIM_DRIVER_POOL_H
#define GP_SHIM_DRIVER_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"
#include "shim/foreign.h"
#include "shim/hooks.h"
#include "stats/timeline.h"

struct gp_async_pool;
struct gp_context;

struct gp_driver_pool {
	/* Constant. */
	struct gp_context *context;
	CUmemoryPool handle;
	CUstream stream;
	struct gp_async_pool *known; /* what async.h knows of it */

	/* Rank: above the lock of async_impl.h. Guards all below but `left`. */
	pthread_mutex_t lock;
	struct gp_stat allocated, count, reserved;
	uint64_t most_allocated, most_reserved; /* never reset, unlike peaks */
	struct gp_section_peak section;
	uint64_t allocs, frees, ooms, trims;
	struct gp_timeline timeline;
	uint64_t decayed_ns; /* when it was last looked at for that */
	bool left;           /* its handle is the driver's no more; atomic */
};

/* The pool of a context, which is current and not known to others yet. NULL:
 * the device has no such pools, or the driver would not. */
struct gp_driver_pool *gp_driver_pool_open(struct gp_context *context);

/* Nobody will use it: its context was never entered. */
void gp_driver_pool_discard(struct gp_driver_pool *pool);

/* The context is about to be destroyed or reset: all that is live goes back to
 * the device. The driver does not say whether memory of a pool goes with the
 * context that it was taken in; plain memory does. */
void gp_driver_pool_leave(struct gp_driver_pool *pool);

/* The context is gone. */
void gp_driver_pool_gone(struct gp_driver_pool *pool);

/* cuMemAlloc; `call` is the name for the report. No stream captures. The
 * driver's answer; out of memory has been told. */
CUresult gp_driver_pool_alloc(struct gp_driver_pool *pool, CUdeviceptr *address,
			      size_t bytes, const char *call);

/* cuMemFree of what a gp_take_out() said is a pool's. The driver's answer. */
CUresult gp_driver_pool_free(CUdeviceptr address,
			     const struct gp_foreign *entry);

/* Such memory came to the program, or went from it by whatever call; take.h
 * tells. */
void gp_driver_pool_got(struct gp_driver_pool *pool, uint64_t address,
			uint64_t bytes);
void gp_driver_pool_lost(struct gp_driver_pool *pool, uint64_t address,
			 uint64_t bytes);

/* It leaves, and the allocation goes back to the driver: gp_take_owner_goes()
 * tells of each. */
void gp_driver_pool_back(const struct gp_driver_pool *pool, uint64_t address);

/* Which devices may reach the memory has changed. 0 or -EIO, see
 * gp_cuda_last_error(). */
int gp_driver_pool_regrant(struct gp_driver_pool *pool);

/* The driver, or the limit, had no room for so much. */
void gp_driver_pool_refused(struct gp_driver_pool *pool, uint64_t bytes);

/* ---- figures, as those of gp_pool (pool/pool.h); no driver call ----------------- */

void gp_driver_pool_get_stats(struct gp_driver_pool *pool,
			      struct gp_pool_stats *stats);
size_t gp_driver_pool_timeline(struct gp_driver_pool *pool,
			       struct gp_timeline_point *points, uint64_t *now);
void gp_driver_pool_reset_peaks(struct gp_driver_pool *pool);
void gp_driver_pool_section(struct gp_driver_pool *pool, bool begin,
			    struct gp_section_peak *peak);
uint64_t gp_driver_pool_reserved(struct gp_driver_pool *pool);
uint64_t gp_driver_pool_allocated(struct gp_driver_pool *pool);

/* The first of them; the pool is not known to others yet. */
void gp_driver_pool_begin(struct gp_driver_pool *pool);

/* Gives back what the driver keeps unused above `keep`. Returns the bytes. */
uint64_t gp_driver_pool_trim(struct gp_driver_pool *pool, uint64_t keep);

/* Housekeeping: what was not needed for cache_decay_ms goes back. */
void gp_driver_pool_tick(struct gp_driver_pool *pool);

#endif
