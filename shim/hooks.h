/*
 * The functions gpupool replaces and the real ones behind them.
 *
 * CUDA's headers are included here and only here, with
 * __CUDA_API_VERSION_INTERNAL so that every name means the entry point that
 * libcuda exports under it (cuMemAlloc is the 32-bit one of CUDA 2, _ptsz
 * twins exist), and under default visibility so that our bodies are exported.
 */
#ifndef GP_SHIM_HOOKS_H
#define GP_SHIM_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

/* The real driver entry points, by name. One that this driver lacks answers
 * CUDA_ERROR_NOT_FOUND, so no caller tests for NULL. Immutable once
 * published. */
struct gp_real {
#define GP_HOOK(name) __typeof__(name) *name;
#define GP_NEED(name) __typeof__(name) *name;
#include "shim/hooks.def"
};

/* Where the real pointers are published: release/acquire. Before libcuda is
 * found it points at a table in which everything answers
 * CUDA_ERROR_NOT_INITIALIZED. */
extern const struct gp_real *gp_real_table;

/* Cold: find libcuda and fill the table. Thread-safe. */
const struct gp_real *gp_real_find(void);

/* The real driver. Never NULL. */
static inline const struct gp_real *gp_real(void)
{
	const struct gp_real *real =
		__atomic_load_n(&gp_real_table, __ATOMIC_ACQUIRE);

	return __builtin_expect(real != NULL, 1) ? real : gp_real_find();
}

/* The replacement for a real driver function, or `function` itself when
 * nothing replaces exactly this entry point (pointer identity, so that no
 * version is ever guessed). */
void *gp_hook_of(void *function);

/* Learn the driver from one of its functions, as dlsym just returned it; a
 * second, different libcuda is left alone. */
void gp_real_learn(void *function);

/* True when `address` lies in NVIDIA's own driver libraries. What they ask of
 * the linker for themselves is theirs. */
bool gp_is_driver_code(const void *address);

/* ---- the runtime (runtime.c) -------------------------------------------- */

/* The replacement for a real libcudart function, or `function` itself. */
void *gp_runtime_hook_of(void *function, const char *name);

/* Look again which runtimes are loaded. Cold; gpupool's own thread calls it now
 * and then, since a dlopen may have changed the answer. */
void gp_runtime_refresh(void);

/* ---- the dynamic linker (dlsym.c) ----------------------------------------- */

/* The real dlsym. Its caller is gpupool: do not pass RTLD_NEXT or
 * RTLD_DEFAULT on behalf of somebody else. */
void *gp_dlsym(void *handle, const char *name);

#endif
