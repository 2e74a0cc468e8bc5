/*
 * The kernels every module has (gpusim.h lists them), and launches.
 */
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/engine.h"

/* Calls `each` with every piece of [va, va + 4 * n). */
static CUresult words(struct sim_ctx *ctx, bool write, CUdeviceptr va,
		      uint64_t n,
		      void (*each)(uint32_t *at, uint64_t words, void *arg),
		      void *arg)
{
	struct sim_agent agent = {ctx, true, write};
	uint64_t bytes = n * 4;

	if (va & 3)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	while (bytes) {
		struct sim_piece piece;
		bool good;

		sim_lock();
		good = sim_reach(&agent, va, bytes, &piece);
		sim_unlock();
		if (!good)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		each((uint32_t *)(void *)piece.at, piece.bytes / 4, arg);
		sim_lock();
		sim_piece_done(&piece);
		sim_unlock();
		va += piece.bytes;
		bytes -= piece.bytes;
	}
	return CUDA_SUCCESS;
}

static void fill_words(uint32_t *at, uint64_t n, void *arg)
{
	for (uint64_t i = 0; i < n; i++)
		at[i] = *(uint32_t *)arg;
}

static void add_words(uint32_t *at, uint64_t n, void *arg)
{
	for (uint64_t i = 0; i < n; i++)
		at[i] += *(uint32_t *)arg;
}

static void sum_words(uint32_t *at, uint64_t n, void *arg)
{
	for (uint64_t i = 0; i < n; i++)
		*(uint32_t *)arg += at[i];
}

static void hash_words(uint32_t *at, uint64_t n, void *arg)
{
	uint32_t *hash = arg;

	for (uint64_t i = 0; i < n; i++)
		*hash = (*hash ^ at[i]) * 16777619u;
}

static CUresult run_fill(struct sim_ctx *ctx, const uint64_t *args)
{
	uint32_t value = (uint32_t)args[1];

	return words(ctx, true, args[0], args[2], fill_words, &value);
}

static CUresult run_add(struct sim_ctx *ctx, const uint64_t *args)
{
	uint32_t value = (uint32_t)args[1];

	return words(ctx, true, args[0], args[2], add_words, &value);
}

/* Reading, it goes on where the last piece ended. */
struct target {
	struct sim_ctx *ctx;
	CUdeviceptr va;
	CUresult err;
};

static void store_words(uint32_t *at, uint64_t n, void *arg)
{
	const char **from = arg;

	memcpy(at, *from, n * 4);
	*from += n * 4;
}

static void copy_words(uint32_t *at, uint64_t n, void *arg)
{
	struct target *to = arg;
	const char *from = (const char *)at;

	if (!to->err)
		to->err = words(to->ctx, true, to->va, n, store_words, &from);
	to->va += n * 4;
}

static CUresult run_copy(struct sim_ctx *ctx, const uint64_t *args)
{
	struct target to = {ctx, args[0], CUDA_SUCCESS};
	CUresult err = words(ctx, false, args[1], args[2], copy_words, &to);

	return err ? err : to.err;
}

static CUresult run_sum(struct sim_ctx *ctx, const uint64_t *args)
{
	uint32_t sum = 0;
	CUresult err = words(ctx, false, args[1], args[2], sum_words, &sum);

	return err ? err : words(ctx, true, args[0], 1, fill_words, &sum);
}

static CUresult run_hash(struct sim_ctx *ctx, const uint64_t *args)
{
	uint32_t hash = 2166136261u;
	CUresult err = words(ctx, false, args[1], args[2], hash_words, &hash);

	return err ? err : words(ctx, true, args[0], 1, fill_words, &hash);
}

static void compare_words(uint32_t *at, uint64_t n, void *arg)
{
	uint32_t *want = arg; /* [0]: the value, [1]: so many differ */

	for (uint64_t i = 0; i < n; i++)
		want[1] += at[i] != want[0];
}

/* As a kernel's assert(). */
static CUresult run_expect(struct sim_ctx *ctx, const uint64_t *args)
{
	uint32_t want[2] = {(uint32_t)args[1], 0};
	CUresult err = words(ctx, false, args[0], args[2], compare_words, want);

	return err ? err : want[1] ? CUDA_ERROR_ASSERT : CUDA_SUCCESS;
}

static CUresult run_store(struct sim_ctx *ctx, const uint64_t *args)
{
	uint32_t seven = 7;

	return words(ctx, true, args[0], 1, fill_words, &seven);
}

/* All it does is last. */
static CUresult run_spin(struct sim_ctx *ctx, const uint64_t *args)
{
	(void)ctx;
	(void)args;
	return CUDA_SUCCESS;
}

/* It waits before it runs: see launch(). */
static CUresult run_await(struct sim_ctx *ctx, const uint64_t *args)
{
	return run_spin(ctx, args);
}

static const struct sim_kernel kernels[] = {
	{"fill32", 3, {8, 4, 8}, run_fill, {{SIM_WRITES, 2}}},
	{"add32", 3, {8, 4, 8}, run_add, {{SIM_WRITES, 2}}},
	{"copy32", 3, {8, 8, 8}, run_copy, {{SIM_WRITES, 2}, {SIM_READS, 2}}},
	{"sum", 3, {8, 8, 8}, run_sum, {{SIM_WRITES, -1}, {SIM_READS, 2}}},
	{"hash", 3, {8, 8, 8}, run_hash, {{SIM_WRITES, -1}, {SIM_READS, 2}}},
	{"expect32", 3, {8, 4, 8}, run_expect, {{SIM_READS, 2}}},
	{"store", 1, {8}, run_store, {{SIM_WRITES, -1}}},
	{"spin", 1, {4}, run_spin, {{SIM_LEAVES, 0}}},
	{"await32", 2, {8, 4}, run_await, {{SIM_LEAVES, 0}}},
};
#define KERNELS (sizeof(kernels) / sizeof(*kernels))

const struct sim_kernel *sim_kernel_find(const char *name)
{
	for (size_t i = 0; i < KERNELS; i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return NULL;
}

bool sim_kernel_is(const void *kernel)
{
	for (size_t i = 0; i < KERNELS; i++)
		if (kernel == &kernels[i])
			return true;
	return false;
}

/* Arguments from the array of pointers, or from the packed buffer. */
static bool read_args(struct sim_work *work, void **params, void **extra)
{
	const struct sim_kernel *kernel = work->kernel;
	const char *packed = NULL;
	size_t at = 0;

	for (; !params && extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			packed = extra[1];
	for (unsigned i = 0; i < kernel->args; i++) {
		size_t n = kernel->size[i];

		work->args[i] = 0;
		at = (at + n - 1) / n * n;
		if (params)
			memcpy(&work->args[i], params[i], n);
		else if (packed)
			memcpy(&work->args[i], packed + at, n);
		else
			return false;
		at += n;
	}
	return true;
}

static CUresult launch(CUfunction f, CUstream hstream, void **params,
		       void **extra)
{
	struct sim_work work = {.kind = SIM_W_KERNEL,
				.us = sim.settings.kernel_us};
	struct sim_stream *stream;
	CUresult err;

	if (!sim_kernel_is(f))
		return CUDA_ERROR_INVALID_HANDLE;
	work.kernel = (const struct sim_kernel *)(void *)f;
	if (!read_args(&work, params, extra))
		return CUDA_ERROR_INVALID_VALUE;
	if (work.kernel->run == run_spin)
		work.us = work.args[0];
	if (work.kernel->run == run_await)
		return sim_wait_value32(hstream, work.args[0],
					(cuuint32_t)work.args[1],
					CU_STREAM_WAIT_VALUE_EQ);
	sim_lock();
	stream = sim_stream_of(hstream);
	err = stream ? sim_submit(stream, &work, NULL)
		     : CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return err;
}

static bool bad_shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		      unsigned by, unsigned bz)
{
	return !gx || !gy || !gz || !bx || !by || !bz ||
	       (uint64_t)bx * by * bz > 1024;
}

CUresult sim_launch_kernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
			   unsigned bx, unsigned by, unsigned bz,
			   unsigned shared, CUstream stream, void **params,
			   void **extra)
{
	(void)shared;
	if (bad_shape(gx, gy, gz, bx, by, bz))
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, stream, params, extra);
}

CUresult sim_launch_cooperative(CUfunction f, unsigned gx, unsigned gy,
				unsigned gz, unsigned bx, unsigned by,
				unsigned bz, unsigned shared, CUstream stream,
				void **params)
{
	(void)shared;
	if (bad_shape(gx, gy, gz, bx, by, bz))
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, stream, params, NULL);
}

CUresult sim_launch_kernel_ex(const CUlaunchConfig *config, CUfunction f,
			      void **params, void **extra)
{
	if (!config ||
	    bad_shape(config->gridDimX, config->gridDimY, config->gridDimZ,
		      config->blockDimX, config->blockDimY, config->blockDimZ))
		return CUDA_ERROR_INVALID_VALUE;
	return launch(f, config->hStream, params, extra);
}
