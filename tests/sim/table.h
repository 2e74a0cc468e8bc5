/*
 * The entry points as data (sim.def), and what happens at every one of them.
 */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

enum sim_twin { SIM_ANY, SIM_LEGACY, SIM_PER_THREAD };

enum sim_row_flags {
	SIM_NOINIT = 1,  /* callable before cuInit and in a forked child */
	SIM_CTX = 2,     /* wants a current context, alive and unharmed */
	SIM_ALLOC = 4,   /* allocates: fails with OUT_OF_MEMORY when told to */
	SIM_UNSAFE = 8,  /* not allowed while a capture forbids it */
	SIM_NOTSUP = 16, /* answers NOT_SUPPORTED */
	SIM_WHOLE = 32   /* the current context, if any, must be as SIM_CTX
			    says */
};

struct sim_row {
	const char *name; /* as exported */
	void *door;       /* the exported function */
	int version;
	enum sim_twin twin;
	unsigned flags;
	/* Synchronization: atomic. A call numbered from fail_from up to and
	 * with fail_to since the failure was set fails; 0: none does. */
	atomic_long calls;
	atomic_long fail_seen, fail_from, fail_to;
	atomic_int fail_code;
	atomic_long hang_at; /* the call that never returns; 0: none */
};

extern struct sim_row *const sim_rows[];
extern const size_t sim_row_count;

/* The row of an exported name, else NULL. */
struct sim_row *sim_row_find(const char *name);

/* Let calls `from` to `to`, counted from now, fail. code 0: the default. */
void sim_row_fail(struct sim_row *row, long from, long to, int code);

/* Call `at` of it, counted from the start, never returns, nor does any call of
 * the driver after it. */
void sim_row_hang(struct sim_row *row, long at);

/* Every exported function comes here first (entry.S). 0: go on to the body,
 * else the result. Afterwards sim_thread() knows the row. */
CUresult sim_enter(struct sim_row *row);

#endif
