/*
 * Serving device memory from the pool, for the driver's entry points
 * (alloc.c) and for the runtime's fast path (runtime.c). Any thread; no lock is
 * held.
 */
#ifndef GP_SHIM_ALLOC_H
#define GP_SHIM_ALLOC_H

#include "shim/hooks.h"

/* What the pool had to say about a request. */
enum gp_served {
	GP_SERVED,  /* *rc is the program's answer */
	GP_FORWARD, /* not for the pool: call the real function */
};

/* `call` is the name for the report, a string constant. */
enum gp_served gp_serve_alloc(CUdeviceptr *address, size_t bytes,
			      const char *call, CUresult *rc);
enum gp_served gp_serve_pitch(CUdeviceptr *address, size_t *pitch, size_t width,
			      size_t height, unsigned element_size,
			      const char *call, CUresult *rc);
/* `caller`: a return address in the code that frees. */
enum gp_served gp_serve_free(CUdeviceptr address, const void *caller,
			     CUresult *rc);

/* As cuMemAlloc, from the pool or the driver. */
CUresult gp_alloc(CUdeviceptr *address, size_t bytes, const char *call);
/* As cuMemFreeAsync does of the pool's memory: the host does not wait, nor is
 * anything ordered but what gets the memory next, which is behind all work up
 * to now, in whatever stream. Other memory is freed as cuMemFree does, but also
 * while streams capture: nobody would free it later. */
CUresult gp_free_in_order(CUdeviceptr address);

/*
 * The runtime asks first; if the answer is an error it calls the real runtime
 * function, so that cudart records it as its last error, and the driver hook
 * below it must repeat the answer, on this thread, instead of trying again.
 */
void gp_repeat_answer(CUresult rc);
/* Nothing to repeat any more. */
void gp_forget_answer(void);

#endif
