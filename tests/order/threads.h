/*
 * Threads that take turns: one runs at a time, and a seed decides when it
 * gives way to which other. They do so wherever somebody takes a lock, waits
 * for another thread, or comes past a clause of the protocol, so the same seed
 * interleaves them the same way again.
 *
 * pthread_mutex_lock, pthread_cond_wait and sched_yield of the whole process
 * are replaced by ones that do this (threads.c).
 */
#ifndef ORDER_THREADS_H
#define ORDER_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_THREADS 8

/* Runs body(0) ... body(n - 1), each on a thread of its own, until all have
 * returned false; one that returns true goes on as another thread. `seed`
 * draws the turns. */
void threads_run(unsigned n, uint64_t seed, bool (*body)(unsigned thread));

/* The number of this thread; -1: none of these. */
int threads_self(void);

/* Maybe, or certainly, let another thread go on. */
void threads_point(void);
void threads_yield(void);

/* From here on threads_point() does nothing, until switched on again. */
void threads_keep(bool keep);

#endif
