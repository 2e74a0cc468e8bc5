/*
 * Call stacks of the program's allocations, as the setting `stacks` wants it.
 */
#ifndef GP_SHIM_STACKS_H
#define GP_SHIM_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/sampler.h"
#include "stats/stack.h"

struct gp_pool;
struct gp_report;

/* At start, before the first allocation is served. */
void gp_stacks_start(void);

/* The calling thread's stack. False: switched off, or the thread is at it
 * already, in code that a signal interrupted. Preserves errno. */
bool gp_stacks_take(struct gp_stack *stack);

/* The thread's countdown. */
extern __thread struct gp_sampler gp_stacks_sampler;

/* Below 0: either the thread has not been here yet, or this block is one to
 * look at. It is live, and the program does not know of it yet. `pool` NULL:
 * not from a pool. True: gp_sites_remove() is to be called for its free, which
 * a pool does itself. Preserves errno. */
bool gp_stacks_due(struct gp_pool *pool, uint64_t address, uint64_t bytes);

/* What is known of the program's sites, into the report. Any thread. */
void gp_stacks_report(struct gp_report *report);

/* The program got a block of a pool. */
static inline void gp_stacks_alloc(struct gp_pool *pool, uint64_t address,
				   uint64_t bytes)
{
	if (gp_sampler_due(&gp_stacks_sampler, bytes))
		gp_stacks_due(pool, address, bytes);
}

#endif
