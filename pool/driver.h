/*
 * The driver as the pool sees it: a handful of function pointers.
 *
 * The pool never includes a CUDA header. shim/driver.c implements this seam
 * over the real driver, tests and gpupool-replay implement it over a model.
 *
 * Conventions: every function returns 0 or -errno.
 *   -ENOMEM   the device has no memory left for this request
 *   -EBUSY    not allowed right now (a stream of the context is capturing)
 *   -EIO      any other driver failure; the implementation remembers the
 *             exact code for its own caller (see shim/driver.h)
 * All sizes and offsets are bytes. All functions are thread-safe and are
 * called with no pool lock held.
 */
#ifndef GP_POOL_DRIVER_H
#define GP_POOL_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

struct gp_driver_ops {
	/* Reserve address space, aligned to 2 MiB. Costs no device memory. */
	int (*reserve)(void *dev, uint64_t bytes, uint64_t *va);
	int (*unreserve)(void *dev, uint64_t va, uint64_t bytes);

	/* Physical memory. `bytes` is a multiple of gp_driver.granularity. */
	int (*create)(void *dev, uint64_t bytes, uint64_t *handle);
	int (*release)(void *dev, uint64_t handle, uint64_t bytes);

	/* Map one whole handle at va, without access. */
	int (*map)(void *dev, uint64_t va, uint64_t bytes, uint64_t handle);
	/* Give the device access; the range may span several mapped handles,
	 * and must begin and end at handle boundaries. */
	int (*set_access)(void *dev, uint64_t va, uint64_t bytes);
	/* Unmap; may span several whole handles. Does not wait for work that
	 * uses the range (measured on H200: 22 us under a running kernel). */
	int (*unmap)(void *dev, uint64_t va, uint64_t bytes);

	/* Plain driver allocations, for devices without virtual memory and
	 * for expandable_segments:False. segment_free waits as cuMemFree. */
	int (*segment_alloc)(void *dev, uint64_t bytes, uint64_t *va);
	int (*segment_free)(void *dev, uint64_t va, uint64_t bytes);

	/* Wait on the host for all work of the context. */
	int (*sync)(void *dev);
	/* True while a stream of the context captures: sync is not allowed. */
	bool (*capturing)(void *dev);
	/* Monotonic clock, ns. */
	uint64_t (*now)(void *dev);
};

struct gp_driver {
	const struct gp_driver_ops *ops;
	void *dev; /* passed to every function; not owned */
	uint64_t
		granularity; /* of handles, bytes (2 MiB on every known card) */
	uint64_t total_bytes; /* physical memory of the device */
	bool has_vmm;         /* false: only segment_* may be used */
};

#endif
