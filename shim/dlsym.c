/*
 * What dlsym answers for CUDA's names. Every CUDA program finds the driver
 * through dlsym or cuGetProcAddress: static and shared cudart, PyTorch, CuPy,
 * JAX and numba alike.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "shim/hooks.h"
#include "shim/libraries.h"
#include "shim/names.h"
#include "shim/nvml.h"
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

/* True for the functions of the driver, of the runtime and of NVML alone:
 * neither curl_easy nor cublasCreate goes any further. The name begins with
 * "cu" or "nv". */
static bool may_be_cuda(const char *name)
{
	if (name[0] == 'n')
		return name[2] == 'm' && name[3] == 'l';
	return (name[2] >= 'A' && name[2] <= 'Z') ||
	       (name[2] == 'd' && name[3] == 'a');
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
	enum gp_name kind;
	void *found;

	if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !may_be_cuda(name))
		return NULL;
	kind = gp_name_find(name);
	if (kind == GP_NAME_KNOWN ||
	    (kind == GP_NAME_OTHER && (name[0] == 'n' || name[2] == 'd')))
		return NULL;
	found = gp_dlsym(handle, name);
	if (!found || !gp_may_intercept() || gp_is_driver_code(caller))
		return NULL;
	switch (kind) {
	case GP_NAME_HOOKED:
		gp_libraries_asked(caller);
		gp_real_learn(found);
		return gp_hook_of(found);
	case GP_NAME_NVML:
		return gp_nvml_hook_of(found, name);
	case GP_NAME_RUNTIME:
		return gp_runtime_hook_of(found, name);
	default:
		if (gp_is_driver_code(found))
			gp_work_note_unknown(name);
		return NULL;
	}
}
