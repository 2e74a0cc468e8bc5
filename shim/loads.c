/*
 * Calls that are no allocations and yet need device memory: code, streams and
 * graphs are made of it. Where there is none, cached memory is given back and
 * the call made once more.
 *
 * Those that submit work are in work_hooks.c and do the same.
 */
#include "shim/hooks.h"
#include "shim/pointers.h"
#include "shim/room.h"

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	CUresult rc = gp_real()->cuModuleLoad(module, path);

	return gp_room_made(rc) ? gp_real()->cuModuleLoad(module, path) : rc;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	CUresult rc = gp_real()->cuModuleLoadData(module, image);

	return gp_room_made(rc) ? gp_real()->cuModuleLoadData(module, image)
				: rc;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image,
			    unsigned number, CUjit_option *options,
			    void **values)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuModuleLoadDataEx(module, image, number, options,
					       values);

	return gp_room_made(rc)
		       ? real->cuModuleLoadDataEx(module, image, number,
						  options, values)
		       : rc;
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	CUresult rc = gp_real()->cuModuleLoadFatBinary(module, image);

	return gp_room_made(rc)
		       ? gp_real()->cuModuleLoadFatBinary(module, image)
		       : rc;
}

/* Code may be loaded only when it is first asked for. */
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
			     const char *name)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuModuleGetFunction(function, module, name);

	return gp_room_made(rc)
		       ? real->cuModuleGetFunction(function, module, name)
		       : rc;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes,
			      CUmodule module, const char *name)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuModuleGetGlobal_v2(address, bytes, module, name);

	return gp_room_made(rc) ? real->cuModuleGetGlobal_v2(address, bytes,
							     module, name)
				: rc;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code,
			   CUjit_option *jit, void **jit_values,
			   unsigned jit_number, CUlibraryOption *options,
			   void **values, unsigned number)
{
	const struct gp_real *real = gp_real();
	CUresult rc =
		real->cuLibraryLoadData(library, code, jit, jit_values,
					jit_number, options, values, number);

	return gp_room_made(rc)
		       ? real->cuLibraryLoadData(library, code, jit, jit_values,
						 jit_number, options, values,
						 number)
		       : rc;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path,
			       CUjit_option *jit, void **jit_values,
			       unsigned jit_number, CUlibraryOption *options,
			       void **values, unsigned number)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuLibraryLoadFromFile(library, path, jit,
						  jit_values, jit_number,
						  options, values, number);

	return gp_room_made(rc)
		       ? real->cuLibraryLoadFromFile(library, path, jit,
						     jit_values, jit_number,
						     options, values, number)
		       : rc;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	CUresult rc = gp_real()->cuLibraryGetModule(module, library);

	return gp_room_made(rc) ? gp_real()->cuLibraryGetModule(module, library)
				: rc;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes,
			    CUlibrary library, const char *name)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuLibraryGetGlobal(address, bytes, library, name);

	return gp_room_made(rc)
		       ? real->cuLibraryGetGlobal(address, bytes, library, name)
		       : rc;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CUresult rc = gp_real()->cuKernelGetFunction(function, kernel);

	return gp_room_made(rc)
		       ? gp_real()->cuKernelGetFunction(function, kernel)
		       : rc;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
			    int value)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuFuncSetAttribute(function, attribute, value);

	return gp_room_made(rc)
		       ? real->cuFuncSetAttribute(function, attribute, value)
		       : rc;
}

/* The heap of kernels and the printf buffer. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	CUresult rc = gp_real()->cuCtxSetLimit(limit, value);

	return gp_room_made(rc) ? gp_real()->cuCtxSetLimit(limit, value) : rc;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
			const CUmemAccessDesc *access, size_t number)
{
	const struct gp_real *real = gp_real();
	CUresult rc;

	if (gp_is_our_memory(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	rc = real->cuMemSetAccess(address, bytes, access, number);
	return gp_room_made(rc)
		       ? real->cuMemSetAccess(address, bytes, access, number)
		       : rc;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
					void *os_handle,
					CUmemAllocationHandleType type)
{
	const struct gp_real *real = gp_real();
	CUresult rc =
		real->cuMemImportFromShareableHandle(handle, os_handle, type);

	return gp_room_made(rc) ? real->cuMemImportFromShareableHandle(
					  handle, os_handle, type)
				: rc;
}

#if CUDA_VERSION >= 12010
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
			   const CUmulticastObjectProp *prop)
{
	CUresult rc = gp_real()->cuMulticastCreate(handle, prop);

	return gp_room_made(rc) ? gp_real()->cuMulticastCreate(handle, prop)
				: rc;
}
#endif
