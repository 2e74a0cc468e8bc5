/*
 * For programs that test the simulator: checks that go on after a failure.
 * A program ends with `return sim_test_end();`.
 */
#ifndef SIM_SIMTEST_H
#define SIM_SIMTEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include "tests/sim/gpusim.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static int sim_test_failures;

static inline void sim_test_is(long got, long want, const char *what, int line)
{
	if (got == want)
		return;
	printf("line %d: %s is %ld, not %ld\n", line, what, got, want);
	sim_test_failures++;
}

static inline void sim_test_need(long got, const char *what, int line)
{
	if (!got)
		return;
	printf("line %d: %s is %ld: cannot go on\n", line, what, got);
	exit(1);
}

/* `expr` has this value; it succeeds (else the test cannot go on); it holds. */
#define IS(expr, want) sim_test_is((long)(expr), (long)(want), #expr, __LINE__)
#define NEED(expr)     sim_test_need((long)(expr), #expr, __LINE__)
#define HOLDS(expr)    sim_test_is(!!(expr), 1, #expr, __LINE__)

static inline int sim_test_end(void)
{
	return sim_test_failures ? 1 : 0;
}

static inline double sim_test_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Initialise with these settings and make device 0's primary context
 * current. */
static inline CUcontext sim_test_begin(const char *settings)
{
	CUcontext ctx = NULL;

	setenv("GPUPOOL_SIM", settings, 1);
	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
	NEED(cuCtxSetCurrent(ctx));
	return ctx;
}

/* A kernel by name. */
static inline CUfunction sim_test_kernel(const char *name)
{
	CUfunction f = NULL;
	CUmodule module;

	NEED(cuModuleLoadData(&module, "any image will do"));
	NEED(cuModuleGetFunction(&f, module, name));
	return f;
}

/* Let the stream be busy for this long. */
static inline CUresult sim_test_spin(CUstream stream, unsigned us)
{
	void *args[] = {&us};
	static CUfunction spin;

	if (!spin)
		spin = sim_test_kernel("spin");
	return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
}

/* Two gates. A stream does not pass a closed one until it is opened: what
 * must not wait for the stream is done in between, and would hang. */
static uint32_t *sim_test_gate;

static inline CUresult sim_test_close(int gate, CUstream stream)
{
	if (!sim_test_gate)
		NEED(cuMemHostAlloc((void **)&sim_test_gate, 8, 0));
	__atomic_store_n(&sim_test_gate[gate], 0, __ATOMIC_RELEASE);
	return cuStreamWaitValue32(stream,
				   (CUdeviceptr)(uintptr_t)&sim_test_gate[gate],
				   1, CU_STREAM_WAIT_VALUE_EQ);
}

static inline void sim_test_open(int gate)
{
	__atomic_store_n(&sim_test_gate[gate], 1, __ATOMIC_RELEASE);
}

/* The 32-bit word there, read on a stream of its own; 0xdeadbeef: error. */
static inline uint32_t sim_test_word(CUdeviceptr at)
{
	uint32_t word = 0;

	return cuMemcpyDtoH(&word, at, 4) ? 0xdeadbeef : word;
}

#endif
