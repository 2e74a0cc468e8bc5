/*
 * This process's part in the runtime directory: its file, its ledger, and the
 * requests that others make of it.
 */
#ifndef GP_SHIM_LEDGER_H
#define GP_SHIM_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the file. `xdg`: XDG_RUNTIME_DIR as the program was given it, or NULL.
 * Called once, from gp_start(). */
void gp_ledger_start(const char *xdg);

/* Writes the figures of now. Any thread, no lock held; returns at once if
 * another thread is at it. */
void gp_ledger_update(void);

/* Answers what others have asked. gpupool's own thread. */
void gp_ledger_serve(void);

/* What was done for others, and by them. Any thread. */
void gp_ledger_count_asked(uint64_t processes, uint64_t gave_bytes);
void gp_ledger_count_gave(uint64_t bytes);

#endif
