/*
 * Libraries in the process that gpupool must take care of.
 *
 * Some reach the driver around gpupool: they were opened with RTLD_DEEPBIND,
 * which puts the driver's functions before ours, or they are NVIDIA's and
 * submit work by doors of their own. Then not all work is seen, and frees wait
 * on the host. Others let devices or the host reach memory without any stream
 * (RDMA, GPUDirect Storage): a block is handed out only once it is idle.
 */
#ifndef GP_SHIM_LIBRARIES_H
#define GP_SHIM_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

/* What is loaded now, if that has changed; pools are told. Thread-safe; no lock
 * is held. Cheap enough for a while, not for ever. */
void gp_libraries_look(void);

/* The same, unless this was done a moment ago and nothing speaks for a change
 * since. On the way of allocations and frees, while a library may have come
 * (GP_SPECIAL_LOADS). */
void gp_libraries_look_again(void);

struct gp_context;

/* The context's pool learns what was found so far. */
void gp_libraries_tell(struct gp_context *context);

/* gpupool's own thread, now and then. */
void gp_libraries_tick(void);

/* The code at `caller` looks up the driver's functions. */
void gp_libraries_asked(const void *caller);

enum gp_library {
	GP_LIBRARY_AROUND, /* its work goes unseen */
	GP_LIBRARY_DIRECT, /* it reaches memory without a stream */
};

#define GP_MAX_LIBRARIES 8

/* Names of those found so far, and their number. They live for ever. Any
 * thread. */
size_t gp_libraries_found(enum gp_library kind, const char *const **names);

#endif
