/*
 * gpupool's own thread, and the moments at which a report is written: at exit
 * (also _exit), on the report signal, on an out-of-memory.
 */
#ifndef GP_SHIM_REPORTER_H
#define GP_SHIM_REPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start the thread and chain the signal handler. Called once, from gp_start().
 * Without a thread (creation failed) a line says so, and reports are written by
 * the thread that needs them until there is one. */
void gp_reporter_start(void);

/* Tries again to start such threads of gpupool's as there are none of yet. Where
 * it is called a moment does not matter, and no lock is held. Thread-safe;
 * preserves errno. */
extern bool gp_reporter_short; /* there is one to be started; atomic */
void gp_reporter_retry(void);

static inline void gp_reporter_again(void)
{
	if (__atomic_load_n(&gp_reporter_short, __ATOMIC_RELAXED))
		gp_reporter_retry();
}

/* An allocation of `bytes` on `device` by `call` ("cuMemAlloc_v2") failed for
 * lack of memory; `limit`: it was the limit that refused it. Writes a report
 * unless one was just written. May take milliseconds. Thread-safe; no lock is
 * held. */
void gp_reporter_oom(uint64_t bytes, int device, const char *call, bool limit);

/* Writes a report now; its path, also if that fails. 0 or -errno. gpupool's own
 * thread. */
int gp_reporter_now(char *path, size_t size);

/* False once the program leaves: the driver may be gone. Thread-safe. */
bool gp_reporter_may_call(void);

/* True once the last report is begun, or being written: the process is about to
 * end. Thread-safe. */
bool gp_reporter_ends(void);

#endif
