/*
 * gpupool from inside a program: figures, peaks, sections, trims.
 *
 * Nothing is linked. The functions are weak: they are there when libgpupool.so
 * is preloaded, and NULL when it is not, so that one binary runs both ways.
 *
 *	#include <gpupool.h>
 *
 *	struct gpupool_figures f = {.size = sizeof(f)};
 *
 *	if (gpupool_figures && !gpupool_figures(GPUPOOL_CURRENT_DEVICE, &f))
 *		printf("peak %llu MiB\n",
 *		       (unsigned long long)f.allocated_bytes.peak >> 20);
 *
 *	if (gpupool_mark)
 *		gpupool_mark("train");
 *
 * or, with all such tests done in one place, gpupool_loaded(). Code that is
 * compiled with -fno-pie -no-pie has no such symbols: there, and in what is
 * loaded from other languages, dlsym(RTLD_DEFAULT, "gpupool_mark") finds them.
 *
 * All functions may be called from any thread at any time, also before the
 * program has touched a GPU (figures are 0 then) but not from a signal handler;
 * none changes errno or CUDA's last error. They return 0, or a length, or
 *
 *	-EINVAL      a NULL that is not allowed, a device below -2
 *	-ENODEV      there is no such device
 *	-EAGAIN      see gpupool_set_limit()
 *	-ENOSPC      see gpupool_mark()
 *	-EOPNOTSUPP  gpupool is switched off (enabled:False), or this is the
 *	             forked child of a process that used the GPU
 */
#ifndef GPUPOOL_H
#define GPUPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No limit, for gpupool_set_limit() and in figures. */
#define GPUPOOL_UNLIMITED      UINT64_MAX

/* Raised when something here changes its meaning; additions do not count. */
#define GPUPOOL_API_VERSION    1

/* Devices are numbered as in the CUDA runtime: what CUDA_VISIBLE_DEVICES
 * leaves, from 0. Besides: */
#define GPUPOOL_CURRENT_DEVICE (-1) /* the calling thread's; else 0 */
#define GPUPOOL_ALL_DEVICES    (-2)

#ifndef GPUPOOL_FUNCTION
#define GPUPOOL_FUNCTION __attribute__((weak))
#endif

/* What a quantity is now, its highest value, and what came and went in all. */
struct gpupool_stat {
	uint64_t current, peak, allocated, freed;
};

/* The figures that programs ask for often, as PyTorch's memory_stats() defines
 * them; gpupool_stats() has all. Of several devices: sums, also of peaks. */
struct gpupool_figures {
	/* In: sizeof(struct gpupool_figures). Out: how much of it this library
	 * knows; the rest is set to 0. */
	size_t size;

	struct gpupool_stat allocated_bytes; /* the program's, with rounding */
	struct gpupool_stat requested_bytes; /* the same without */
	struct gpupool_stat active_bytes;    /* with what is not usable yet */
	struct gpupool_stat reserved_bytes;  /* held from the driver */
	struct gpupool_stat inactive_split_bytes; /* free, bound to its place */
	struct gpupool_stat allocation;           /* live allocations */
	struct gpupool_stat segment;              /* handles of memory */

	uint64_t num_alloc_calls, num_free_calls;
	uint64_t num_hits; /* allocations without a driver call */
	uint64_t num_ooms; /* allocations refused */
	uint64_t num_alloc_retries;
	uint64_t driver_calls, driver_ns; /* made for memory */
	uint64_t saved_ns; /* what calls not made would have taken; estimated */

	uint64_t cached_bytes;       /* reserved, not allocated */
	uint64_t largest_free_bytes; /* of it, for one request */
	uint64_t outside_bytes; /* device memory of the process that does not
				 * come from the pool, all devices together */
	uint64_t device_bytes;  /* the device's memory; 0: not known yet */
	uint64_t limit_bytes;   /* what the process may take of a device, or
				 * GPUPOOL_UNLIMITED; of all: always that */
};

/* GPUPOOL_API_VERSION of the library. */
int gpupool_api_version(void) GPUPOOL_FUNCTION;

/* The figures of a device. A few microseconds. */
int gpupool_figures(int device,
		    struct gpupool_figures *figures) GPUPOOL_FUNCTION;

/* All figures as one JSON object with flat keys: those of
 * torch.cuda.memory_stats(), and gpupool's own. Writes at most `size` bytes
 * into `text`, the final 0 included, and returns the length of the whole (as
 * snprintf): when that is `size` or more, come again with more room. Memory
 * that threads keep cached for themselves is collected first, so that what
 * is said of free memory is true for a request of any thread. */
long gpupool_stats(int device, char *text, size_t size) GPUPOOL_FUNCTION;

/* The same as a page of text, laid out like torch.cuda.memory_summary(). */
long gpupool_summary(int device, char *text, size_t size) GPUPOOL_FUNCTION;

/* Gives cached memory back to the driver, as torch.cuda.empty_cache(): all of
 * it, but for what shares a handle with memory in use. Waits for work on the
 * device that may still use it. *freed, if not NULL: bytes given back. */
int gpupool_trim(int device, uint64_t *freed) GPUPOOL_FUNCTION;

/* Every peak becomes what is there now. */
int gpupool_reset_peak(int device) GPUPOOL_FUNCTION;

/* What the process may take of the device's memory from now on, whoever in it
 * asks: bytes, or GPUPOOL_UNLIMITED. What the program holds beyond it stays,
 * but does not grow; what is cached beyond it is given back. Replaces what the
 * settings said, also for a device of which nothing was taken yet. -EAGAIN: the
 * program has not initialised CUDA so far. */
int gpupool_set_limit(int device, uint64_t bytes) GPUPOOL_FUNCTION;

/* The program enters a section of that name, and leaves the one that it was
 * in; NULL: it only leaves. Reports tell each section's peaks. Of the whole
 * process, not of a thread. Names are copied, and cut at 47 bytes. -ENOSPC:
 * there are 64 names already; the program is in no section then. */
int gpupool_mark(const char *name) GPUPOOL_FUNCTION;

/* Free and total memory of the device, as cudaMemGetInfo() has it. 0 and 0 when
 * the program has not used the device. */
int gpupool_memory(int device, uint64_t *free_bytes,
		   uint64_t *total_bytes) GPUPOOL_FUNCTION;

/* For frameworks that let others allocate for them: with the signatures that
 * PyTorch's CUDAPluggableAllocator wants, which are good for a MemPool too.
 * `stream` is a cudaStream_t.
 *
 * alloc: `size` bytes on the device, from its pool; in the current context if
 * that is the device's, else in its primary one. NULL for 0 bytes, and when
 * there are none to be had: then the report of lacking memory and a line on
 * stderr say so. (PyTorch makes OutOfMemoryError of it in a MemPool; as the
 * allocator of everything it does not look at it, and uses address 0.) While a
 * stream captures it is refused as cudaMalloc is.
 *
 * free: the host does not wait, and nothing is ordered by it but what gets the
 * memory next: that runs after all work submitted so far, in any stream.
 * `stream` does not narrow that down, as PyTorch names the stream for which the
 * memory was taken, and does not hand on what record_stream() told it. NULL is
 * ignored; `size` and `device` are those of alloc.
 *
 * They work in a library that is preloaded. In one that was only opened (as
 * CUDAPluggableAllocator itself does) they say so once, and are the driver's
 * cuMemAlloc and cuMemFree. Also with enabled:False. */
void *gpupool_torch_alloc(ssize_t size, int device,
			  void *stream) GPUPOOL_FUNCTION;
void gpupool_torch_free(void *address, ssize_t size, int device,
			void *stream) GPUPOOL_FUNCTION;

/* Is the library there? */
static inline int gpupool_loaded(void)
{
	int (*volatile version)(void) = gpupool_api_version;

	return version != NULL;
}

#ifdef __cplusplus
}
#endif

#endif
