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
	 * for expandable_segments:False. Nothing uses what segment_free gives
	 * back; it need not wait for anything else. */
	int (*segment_alloc)(void *dev, uint64_t bytes, uint64_t *va);
	int (*segment_free)(void *dev, uint64_t va, uint64_t bytes);

	/* Wait on the host for all work of the context. While a stream of it
	 * captures it may not be possible. */
	int (*sync)(void *dev);
	/* Monotonic clock, ns. */
	uint64_t (*now)(void *dev);
	/* The device is full, and so much is wanted: others may give up what
	 * they only keep. Returns what came free, 0: nothing. May wait. NULL:
	 * there is nobody to ask. */
	uint64_t (*make_room)(void *dev, uint64_t bytes);
};

/* The driver's streams and events, for reuse in stream order. A stream is its
 * handle as the driver takes it (1: legacy, 2: the calling thread's default).
 * None of these waits for the device but event_sync, and each may be called
 * with the order's lock held (but event_sync); also while streams capture,
 * though never with one that does. */
struct gp_stream_ops {
	int (*event_create)(void *dev, uint64_t *event);
	/* The event is complete when what is in the stream now is. */
	int (*record)(void *dev, uint64_t event, uint64_t stream);
	/* What comes into the stream from now on runs after the event. */
	int (*wait)(void *dev, uint64_t stream, uint64_t event);
	/* 0: complete. -EAGAIN: not yet. */
	int (*query)(void *dev, uint64_t event);
	int (*event_sync)(void *dev, uint64_t event);
	/* Fills with a byte, in the stream. */
	int (*fill)(void *dev, uint64_t stream, uint64_t va, uint64_t bytes,
		    uint8_t value);
	/* Copies to the host, in the stream, and waits for it: not with the
	 * order's lock held. */
	int (*read)(void *dev, uint64_t stream, uint64_t va, uint64_t bytes,
		    void *to);
	/* A stream; `blocking`: it and the legacy one wait for each other. */
	int (*stream_create)(void *dev, bool blocking, uint64_t *stream);
	void (*stream_destroy)(void *dev, uint64_t stream);
	/* Does it capture, as far as the driver says? */
	bool (*is_capturing)(void *dev, uint64_t stream);
	/* Do it and the legacy stream wait for each other? Must not be asked of a
	 * stream that captures: to ask for its flags ends the capture (measured,
	 * driver 580). */
	bool (*is_blocking)(void *dev, uint64_t stream);
};

/* Constant, and copied by who is given it. */
struct gp_driver {
	const struct gp_driver_ops *ops;
	const struct gp_stream_ops *streams; /* NULL: frees wait on the host */
	void *dev; /* passed to every function; not owned */
	uint64_t
		granularity; /* of handles, bytes (2 MiB on every known card) */
	uint64_t total_bytes; /* physical memory of the device */
	uint64_t limit_bytes; /* what the process may take of it; 0: all */
	bool has_vmm;         /* false: only segment_* may be used */
	uint32_t device;      /* its number, for those who read of it */
};

#endif
