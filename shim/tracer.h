/*
 * The allocation trace that `gpupool record` asks for: one line an event, in
 * the format that gpupool-replay reads (op,id,size,stream,t_us).
 */
#ifndef GP_SHIM_TRACER_H
#define GP_SHIM_TRACER_H

#include <stdbool.h>
#include <stdint.h>

/* True when a trace is being written. Synchronization: atomic. */
extern int gp_tracing;

/* Open the file named by GPUPOOL_TRACE, if any. From gp_start(). A file that
 * cannot be written costs one line; the program runs on. */
void gp_tracer_start(void);
/* Write out what is buffered. At exit. */
void gp_tracer_flush(void);

/* Out of line: a line of the trace. Thread-safe. */
void gp_trace_event(char op, uint64_t address, uint64_t bytes);

static inline bool gp_tracer_on(void)
{
	return __builtin_expect(
		__atomic_load_n(&gp_tracing, __ATOMIC_RELAXED) != 0, 0);
}

static inline void gp_tracer_alloc(uint64_t address, uint64_t bytes)
{
	if (gp_tracer_on())
		gp_trace_event('a', address, bytes);
}

/* Before the address can come back on another thread. */
static inline void gp_tracer_free(uint64_t address)
{
	if (gp_tracer_on())
		gp_trace_event('f', address, 0);
}

static inline void gp_tracer_oom(uint64_t bytes)
{
	if (gp_tracer_on())
		gp_trace_event('o', 0, bytes);
}

#endif
