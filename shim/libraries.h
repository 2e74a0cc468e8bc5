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

/* Something may have been opened a moment ago. Synchronization: atomic. */
extern int gp_libraries_stale;

/* What is loaded now, if that has changed; pools are told. Thread-safe; no lock
 * is held. Cheap enough for a while, not for ever. */
void gp_libraries_look(void);

/* The same, unless this was done a moment ago and nothing speaks for a change
 * since. */
void gp_libraries_look_again(void);

struct gp_context;

/* The context's pool learns what was found so far. */
void gp_libraries_tell(struct gp_context *context);

/* gpupool's own thread, now and then. */
void gp_libraries_tick(void);

/* On the way of allocations and frees. */
static inline void gp_libraries_mind(void)
{
	if (__builtin_expect(
		    __atomic_load_n(&gp_libraries_stale, __ATOMIC_RELAXED), 0))
		gp_libraries_look_again();
}

/* The code at `caller` looks up the driver's functions. */
void gp_libraries_asked(const void *caller);

enum gp_library {
	GP_LIBRARY_AROUND, /* its work goes unseen */
	GP_LIBRARY_DIRECT, /* it reaches memory without a stream */
};

#define GP_MAX_LIBRARIES 8

/* Names of those found so far, and their number. They live for ever. */
size_t gp_libraries_found(enum gp_library kind, const char *const **names);

#endif
