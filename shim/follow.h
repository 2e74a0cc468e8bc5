/*
 * Shows the order of each context's pool the work that the program submits to
 * its streams, and what the program's own waits prove.
 *
 * A call's stream is found in a few entries of the calling thread. They expire
 * together, when a stream or a context goes or comes. Any thread.
 */
#ifndef GP_SHIM_FOLLOW_H
#define GP_SHIM_FOLLOW_H

#include "shim/work.h"

struct gp_pool;
struct gp_work_row;

/* Between the program and the driver; from gp_work_enter() and _leave(). */
void gp_follow_begin(struct gp_work *work, const struct gp_work_row *row);
void gp_follow_end(struct gp_work *work, const struct gp_work_row *row,
		   CUresult rc);

/* What each thread knows of streams is to be looked up again. */
void gp_follow_expire(void);

/* The calling thread's slot of a stream (normalised, see struct gp_work); NULL:
 * its context has no pool, or the pool does not follow streams. */
struct gp_slot *gp_follow_slot(CUstream stream);

/* Around cuStreamBeginCapture. The first returns what the second wants. */
struct gp_slot *gp_follow_capture(CUstream stream);
void gp_follow_captured(struct gp_slot *slot);
/* After cuStreamEndCapture. */
void gp_follow_capture_ended(CUstream stream);

/* Before cuStreamDestroy. */
void gp_follow_destroy(CUstream stream);

/* The same of all streams of a green context, which is about to be destroyed. */
void gp_follow_leave(CUcontext green);

/* After a cuStreamQuery that answered "not ready": is that so only for events
 * that marks left, while all of the program is behind its last free? */
bool gp_follow_is_empty(const struct gp_work *work);

/* The driver's cuMemFree has waited for this context. */
void gp_follow_freed(CUcontext context);

/* Managed memory may have come or gone. */
void gp_follow_managed(void);

#define GP_CALLERS 16u /* that a thread remembers; a power of two */

/* A return address in code that frees. Only its thread's own. */
struct gp_caller {
	const void *caller; /* NULL: none yet */
	bool orders_itself;
};

extern __thread struct gp_caller gp_callers[GP_CALLERS];

static inline struct gp_caller *gp_caller_entry(const void *caller)
{
	uint64_t hash = (uint64_t)(uintptr_t)caller * 0x9e3779b97f4a7c15ull;

	return &gp_callers[(hash >> 32) % GP_CALLERS];
}

/* Out of line: the answer for a caller that the thread does not remember. */
bool gp_follow_meet(const void *caller);

/* Is the code at this return address known to order its own streams, or set to
 * count so? */
static inline bool gp_follow_orders_itself(const void *caller)
{
	const struct gp_caller *entry = gp_caller_entry(caller);

	return __builtin_expect(entry->caller == caller, 1)
		       ? entry->orders_itself
		       : gp_follow_meet(caller);
}

/* The free that is to come into the driver's entry point on this thread is made
 * by `caller`; NULL: nobody in particular. */
extern __thread const void *gp_free_caller;

#ifdef GP_MUTATIONS
/* The housekeeping of all pools, whenever a test wants it. */
__attribute__((visibility("default"))) void gp_mutation_tick(void);
/* As if memory were reached without any stream from now on. */
__attribute__((visibility("default"))) void gp_mutation_only_idle(void);
#endif

#endif
