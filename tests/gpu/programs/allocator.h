/*
 * Where a timed program gets its memory: cudaMalloc as everybody does, or what
 * that is compared with.
 *
 *   malloc   cudaMalloc, cudaFree
 *   async    cudaMallocAsync, cudaFreeAsync
 *   PATH     a library like torch_cache.cpp
 */
#ifndef ALLOCATOR_H
#define ALLOCATOR_H

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

struct Allocator {
	/* For use in `stream` first. */
	void *(*get)(size_t bytes, cudaStream_t stream);
	/* `last` is the stream of its last use. */
	void (*put)(void *p, cudaStream_t last);
};

namespace allocators
{

inline void must(cudaError_t status, const char *what)
{
	if (status == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
	_Exit(3);
}

inline void *get_malloc(size_t bytes, cudaStream_t)
{
	void *p;

	must(cudaMalloc(&p, bytes), "cudaMalloc");
	return p;
}

inline void put_malloc(void *p, cudaStream_t)
{
	must(cudaFree(p), "cudaFree");
}

inline void *get_async(size_t bytes, cudaStream_t stream)
{
	void *p;

	must(cudaMallocAsync(&p, bytes, stream), "cudaMallocAsync");
	return p;
}

inline void put_async(void *p, cudaStream_t last)
{
	must(cudaFreeAsync(p, last), "cudaFreeAsync");
}

/* The default pool is to keep what it has: a fair comparison. */
inline void keep_async()
{
	unsigned long long all = ~0ull;
	cudaMemPool_t pool;

	must(cudaDeviceGetDefaultMemPool(&pool, 0), "memory pool");
	must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold,
				     &all),
	     "memory pool");
}

} // namespace allocators

inline Allocator find_allocator(const char *name)
{
	using namespace allocators;

	if (!strcmp(name, "malloc"))
		return {get_malloc, put_malloc};
	if (!strcmp(name, "async")) {
		keep_async();
		return {get_async, put_async};
	}
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (library) {
		Allocator found = {(void *(*)(size_t, cudaStream_t))dlsym(
					   library, "gpu_get"),
				   (void (*)(void *, cudaStream_t))dlsym(
					   library, "gpu_put")};

		if (found.get && found.put)
			return found;
	}
	fprintf(stderr,
		"--alloc wants malloc, async or a library, not '%s'%s%s\n",
		name, library ? "" : ": ", library ? "" : dlerror());
	exit(2);
}

#endif
