/*
 * Between context.c, which knows the contexts, and what is done with the pools
 * of them all: context_report.c and context_pools.c.
 */
#ifndef GP_SHIM_CONTEXT_IMPL_H
#define GP_SHIM_CONTEXT_IMPL_H

#include <pthread.h>

#include "shim/context.h"

#define GP_MAX_CONTEXTS GP_REPORT_MAX_POOLS

/* Rank: below the start, above the pool's locks. Never held across a driver
 * call. */
extern pthread_mutex_t gp_context_lock;

/* Contexts with a pool, for a caller that is no thread of the program: none of
 * the pools goes before gp_context_return(). Returns how many. Takes the lock;
 * any thread. */
size_t gp_context_borrow(struct gp_context *list[GP_MAX_CONTEXTS]);
void gp_context_return(void);

/* The context took all its memory with it: reports keep what its pool had done.
 * Under the lock; the pool is still there. */
void gp_context_retire(const struct gp_context *context);

#endif
