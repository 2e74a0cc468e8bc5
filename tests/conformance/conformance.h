/*
 * What the sections of the conformance program share: it makes the same calls
 * plain and preloaded, and prints the same lines. Addresses are told as
 * offsets, alignment as far as any allocation has it.
 */
#ifndef TESTS_CONFORMANCE_H
#define TESTS_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

struct section {
	const char *name;
	void (*run)(void);
};

/* Every section's, ended by a row without a name. Each runs in a process of
 * its own. */
extern const struct section sizes_sections[], errors_sections[],
	context_sections[], stream_sections[], capture_sections[],
	async_sections[], other_sections[], copy_sections[], virtual_sections[],
	process_sections[];

/* A line: what was done, the result. */
void tell(const char *what, int rc);
/* The same for a call of the runtime, with the last error it left, which is
 * cleared. */
void tell_rt(const char *what, cudaError_t rc);
/* A line with a number that both runs must have alike. */
void tell_value(const char *what, long long value);
/* In front of what the next lines tell; NULL: nothing. */
void tell_prefix(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a section cannot do without; ends it otherwise. */
void need(CUresult rc);
void need_rt(cudaError_t rc);

/* A new context of the first device, current on return. */
CUcontext new_context(void);
/* The primary context of the first device, current on return. */
CUcontext primary_context(void);
/* Device memory that has been written, through the runtime. */
char *device_block(size_t bytes);
/* Memory of that size has been freed before, so that a pool has it. */
void warm(size_t bytes);

#endif
