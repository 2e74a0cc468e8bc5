/*
 * The bell: wakes gpupool's own thread, from this process or another.
 *
 * A futex in the process's file, or, without one, in plain memory. It needs no
 * descriptor, which a program might close and reopen as a file of its own.
 */
#ifndef GP_STATS_BELL_H
#define GP_STATS_BELL_H

#include <stdint.h>

#include "stats/process_file.h"

/* After gp_file_start(), before the others. */
void gp_bell_start(void);

/* Wakes the thread. Async-signal-safe; preserves errno. */
void gp_bell_ring(void);

/* Waits until the bell rings after `seen` was read, or for `ns`. */
uint32_t gp_bell_seen(void);
void gp_bell_wait(uint32_t seen, uint64_t ns);

/* Rings the bell of the process whose file that is. Safe whatever becomes of
 * the file meanwhile. Preserves errno. */
void gp_bell_ring_other(int fd);

#endif
