/*
 * Modules and libraries. Whatever the image is, they have the simulator's
 * kernels.
 */
#include <stdlib.h>

#include "tests/sim/bodies.h"
#include "tests/sim/work.h"

struct sim_module {
	struct sim_list link; /* in ctx->modules; a library's in none */
};

CUresult sim_module_load_data(CUmodule *out, const void *image)
{
	struct sim_module *module;

	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	module = calloc(1, sizeof(*module));
	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	sim_list_add(&sim_current()->modules, &module->link);
	sim_handle_add(SIM_K_MODULE, module);
	sim_unlock();
	*out = (CUmodule)(void *)module;
	return CUDA_SUCCESS;
}

CUresult sim_module_load_data_ex(CUmodule *out, const void *image, unsigned n,
				 CUjit_option *options, void **values)
{
	if (n && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_module_load_data(out, image);
}

static void module_free(struct sim_module *module)
{
	sim_handle_remove(module);
	sim_list_del(&module->link);
	free(module);
}

void sim_modules_destroy(struct sim_ctx *ctx)
{
	while (!sim_list_empty(&ctx->modules))
		module_free(
			sim_entry(ctx->modules.next, struct sim_module, link));
}

CUresult sim_module_unload(CUmodule handle)
{
	struct sim_module *module = (struct sim_module *)(void *)handle;
	bool known;

	sim_lock();
	known = sim_handle_is(SIM_K_MODULE, module);
	if (known)
		module_free(module);
	sim_unlock();
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_module_function(CUfunction *out, CUmodule handle, const char *name)
{
	const struct sim_kernel *kernel;
	bool known;

	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	known = sim_handle_is(SIM_K_MODULE, (void *)handle);
	sim_unlock();
	if (!known)
		return CUDA_ERROR_INVALID_HANDLE;
	kernel = sim_kernel_find(name);
	if (!kernel)
		return CUDA_ERROR_NOT_FOUND;
	*out = (CUfunction)(uintptr_t)kernel;
	return CUDA_SUCCESS;
}

CUresult sim_func_attribute(int *value, CUfunction_attribute attribute,
			    CUfunction f)
{
	if (!value || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_kernel_is(f))
		return CUDA_ERROR_INVALID_HANDLE;
	*value =
		attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
	return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12000
/* ---- libraries: modules of no context ------------------------------------------- */

CUresult sim_library_load_data(CUlibrary *out, const void *code,
			       CUjit_option *jit, void **jit_values,
			       unsigned jit_count, CUlibraryOption *options,
			       void **values, unsigned count)
{
	struct sim_module *library;

	if (!out || !code || (jit_count && (!jit || !jit_values)) ||
	    (count && (!options || !values)))
		return CUDA_ERROR_INVALID_VALUE;
	library = calloc(1, sizeof(*library));
	if (!library)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_list_init(&library->link);
	sim_lock();
	sim_handle_add(SIM_K_MODULE, library);
	sim_unlock();
	*out = (CUlibrary)(void *)library;
	return CUDA_SUCCESS;
}

CUresult sim_library_unload(CUlibrary handle)
{
	return sim_module_unload((CUmodule)(void *)handle);
}

CUresult sim_library_kernel(CUkernel *out, CUlibrary handle, const char *name)
{
	return sim_module_function((CUfunction *)(void *)out,
				   (CUmodule)(void *)handle, name);
}

/* A kernel is its own function, in every context. */
CUresult sim_kernel_function(CUfunction *out, CUkernel kernel)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_kernel_is(kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = (CUfunction)(void *)kernel;
	return CUDA_SUCCESS;
}
#endif
