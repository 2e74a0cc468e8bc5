/*
 * Between the files of the driver: driver.c and driver_*.c. Thread-safe. Results
 * as in pool/driver.h, where they are no CUresult.
 */
#ifndef GP_SHIM_DRIVER_IMPL_H
#define GP_SHIM_DRIVER_IMPL_H

#include "shim/capture.h"
#include "shim/driver.h"

/* driver.c: the seam. Constant. */
extern const struct gp_driver_ops gp_cuda_ops;
extern const struct gp_stream_ops gp_cuda_streams;

/* As the seam answers; remembers the code for gp_cuda_last_error(). `call`: a
 * string constant. */
int gp_cuda_errno(CUresult rc, const char *call);

/* What memory of the pool's is to be told of other devices: those that may reach
 * it, and those that no longer may. Returns how many. */
size_t gp_cuda_peer_access(const struct gp_cuda_driver *cuda,
			   CUmemAccessDesc access[GP_MAX_PEERS]);

/* Runs `body` with the pool's context current on this thread. */
CUresult gp_cuda_in_context(const struct gp_cuda_driver *cuda,
			    CUresult (*body)(const struct gp_real *real,
					     void *arg),
			    void *arg);

/* driver_limit.c. Before memory is asked of the driver: 0 or -ENOMEM. */
int gp_cuda_take(const struct gp_cuda_driver *cuda, uint64_t bytes);
/* After it; `rc` as the seam answers. */
void gp_cuda_taken(const struct gp_cuda_driver *cuda, uint64_t bytes, int rc);
/* It went back to the driver. */
void gp_cuda_gave(const struct gp_cuda_driver *cuda, uint64_t bytes);
/* One spare more (driver_wait.c), before the driver is asked for it: the first
 * of a context takes a piece, in which all others lie. False: the limit leaves no
 * room for that; `must`: then it is taken all the same. Waits for nothing. */
bool gp_cuda_spare_take(struct gp_cuda_driver *cuda, bool must);
void gp_cuda_spare_gave(struct gp_cuda_driver *cuda);
/* The driver answered `result`. If that was for lack of memory and others than
 * this pool could give some back: true, ask once more. */
bool gp_cuda_others_gave(const struct gp_cuda_driver *cuda, uint64_t bytes,
			 CUresult result);

/* Plain allocations, and waiting for the context: driver_wait.c. */
int gp_cuda_segment_alloc(void *dev, uint64_t bytes, uint64_t *va);
int gp_cuda_segment_free(void *dev, uint64_t va, uint64_t bytes);
int gp_cuda_sync(void *dev);

/* What a thread that captures must do before calls that touch no captured
 * stream. */
struct gp_ease {
	CUstreamCaptureMode mode;
	bool on;
};

static inline struct gp_ease gp_ease(void)
{
	struct gp_ease e = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};

	e.on = gp_capture_any() && gp_real()->cuThreadExchangeStreamCaptureMode(
					   &e.mode) == CUDA_SUCCESS;
	return e;
}

static inline void gp_unease(struct gp_ease *e)
{
	if (e->on)
		gp_real()->cuThreadExchangeStreamCaptureMode(&e->mode);
}

#endif
