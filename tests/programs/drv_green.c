/*
 * Description: green contexts, as parts of a primary context whose memory is the
 * pool's. Prints what came of it.
 *
 *   drv_green streams    memory used again behind work in a green stream
 *   drv_green default    the same, in the default stream of a green context
 *   drv_green first      that stream's first work is behind earlier work
 *   drv_green many       the same, after many others were made
 *   drv_green left       a green context goes, its stream is left with work
 *   drv_green capture    the same, and the stream captures
 *   drv_green refused    it does not go, and the capture goes on
 *   drv_green last       it is the last one that retained the primary one
 *   drv_green handle     another context has the handle afterwards
 *   drv_green makes      it is the first one to retain the primary one
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "tests/support/must.h"

#if CUDA_VERSION >= 12050
#define BYTES   ((size_t)3 << 20)
#define WORDS   (BYTES / 4)
#define SPIN_US 200000u
#define MANAGED ((size_t)12 << 20)
#define MANY    300

static CUcontext primary, context;
static CUgreenCtx green;
static CUstream stream, other;
static CUfunction spin;

static long calls(const char *function)
{
	static long (*count)(const char *);

	if (!count)
		count = (long (*)(const char *))dlsym(
			dlopen("libcuda.so.1", RTLD_LAZY), "gpusim_calls");
	return count(function);
}

static void enter_primary(void)
{
	MUST(cuDevicePrimaryCtxRetain(&primary, 0));
	MUST(cuCtxSetCurrent(primary));
}

static void make_green(void)
{
	CUdevResourceDesc desc;
	CUdevResource sms;

	MUST(cuDeviceGetDevResource(0, &sms, CU_DEV_RESOURCE_TYPE_SM));
	MUST(cuDevResourceGenerateDesc(&desc, &sms, 1));
	MUST(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
}

static void make_streams(void)
{
	CUmodule module;

	MUST(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	MUST(cuModuleLoadData(&module, "any image will do"));
	MUST(cuModuleGetFunction(&spin, module, "spin"));
}

static void enter_green(void)
{
	MUST(cuCtxFromGreenCtx(&context, green));
	MUST(cuCtxPushCurrent(context));
}

static void leave_green(void)
{
	CUcontext popped;

	MUST(cuCtxPopCurrent(&popped));
}

/* Work that takes its time, and writes the memory at its end. */
static void write_late(CUdeviceptr p, CUstream in)
{
	unsigned us = SPIN_US;
	void *args[] = {&us};

	MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, in, args, NULL));
	MUST(cuMemsetD32Async(p, 7, WORDS, in));
}

static CUdeviceptr take(void)
{
	CUdeviceptr p;

	MUST(cuMemAlloc(&p, BYTES));
	return p;
}

static CUdeviceptr take_again(CUdeviceptr before)
{
	CUdeviceptr p;

	MUST(cuMemFree(before));
	p = take();
	printf("again: %d\n", p == before);
	return p;
}

static void tell_word(CUdeviceptr p)
{
	unsigned word = 0;

	MUST(cuCtxSynchronize());
	MUST(cuMemcpyDtoH(&word, p, 4));
	printf("word: %u\n", word);
}

/* ---- streams ------------------------------------------------------------------------- */

static void streams(void)
{
	CUdeviceptr p = take();

	write_late(p, stream);
	p = take_again(p);
	MUST(cuMemsetD32Async(p, 9, WORDS, other));
	tell_word(p);
}

static void default_stream(void)
{
	CUdeviceptr p = take();

	enter_green();
	write_late(p, NULL);
	leave_green();
	p = take_again(p);
	MUST(cuMemsetD32Async(p, 9, WORDS, other));
	tell_word(p);
}

static void first_work(void)
{
	CUdeviceptr p = take();

	MUST(cuMemsetD32Async(p, 1, WORDS, NULL)); /* this thread knows it */
	write_late(p, other);
	p = take_again(p);
	enter_green();
	MUST(cuMemsetD32Async(p, 9, WORDS, NULL));
	leave_green();
	tell_word(p);
}

/* ---- green contexts that go ------------------------------------------------------------ */

/* Memory goes round between two streams; how often the host waits for that. */
static void go_on(void)
{
	long waits = calls("cuCtxSynchronize");
	CUstream third;

	MUST(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 10; i++) {
		CUdeviceptr p = take();

		MUST(cuMemsetD32Async(p, 9, WORDS, i % 2 ? third : other));
		MUST(cuMemFree(p));
	}
	printf("waits: %ld\n", calls("cuCtxSynchronize") - waits);
}

static void left(void)
{
	CUdeviceptr p = take();

	write_late(p, stream);
	MUST(cuGreenCtxDestroy(green));
	p = take_again(p);
	MUST(cuMemsetD32Async(p, 9, WORDS, other));
	go_on();
	tell_word(p);
}

/* Nothing captures any more, so a free that waits may wait for the context. */
static void captures(void)
{
	CUdeviceptr p = take();
	long waits;

	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuGreenCtxDestroy(green));
	waits = calls("cuCtxSynchronize");
	MUST(cuMemFree(p));
	printf("waits: %ld\n", calls("cuCtxSynchronize") - waits);
}

/* With the handle that the program has, all is as it was. */
static void refused(void)
{
	CUdeviceptr p = take();
	CUgraph graph = NULL;

	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuMemsetD32Async(p, 7, WORDS, stream));
	printf("destroy: %d\n", (int)cuGreenCtxDestroy(green));
	MUST(cuMemFree(take()));
	MUST(cuMemsetD32Async(p, 9, WORDS, stream));
	printf("end: %d\n", (int)cuStreamEndCapture(stream, &graph));
	MUST(cuMemFree(p));
}

static void tell_managed(void)
{
	CUdeviceptr managed;

	printf("managed: %d\n",
	       (int)cuMemAllocManaged(&managed, MANAGED, CU_MEM_ATTACH_GLOBAL));
}

static void last(void)
{
	long plain;

	tell_managed();
	streams();
	MUST(cuDevicePrimaryCtxRelease(0));
	go_on();
	MUST(cuGreenCtxDestroy(green));
	printf("gone: %d\n", (int)cuCtxSynchronize());
	enter_primary();
	tell_managed();
	MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	plain = calls("cuMemAlloc_v2");
	go_on();
	printf("by the driver: %ld\n", calls("cuMemAlloc_v2") - plain);
}

static void handle(void)
{
	CUcontext made;
	CUdeviceptr p;
	long plain;

	enter_green();
	MUST(cuMemAlloc(&p, BYTES));
	MUST(cuMemFree(p));
	leave_green();
	MUST(cuGreenCtxDestroy(green));
#if CUDA_VERSION >= 13000
	MUST(cuCtxCreate(&made, NULL, 0, 0));
#else
	MUST(cuCtxCreate(&made, 0, 0));
#endif
	printf("same handle: %d\n", made == context);
	plain = calls("cuMemAlloc_v2");
	MUST(cuMemAlloc(&p, BYTES));
	printf("by the driver: %ld\n", calls("cuMemAlloc_v2") - plain);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	bool makes = !strcmp(what, "makes");

	if (!*what)
		return 77; /* test_green.py runs it */
	MUST(cuInit(0));
	if (!makes)
		enter_primary();
	make_green();
	if (makes)
		enter_primary();
	for (int i = 0; !strcmp(what, "many") && i < MANY; i++)
		make_green();
	make_streams();
	if (!strcmp(what, "streams"))
		streams();
	else if (!strcmp(what, "many"))
		default_stream();
	else if (!strcmp(what, "default"))
		default_stream();
	else if (!strcmp(what, "first"))
		first_work();
	else if (!strcmp(what, "left"))
		left();
	else if (!strcmp(what, "capture"))
		captures();
	else if (!strcmp(what, "refused"))
		refused();
	else if (!strcmp(what, "last"))
		last();
	else if (!strcmp(what, "handle"))
		handle();
	else if (makes)
		tell_managed();
	return 0;
}
#else
int main(void)
{
	return 77;
}
#endif
