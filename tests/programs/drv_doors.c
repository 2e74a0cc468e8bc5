/*
 * Description: gpupool_torch_alloc and gpupool_torch_free, as PyTorch calls
 * them: which device and context, several streams, captures, a reset, what is
 * refused. One line a step. Needs the preload, and two simulated cards. With an
 * argument nothing is done during which a free may not wait.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include "shim/gpupool.h"
#include "tests/support/must.h"

#define BYTES ((ssize_t)3 << 20)
#define WORDS ((size_t)BYTES / 4)

/* The same whatever the headers take the name for. */
extern CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags,
			       CUdevice device);

static CUcontext contexts[2];
static CUfunction fill32, copy32;

static CUdeviceptr take(ssize_t bytes, int device, CUstream stream)
{
	return (CUdeviceptr)gpupool_torch_alloc(bytes, device, stream);
}

static void give(CUdeviceptr at, ssize_t bytes, int device, CUstream stream)
{
	gpupool_torch_free((void *)at, bytes, device, stream);
}

static int device_of(CUdeviceptr at)
{
	int device = -1;

	MUST(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				   at));
	return device;
}

static CUcontext current(void)
{
	CUcontext now = NULL;

	MUST(cuCtxGetCurrent(&now));
	return now;
}

static bool is_there(CUdeviceptr at)
{
	CUdeviceptr base;
	size_t bytes;

	return cuMemGetAddressRange(&base, &bytes, at) == CUDA_SUCCESS;
}

static unsigned long long allocated(int device)
{
	struct gpupool_figures f = {.size = sizeof(f)};

	return gpupool_figures(device, &f) ? 99 : f.allocated_bytes.current;
}

/* ---- whose memory, and what becomes of the thread's context ---------------------- */

static void *without_context(void *arg)
{
	CUdeviceptr at = take(BYTES, 1, NULL);

	(void)arg;
	printf("no context before: on %d, then %s\n", device_of(at),
	       current() == contexts[1] ? "that of device 1" : "another");
	give(at, BYTES, 1, NULL);
	return NULL;
}

static void devices(void)
{
	CUcontext other;
	CUdeviceptr a, b, c;
	pthread_t thread;

	MUST(cuCtxSetCurrent(contexts[0]));
	a = take(BYTES, 0, NULL);
	b = take(BYTES, 1, NULL);
	printf("on %d and %d, current is %s\n", device_of(a), device_of(b),
	       current() == contexts[0] ? "that of device 0" : "another");
	printf("allocated: %llu and %llu\n", allocated(0), allocated(1));
	errno = 99;
	give(b, BYTES, 1, NULL);
	give(a, BYTES, 0, NULL);
	give(0, 0, 0, NULL);
	printf("allocated: %llu and %llu\n", allocated(0), allocated(1));
	printf("none asked for: %d, errno %d\n", take(0, 0, NULL) == 0, errno);
	/* The program's own context of the device is as good. */
	MUST(cuCtxCreate_v2(&other, 0, 0));
	c = take(BYTES, 0, NULL);
	a = 0;
	MUST(cuPointerGetAttribute(&a, CU_POINTER_ATTRIBUTE_CONTEXT, c));
	printf("in the context that was current: %d\n",
	       a == (CUdeviceptr)(size_t)other);
	give(c, BYTES, 0, NULL);
	MUST(cuCtxDestroy(other));
	MUST(cuCtxSetCurrent(contexts[0]));
	if (pthread_create(&thread, NULL, without_context, NULL))
		exit(1);
	pthread_join(thread, NULL);
}

/* ---- order ------------------------------------------------------------------------ */

static void launch(CUfunction f, CUstream stream, void **args)
{
	MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static void fill(CUdeviceptr at, unsigned value, CUstream stream)
{
	size_t words = WORDS;
	void *args[] = {&at, &value, &words};

	launch(fill32, stream, args);
}

static void copy(CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
	size_t words = WORDS;
	void *args[] = {&to, &from, &words};

	launch(copy32, stream, args);
}

static unsigned first_word(CUdeviceptr at)
{
	unsigned word = 0;

	MUST(cuMemcpyDtoH(&word, at, sizeof(word)));
	return word;
}

/* Memory taken for one stream is read by another, which waits for the host, and
 * is freed for the first meanwhile: PyTorch does that of a tensor that
 * record_stream() was called for. The host is not held up, and whoever gets the
 * memory next does not change what is still read. */
static void order(bool same_stream)
{
	volatile unsigned *go;
	CUdeviceptr at, again, kept, word;
	CUstream s[2];
	void *pinned;

	MUST(cuMemAllocHost(&pinned, 4096));
	go = pinned;
	*go = 0;
	word = (CUdeviceptr)(size_t)pinned;
	MUST(cuStreamCreate(&s[0], CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&s[1], CU_STREAM_NON_BLOCKING));
	kept = take(BYTES, 0, s[1]);
	at = take(BYTES, 0, s[0]);
	fill(at, 7, s[0]);
	MUST(cuStreamSynchronize(s[0]));
	MUST(cuStreamWaitValue32(s[1], word, 1, CU_STREAM_WAIT_VALUE_EQ));
	copy(kept, at, s[1]);
	give(at, BYTES, 0, s[0]);
	again = take(BYTES, 0, s[same_stream ? 0 : 1]);
	fill(again, 9, s[same_stream ? 0 : 1]);
	printf("used again: %d, %s\n", again == at,
	       cuStreamQuery(s[same_stream ? 0 : 1]) == CUDA_ERROR_NOT_READY
		       ? "waits"
		       : "is done");
	*go = 1;
	MUST(cuCtxSynchronize());
	printf("read %u, written %u\n", first_word(kept), first_word(again));
	give(again, BYTES, 0, s[0]);
	give(kept, BYTES, 0, s[1]);
	MUST(cuStreamDestroy(s[0]));
	MUST(cuStreamDestroy(s[1]));
	MUST(cuMemFreeHost(pinned));
}

/* ---- what is refused ------------------------------------------------------------------ */

static void captures(void)
{
	CUdeviceptr at = take(BYTES, 0, NULL);
	CUgraph graph = NULL;
	CUstream s;

	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fill(at, 1, s);
	give(at, BYTES, 0, s);
	printf("a free in a capture: %d\n", (int)cuStreamEndCapture(s, &graph));
	if (graph)
		MUST(cuGraphDestroy(graph));
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	printf("taken in a capture: %d", take(BYTES, 0, s) != 0);
	graph = NULL;
	printf(", then %d\n", (int)cuStreamEndCapture(s, &graph));
	MUST(cuStreamDestroy(s));
}

/* What is taken there comes from the driver. */
static void relaxed(void)
{
	CUdeviceptr at = take(BYTES, 0, NULL), more;
	CUgraph graph = NULL;
	CUstream s;

	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	give(at, BYTES, 0, s);
	more = take(BYTES, 0, s);
	fill(more, 5, s);
	printf("in a relaxed capture: on %d, then %d\n", device_of(more),
	       (int)cuStreamEndCapture(s, &graph));
	MUST(cuGraphDestroy(graph));
	fill(more, 6, s);
	MUST(cuStreamSynchronize(s));
	printf("read %u\n", first_word(more));
	give(more, BYTES, 0, s);
	printf("allocated: %llu, of the device: %d\n", allocated(0),
	       is_there(more));
	MUST(cuStreamDestroy(s));
}

/* As cudaDeviceReset: all that was taken there is gone, and there can be more. */
static void reset(void)
{
	CUdeviceptr at = take(BYTES, 0, NULL), other = take(BYTES, 1, NULL);

	MUST(cuDevicePrimaryCtxReset(0));
	printf("after a reset, allocated: %llu and %llu\n", allocated(0),
	       allocated(1));
	give(at, BYTES, 0, NULL);
	at = take(BYTES, 0, NULL);
	MUST(cuMemsetD32(at, 4, WORDS));
	printf("on %d, read %u, current is %s\n", device_of(at), first_word(at),
	       current() == contexts[0] ? "that of device 0" : "another");
	give(at, BYTES, 0, NULL);
	give(other, BYTES, 1, NULL);
	printf("allocated: %llu and %llu\n", allocated(0), allocated(1));
}

static void refused(void)
{
	CUdeviceptr at;

	printf("too much: %d\n", take((ssize_t)100 << 30, 0, NULL) != 0);
	printf("no such device: %d", take(BYTES, 9, NULL) != 0);
	printf(" %d\n", take(BYTES, -1, NULL) != 0);
	at = take(BYTES, 0, NULL);
	give(at, BYTES, 1, NULL); /* another's */
	printf("allocated: %llu, there: %d\n", allocated(0), is_there(at));
	at = take(BYTES, 1, NULL);
	give(at, BYTES, 9, NULL); /* nobody's */
	printf("allocated: %llu, there: %d\n", allocated(1), is_there(at));
	at = take(BYTES, 0, NULL);
	give(at, BYTES, 0, NULL);
	give(at, BYTES, 0, NULL); /* twice */
	printf("allocated: %llu\n", allocated(0));
}

int main(int argc, char **argv)
{
	CUmodule module;
	int count = 0;

	if (!gpupool_loaded() || cuInit(0) || cuDeviceGetCount(&count) ||
	    count < 2)
		return 77;
	for (int i = 0; i < 2; i++)
		MUST(cuDevicePrimaryCtxRetain(&contexts[i], i));
	MUST(cuCtxSetCurrent(contexts[0]));
	MUST(cuModuleLoadData(&module, "any image will do"));
	MUST(cuModuleGetFunction(&fill32, module, "fill32"));
	MUST(cuModuleGetFunction(&copy32, module, "copy32"));
	(void)argv;
	devices();
	if (argc == 1) {
		order(true);
		order(false);
	}
	captures();
	relaxed();
	refused();
	reset();
	return 0;
}
