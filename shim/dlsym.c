/*
 * What dlsym answers for CUDA's names. Every CUDA program finds the driver
 * through dlsym or cuGetProcAddress: static and shared cudart, PyTorch, CuPy,
 * JAX and numba alike.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "shim/hooks.h"
#include "shim/state.h"

typedef void *dlsym_fn(void *handle, const char *name);

/* glibc's dlsym; written once with the same value by whoever comes first. Read
 * by dlsym.S. */
__attribute__((visibility("hidden"))) dlsym_fn *gp_dlsym_real;

/* Called from dlsym.S, possibly before any constructor ran and before a
 * sanitizer runtime is ready: no instrumentation, no other library call. */
dlsym_fn *gp_dlsym_init(void);
void *gp_dlsym_cuda(void *handle, const char *name, const void *caller);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GP_UNSANITIZED __attribute__((no_sanitize("address", "thread")))
#else
#define GP_UNSANITIZED
#endif

/* Versions of dlsym: glibc 2.34 moved it into libc; before, libdl's first
 * version on x86-64 and on aarch64. */
GP_UNSANITIZED dlsym_fn *gp_dlsym_init(void)
{
	void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

	if (!found)
		found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (!found)
		found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
	if (!found)
		__builtin_trap(); /* no glibc we know: cannot go on */
	__atomic_store_n(&gp_dlsym_real, (dlsym_fn *)found, __ATOMIC_RELEASE);
	return (dlsym_fn *)found;
}

void *gp_dlsym(void *handle, const char *name)
{
	dlsym_fn *real = __atomic_load_n(&gp_dlsym_real, __ATOMIC_ACQUIRE);

	return (real ? real : gp_dlsym_init())(handle, name);
}

/* True for a name in the hook table. The match is exact, so neither curl_easy
 * nor cublasCreate goes any further. */
static bool is_hooked(const char *name, bool *runtime)
{
	static const char *const driver[] = {
#define GP_HOOK(name) #name,
#include "shim/hooks.def"
	};
	static const char *const cudart[] = {
#define GP_RUNTIME(name) #name,
#include "shim/hooks.def"
	};

	*runtime = strncmp(name, "cuda", 4) == 0;
	if (*runtime) {
		for (size_t i = 0; i < sizeof(cudart) / sizeof(*cudart); i++)
			if (!strcmp(name, cudart[i]))
				return true;
		return false;
	}
	if (name[2] < 'A' || name[2] > 'Z')
		return false;
	for (size_t i = 0; i < sizeof(driver) / sizeof(*driver); i++)
		if (!strcmp(name, driver[i]))
			return true;
	return false;
}

/*
 * The substitute for `name`, or NULL: then dlsym.S jumps to the real dlsym.
 *
 * RTLD_DEFAULT and RTLD_NEXT need no help: the search itself finds our export
 * or, rightly, what comes after the caller. So only true handles are looked
 * up here, which is also what keeps this from recursing.
 */
void *gp_dlsym_cuda(void *handle, const char *name, const void *caller)
{
	bool runtime;

	if (handle == RTLD_DEFAULT || handle == RTLD_NEXT ||
	    !is_hooked(name, &runtime))
		return NULL;

	void *found = gp_dlsym(handle, name);

	if (!found || !gp_may_intercept() || gp_is_driver_code(caller))
		return NULL;
	if (runtime)
		return gp_runtime_hook_of(found, name);
	gp_real_learn(found);
	return gp_hook_of(found);
}
