/*
 * The keeper: the thread that calls the driver on gpupool's own account, so
 * that the one which writes reports need not, and is there when a driver call
 * hangs. It lets the pools do their housekeeping, answers other processes, and
 * asks the driver what reports want to know.
 */
#ifndef GP_SHIM_KEEPER_H
#define GP_SHIM_KEEPER_H

#include <stdbool.h>

/* Starts a thread of gpupool's, with all signals blocked. Its body is given
 * `name`, to name itself by: that is cheaper than to name another thread. False,
 * told in a line ("no thread for WHAT") unless `what` is NULL: there is none. */
bool gp_thread_start(void *(*body)(void *), const char *name, const char *what);

/* Starts the keeper, if it does not run. False: there is no thread for it, which
 * is told the first time. The caller sees to it that nobody else does the same. */
bool gp_keeper_start(bool first);

/* Asks the driver for the figures that a report wants, through the keeper where
 * there is one. False: it did not answer in time. Thread-safe. */
bool gp_keeper_ask(void);

/* The same on the calling thread, however long it takes. */
void gp_keeper_ask_now(void);

#endif
