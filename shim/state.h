/*
 * What gpupool is in this process: cold until the first GPU memory call,
 * running after it, off when disabled and in a forked child.
 *
 * A process that never touches a GPU stays cold: no thread, no file, no
 * signal handler, no output.
 */
#ifndef GP_SHIM_STATE_H
#define GP_SHIM_STATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "conf/conf.h"

enum gp_phase {
	GP_COLD,    /* nothing done yet */
	GP_RUNNING, /* configured, thread and handlers in place */
	GP_OFF,     /* a fork of a process that ran */
};

/* Synchronization: atomic. Goes COLD -> RUNNING -> OFF. */
extern int gp_phase_now;

/* Cold: configure and start. Thread-safe; returns true when running. */
bool gp_start(void);

/* True when gpupool is to act in this process, starting it if need be. */
static inline bool gp_active(void)
{
	int phase = __atomic_load_n(&gp_phase_now, __ATOMIC_ACQUIRE);

	return __builtin_expect(phase == GP_RUNNING, 1) ||
	       (phase == GP_COLD && gp_start());
}

/* True when gpupool already runs; starts nothing. */
static inline bool gp_running(void)
{
	return __atomic_load_n(&gp_phase_now, __ATOMIC_ACQUIRE) == GP_RUNNING;
}

/* True unless switched off; starts nothing. Thread-safe, cheap enough for
 * symbol lookups. */
bool gp_may_intercept(void);

/* True if the settings hold the process to a limit, or have one that cannot be
 * read. Starts nothing. Thread-safe. */
bool gp_may_limit(void);

/* The configuration. Immutable once gp_may_intercept() was called. */
const struct gp_conf *gp_settings(void);

/* Sentences about settings, for the report; immutable once running. */
#define GP_MAX_NOTES 16
size_t gp_setting_notes(const char *const **notes);

/* Directory the program was started in, "" if it could not be read. */
const char *gp_start_dir(void);
/* Wall clock at which the library was loaded, ns since 1970. */
uint64_t gp_start_time(void);
/* The process that runs gpupool. A vfork child shares our memory but has
 * another pid: compare before doing anything on its behalf. */
pid_t gp_owner_pid(void);

/* Tell `gpupool run`, once, that calls are being intercepted: the process id
 * goes to the file named by GPUPOOL_PROOF. */
void gp_prove_interception(void);

#endif
