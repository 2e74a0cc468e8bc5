/*
 * CUDA contexts and the pool of each. Thread-safe.
 */
#ifndef GP_SHIM_CONTEXT_H
#define GP_SHIM_CONTEXT_H

#include "pool/pool.h"
#include "shim/driver.h"
#include "shim/driver_pool.h"
#include "stats/report.h"

/* Constant once it is known to others, where nothing else is said. */
struct gp_context {
	struct gp_cuda_driver cuda;
	char name[96]; /* of the device */
	bool primary;
	bool ours; /* false: unknown kind (green, another library's): no pool */
	uint64_t free_bytes; /* of the device when last asked; atomic */
	CUevent probe;       /* never recorded; see gp_context_probe() */
	/* The pools go when the program destroys the context, under the lock of
	 * the contexts and with nobody at them: whoever is no thread of the
	 * program comes by gp_context_each(). */
	struct gp_pool *pool; /* NULL: pass everything through */
	/* In its place, where backend:cudaMallocAsync holds; else NULL. */
	struct gp_driver_pool *driver_pool;
};

/* Device memory that its pool, of whichever sort, holds, and has handed out. */
static inline uint64_t gp_context_reserved(const struct gp_context *context)
{
	return context->pool ? gp_pool_reserved(context->pool)
			     : gp_driver_pool_reserved(context->driver_pool);
}

static inline uint64_t gp_context_allocated(const struct gp_context *context)
{
	return context->pool ? gp_pool_allocated(context->pool)
			     : gp_driver_pool_allocated(context->driver_pool);
}

static inline void gp_context_stats(const struct gp_context *context,
				    struct gp_pool_stats *stats)
{
	if (context->pool)
		gp_pool_get_stats(context->pool, stats);
	else
		gp_driver_pool_get_stats(context->driver_pool, stats);
}

static inline void gp_context_section(const struct gp_context *context,
				      bool begin, struct gp_section_peak *peak)
{
	if (context->pool)
		gp_pool_section(context->pool, begin, peak);
	else
		gp_driver_pool_section(context->driver_pool, begin, peak);
}

static inline void gp_context_reset_peaks(const struct gp_context *context)
{
	if (context->pool)
		gp_pool_reset_peaks(context->pool);
	else
		gp_driver_pool_reset_peaks(context->driver_pool);
}

/* The current context of this thread, NULL when there is none or the driver
 * would not say. Made known (with its pool, when the backend is native) on
 * first sight. The pointer stays valid for the life of the process; its pool
 * until the program destroys the context. */
struct gp_context *gp_context_current(void);

/* The context `handle`, entered when it was not known; of a green context, or
 * one of unknown kind, the primary context of its device. NULL: not known and
 * not to be entered. */
struct gp_context *gp_context_known(CUcontext handle);

/* Changes whenever a context comes or goes. */
unsigned gp_context_generation(void);

/* The known context with that pool, NULL if it is gone. */
struct gp_context *gp_context_of_pool(const struct gp_pool *pool);

/* The program created this context (cuCtxCreate). */
void gp_context_created(CUcontext context);

/* It made one that is neither that nor a primary one. */
void gp_context_others(void);

/* A green one is about to be destroyed: nothing in it is ours. */
void gp_context_green_gone(CUcontext context);

/* The context was destroyed or reset: its pool goes, old pointers become
 * unknown. Called after the driver did it. */
void gp_context_gone(CUcontext context);
/* The same for the primary context of `device`, whatever its handle. */
void gp_context_primary_gone(CUdevice device);

/* The context, or (NULL) the primary one of `device`, is about to be destroyed or
 * reset; it was not. */
void gp_context_leaves(CUcontext handle, CUdevice device);
void gp_context_stays(CUcontext handle, CUdevice device);
/* The primary one may be destroyed; one of the calls above says what came of it,
 * or gp_context_primary_gone(). */
void gp_context_may_leave(CUdevice device);
/* The driver just made a context with this handle: until all is forgotten of
 * another one that had it. Not where the calling thread destroys that one, and
 * the driver runs a profiler's code within. */
void gp_context_await_left(CUcontext handle);
bool gp_context_is_leaving(CUcontext handle);

/* Ask the driver whether a call such as cuMemFree is allowed on this thread
 * now. Where a capture forbids it, the driver answers 900 and invalidates the
 * capture, as it does for the real call; after a fault it answers that, as it
 * does to all calls. CUDA_SUCCESS when allowed. */
CUresult gp_context_probe(const struct gp_context *context);

/* A submission to the legacy stream on this thread, in whatever context, can
 * only concern the pool of the one that was current there a moment ago: there
 * is one device, and no context but its primary one was made. Stays so until
 * gp_follow_expire() is called. Cheap enough for cold paths. */
bool gp_context_alone(void);

/* Did the program make it itself (is it no primary context)? */
bool gp_context_was_created(CUcontext context);

/* ---- primary contexts (lifecycle.c) ------------------------------------------------- */

/* The primary context of `device`, which the runtime works in: made if there is
 * none yet, and then it stays; else nobody's release is one less for this. */
CUresult gp_context_primary(CUcontext *context, CUdevice device);

/* Is it that? Of a context that is there, on that device. */
bool gp_context_is_primary(CUcontext context, CUdevice device);

/* ---- the pools of all of them (context_pools.c) ------------------------------------- */

/* Calls `visit` for every known context with a pool of either sort, none of
 * which goes meanwhile. */
void gp_context_each(void (*visit)(struct gp_context *, void *), void *arg);

/* Trim the pools on `device` (all devices: -1), but not that of `except` (may
 * be NULL). Returns the bytes given back. */
uint64_t gp_context_trim(CUdevice device, uint64_t bytes, CUcontext except);

/* The same of what is idle: waits for no work. */
uint64_t gp_context_trim_idle(CUdevice device, uint64_t bytes);

/* Give back up to `bytes` of what is cached on the device of that UUID, for
 * another process: no more than leaves `floor` of it, and only what is idle or
 * becomes so within `ms`. The program is not held up. Returns the bytes. */
uint64_t gp_context_trim_for(const uint8_t uuid[16], uint64_t bytes,
			     uint64_t floor, unsigned ms);

/* Peaks start again from what is now. */
void gp_context_reset_peak(void);

/* What the pools on the device, or on any (-1), have cached, bytes. */
uint64_t gp_context_cached(CUdevice device);

/* Let every pool do its housekeeping. gpupool's own thread only. */
void gp_context_tick(void);

/* ---- in reports (context_report.c) -------------------------------------------------- */

/* Calls `visit` for what is left of every pool that is gone, under a lock. */
void gp_context_each_retired(void (*visit)(struct gp_report_pool *, void *),
			     void *arg);

/* Ask the driver how much is free on the device of each. */
void gp_context_ask(void);

/* Picture of all pools, those already destroyed included, into pools[0..max).
 * Returns their number. No driver call; `asked`: with what gp_context_ask()
 * was told last. */
size_t gp_context_report(struct gp_report_pool *pools, size_t max, bool asked);

#endif
