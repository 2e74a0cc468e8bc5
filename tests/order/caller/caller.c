/*
 * Stands for a library that caches device memory and orders its own streams:
 * it is known as one by its file's name.
 */
#include "tests/order/caller/caller.h"

__attribute__((visibility("default"))) CUresult caller_free(CUdeviceptr address)
{
	/* Volatile: no tail call, so that it is us who call. */
	volatile CUresult rc = cuMemFree(address);

	return rc;
}
