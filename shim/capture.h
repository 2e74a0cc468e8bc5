/*
 * Which streams capture. While one does, work of its context must not be
 * waited for, and plain allocations follow the driver's own capture rules.
 */
#ifndef GP_SHIM_CAPTURE_H
#define GP_SHIM_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/hooks.h"

/* Number of captures under way in the process. Synchronization: atomic. */
extern int gp_captures;

/* Cheap test for the hot path. */
static inline bool gp_capture_any(void)
{
	return __builtin_expect(
		__atomic_load_n(&gp_captures, __ATOMIC_RELAXED) != 0, 0);
}

/* True while a stream of `context` captures. Thread-safe. */
bool gp_capture_in(CUcontext context);

/* Does the stream capture, as far as is known? As the driver takes it: NULL is
 * the legacy one. Thread-safe. */
bool gp_capture_of(CUstream stream);

/* Around a wait for all of `context`, which would end a capture. False: one is
 * under way; do not wait, nor call end. Between the two none begins: who would
 * begin one waits. Thread-safe. */
bool gp_capture_hold_off(CUcontext context);
void gp_capture_go_on(void);

/* The capture that began last. Thread-safe. */
uint64_t gp_capture_last(void);

/* The context is gone, and with it its captures up to `last`: another may have
 * its handle already, and capture. Thread-safe. */
void gp_capture_forget(CUcontext context, uint64_t last);

#endif
