/*
 * What the simulated driver offers a test beside the driver API itself.
 *
 * Programs use plain cuda.h; these few functions look behind it. They are
 * exported from libcuda.so.1 of the simulator and of nothing else, so a
 * program that also runs on a card finds them with dlsym.
 *
 * The environment configures the simulator, GPUPOOL_SIM=key:value,...:
 *
 *   memory:SIZE       device memory, each device       (default 16GiB)
 *   memory_step:SIZE  what each card has more than the one before it (0)
 *   devices:N         cards, 1 to 8                    (1)
 *   mig:N             instances that each card is divided into (0)
 *   context:SIZE      what a context takes of it       (64MiB; 1/16 of
 *                     a smaller device)
 *   kernel_us:N       how long a kernel takes          (0)
 *   copy_us:N         the same, copies and sets        (0)
 *   host_us:N         the same, host functions         (0)
 *   alloc_us:N        how long cuMemAlloc blocks       (0)
 *   free_us:N         how long cuMemFree blocks        (0)
 *   destroy_us:N      how long cuCtxDestroy, cuDevicePrimaryCtxReset and the
 *                     last cuDevicePrimaryCtxRelease block when all is gone
 *                                                      (0)
 *   contexts_return:0|1  a new context has the handle of one that was
 *                     destroyed                        (0)
 *   launch_us:N       how long cuGraphLaunch blocks; an event that another
 *                     thread makes its stream wait for meanwhile is not
 *                     waited for, as with driver 580.159 (0)
 *   vmm:0|1           virtual memory supported         (1)
 *   pools:0|1         memory pools supported           (1)
 *   peer:0|1          peer access between devices      (1)
 *   rdma:0|1          network cards reach memory       (1)
 *   pageable:0|1      pageableMemoryAccess             (0)
 *   version:N         the driver's version             (that of cuda.h)
 *   schedule:N        no time passes: work runs in an order drawn from the
 *                     seed N, and the order oracle watches (0: in time)
 *   history:N         an objection tells all of the last N things too (0)
 *   fail:F@N[+][=E]   the Nth call of F fails with E; with + every later
 *                     one too. E: 2 where F allocates, else 999.
 *   hang:F@N          the Nth call of F never returns, nor does any later call
 *   call_log:PATH     a line for every call
 *   stats:PATH        at exit, "key value" lines; %p is the process id
 *   shared:PATH       the devices are those of all processes with this file,
 *                     which is made; else each has devices of its own
 *   leak_report:0|1   at exit, what is still allocated, to stderr
 *
 * A setting that cannot be understood costs one line on stderr, and cuInit
 * returns CUDA_ERROR_INVALID_VALUE.
 *
 * CUDA_VISIBLE_DEVICES, with numbers, UUIDs (GPU-..., MIG-...) or beginnings of
 * them, decides which cards there are and in what order, up to the first that
 * does not exist. Of instances a process sees one, by default the first.
 *
 * Kernels that any module has (n counts 32-bit words, value is 32 bits):
 *
 *   fill32(ptr, value, n)   ptr[i] = value
 *   add32(ptr, value, n)    ptr[i] += value
 *   copy32(dst, src, n)     dst[i] = src[i]
 *   sum(dst, src, n)        *dst = sum of src[i]
 *   hash(dst, src, n)       *dst = FNV-1a over the words of src
 *   expect32(ptr, value, n)  fails with error 710 unless all are value
 *   spin(us)                takes us (32 bits) microseconds
 *   await32(ptr, value)     waits until *ptr is value, as cuStreamWaitValue32
 *
 * ptr, dst, src: CUdeviceptr. n: size_t. All functions are thread-safe.
 */
#ifndef GPUSIM_H
#define GPUSIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Physical memory of the device in use, bytes, without the contexts' own
 * share; the most there ever was; the contexts' share. 0: no such device. */
uint64_t gpusim_used_bytes(int device);
uint64_t gpusim_peak_bytes(int device);
uint64_t gpusim_context_bytes(int device);

/* A card, or an instance of one (-1: the card), as NVML sees it; by physical
 * number. Returns 0, -1: no such card. Needs no cuInit. */
struct gpusim_card {
	unsigned char uuid[16];
	uint64_t total, used; /* bytes; used: by this process */
};
int gpusim_card(int card, int instance, struct gpusim_card *out);

/* The i-th process on a whole card, of those that share it, and what it takes
 * there. Returns 0, -1: there are no more. */
int gpusim_process(int card, unsigned i, unsigned *pid, uint64_t *bytes);

/* Calls of an exported name ("cuMemAlloc_v2") since the start or the last
 * reset; failed and injected ones count. -1: no such name. */
long gpusim_calls(const char *function);
void gpusim_reset_counts(void);

/* Let call `nth` of `function` fail with `code` (a CUresult), counted from
 * now, 1 being the next. nth 0: forget it. gpusim_fail_from: that call and
 * all after it. Return 0, -1: no such name. */
int gpusim_fail(const char *function, long nth, int code);
int gpusim_fail_from(const char *function, long nth, int code);

/* Called at the start of every call of the driver, on its thread, with the
 * exported name; no lock of the driver's is held, and fn may call it. NULL:
 * nothing is. */
void gpusim_on_call(void (*fn)(const char *function));

/* Submitted work of all contexts that has not completed. */
long gpusim_pending(void);

/* ---- the order oracle (schedule:N) ------------------------------------------
 *
 * Watches that work is ordered as it would be by a cuMemFree that waits, and
 * never more than that. The program tells it what the driver alone cannot
 * know. What it objects to is told on stderr, with the history of both sides,
 * and ends the process with this status. */
#define GPUSIM_OBJECTS 86

enum gpusim_call {
	GPUSIM_ALLOCATES, /* the same; what it submits is the library's */
	GPUSIM_WORKS,     /* submits work, or does anything else */
	GPUSIM_WAITS,     /* waits for work */
	GPUSIM_FREES,     /* frees memory, and with it is a barrier */
	GPUSIM_FREES_OWN, /* frees memory; the caller leans on no barrier */
};

/* Around each of the program's calls of the driver, on its thread. */
void gpusim_call_begin(enum gpusim_call kind);
void gpusim_call_end(void);

/* The program has an allocation now; and no longer, before it frees it.
 * Returns its serial. */
unsigned gpusim_tenant_begin(uint64_t va, uint64_t bytes);
void gpusim_tenant_end(uint64_t va);

/* From now on nothing may use memory any more, as far as the host knows, when
 * the program gets it. */
void gpusim_expect_idle(void);

/* This CUevent is the program's own: what it records and waits for with it
 * is the program's order. */
void gpusim_own_event(void *event);

/* Called, on a thread that waits for work while none can run, to let other
 * threads of the program go on. NULL: none. */
void gpusim_on_wait(void (*fn)(void));

/* The last things that happened, as many as history:N says, to stderr. */
void gpusim_history(void);

/* What the driver got when, at initialisation, it looked up its own cuInit
 * with dlsym on its own handle. 1: its own function, 0: another, -1: not
 * initialised. */
int gpusim_self_lookup(void);

#ifdef __cplusplus
}
#endif
#endif
