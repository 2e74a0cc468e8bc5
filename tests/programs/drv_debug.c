/*
 * Description: plain memory, and kernels that write and read it anywhere; does
 * what its arguments say, one word a step, and prints what came of it. The tests
 * of the debug aids and of backend:cudaMallocAsync are written with it.
 *
 *   alloc=BYTES  free=I  again=I      cuMemAlloc, cuMemFree; free it once more
 *   freeat=I:OFFSET                   cuMemFree of an address in it, or beside
 *   pitch=WIDTH                       cuMemAllocPitch of three rows
 *   freeasync=I                       cuMemFreeAsync in the other stream
 *   fill=I:OFFSET:WORDS:VALUE         a kernel writes 32-bit words there
 *   other=I:OFFSET:WORDS:VALUE        the same in the other stream, which is
 *                                     non-blocking; not waited for
 *   peek=I:OFFSET                     the word there, as a kernel reads it
 *   set=I:OFFSET:BYTES                cuMemsetD8, which knows sizes
 *   spin=US  busy=US                  a kernel in the other stream, in the
 *                                     default one, lasts so long
 *   same=I:J                          have they one address?
 *   range=I  ipc=I  aligned=I         what is told of it
 *   capture=relaxed|global            frees and allocates while a stream captures
 *   query=1  query=0                  the other stream's state, the default's
 *   idle=1 reset=1                    cuCtxSynchronize; reset
 *   create=1 destroy=1                a context of its own, and its end
 *   current=0 current=1               none is current; it is again
 *   used=1 info=1 sleep=MS
 *   mark=NAME peaks=1 trim=1          gpupool_mark, _reset_peak, _trim
 *
 * BYTES may end in K or M, OFFSET may be negative.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "shim/gpupool.h"
#include "tests/support/must.h"

#define MAX_BLOCKS 256

static CUdeviceptr blocks[MAX_BLOCKS], scratch;
static int num_blocks;
static CUcontext context;
static CUstream other;
static CUmodule module;

static void use(void)
{
	static char image[] = "any image will do";

	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	must(cuCtxSetCurrent(context), "current");
	must(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), "stream");
	must(cuModuleLoadData(&module, image), "module");
	must(cuMemHostAlloc((void **)&scratch, 64, 0), "scratch");
}

static long long number(const char *text, char **end)
{
	long long n = strtoll(text, end, 0);

	if (**end == 'K' || **end == 'M')
		n *= *(*end)++ == 'K' ? 1 << 10 : 1 << 20;
	return n;
}

/* Up to four numbers between colons. */
static void numbers(const char *text, long long n[4])
{
	char *end = (char *)(uintptr_t)text;

	for (int i = 0; i < 4; i++) {
		n[i] = number(end, &end);
		if (*end++ != ':')
			break;
	}
}

static CUresult launch(const char *name, void **args, CUstream stream)
{
	CUfunction function;

	must(cuModuleGetFunction(&function, module, name), name);
	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args,
			      NULL);
}

static void fill(const long long n[4], CUstream stream)
{
	CUdeviceptr at = blocks[n[0]] + (uint64_t)n[1];
	uint64_t words = (uint64_t)n[2];
	uint32_t value = (uint32_t)n[3];
	void *args[] = {&at, &value, &words};

	must(launch("fill32", args, stream), "fill32");
	if (!stream)
		must(cuStreamSynchronize(NULL), "sync");
}

static void peek(const long long n[4])
{
	CUdeviceptr at = blocks[n[0]] + (uint64_t)n[1];
	uint64_t words = 1;
	void *args[] = {&scratch, &at, &words};

	must(launch("copy32", args, NULL), "copy32");
	must(cuStreamSynchronize(NULL), "sync");
	printf("peek: %08x\n", *(const uint32_t *)(uintptr_t)scratch);
}

static void range(CUdeviceptr p)
{
	CUdeviceptr base = 0, start = 0;
	size_t size = 0, attribute = 0;
	CUresult rc = cuMemGetAddressRange(&base, &size, p + 1);

	cuPointerGetAttribute(&attribute, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p);
	cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
			      p + 1);
	printf("range: %d, from %lld, %zu; from %lld, %zu\n", (int)rc,
	       (long long)(base - p), size, (long long)(start - p), attribute);
}

static void capture(CUstreamCaptureMode mode)
{
	CUdeviceptr p = 0;
	CUgraph graph;

	must(cuStreamBeginCapture(other, mode), "begin");
	printf("free: %d\n", (int)cuMemFree(blocks[num_blocks - 1]));
	printf("alloc: %d\n", (int)cuMemAlloc(&p, 4096));
	printf("end: %d\n", (int)cuStreamEndCapture(other, &graph));
	printf("free: %d\n", (int)cuMemFree(p));
}

static void tell_used(void)
{
	uint64_t (*ask)(int) = (uint64_t(*)(int))dlsym(
		dlopen("libcuda.so.1", RTLD_LAZY), "gpusim_used_bytes");

	printf("used: %llu\n", (unsigned long long)ask(0) >> 20);
}

static void tell_info(void)
{
	size_t free_bytes = 0, total = 0;
	CUresult rc = cuMemGetInfo(&free_bytes, &total);

	printf("info: %d, %zu of %zu\n", (int)rc, free_bytes >> 20,
	       total >> 20);
}

static void spin(unsigned us, CUstream stream)
{
	void *args[] = {&us};

	must(launch("spin", args, stream), "spin");
}

static void take(size_t bytes, size_t pitch_of)
{
	CUdeviceptr p = 0;
	size_t pitch;
	CUresult rc = pitch_of ? cuMemAllocPitch(&p, &pitch, pitch_of, 3, 4)
			       : cuMemAlloc(&p, bytes);

	printf("alloc: %d\n", (int)rc);
	blocks[num_blocks++] = p;
}

/* False: no such step. */
static int of_block(const char *step, const long long n[4])
{
	CUdeviceptr p = blocks[n[0] & (MAX_BLOCKS - 1)];
	CUipcMemHandle handle;

	if (!strcmp(step, "free") || !strcmp(step, "again"))
		printf("free: %d\n", (int)cuMemFree(p));
	else if (!strcmp(step, "freeat"))
		printf("free: %d\n", (int)cuMemFree(p + (uint64_t)n[1]));
	else if (!strcmp(step, "freeasync"))
		printf("freeasync: %d\n", (int)cuMemFreeAsync(p, other));
	else if (!strcmp(step, "fill"))
		fill(n, NULL);
	else if (!strcmp(step, "other"))
		fill(n, other);
	else if (!strcmp(step, "peek"))
		peek(n);
	else if (!strcmp(step, "set"))
		printf("set: %d\n",
		       (int)cuMemsetD8(p + (uint64_t)n[1], 7, (size_t)n[2]));
	else if (!strcmp(step, "same"))
		printf("same: %d\n", p == blocks[n[1]]);
	else if (!strcmp(step, "range"))
		range(p);
	else if (!strcmp(step, "ipc"))
		printf("ipc: %d\n", (int)cuIpcGetMemHandle(&handle, p));
	else if (!strcmp(step, "aligned"))
		printf("aligned: %d\n", p % 65536 == 0 ? 65536 : p % 512 == 0);
	else
		return 0;
	return 1;
}

/* What the library offers beside; false: no such step. */
static int of_library(const char *step, const char *value)
{
	uint64_t freed = 0;

	if (!strcmp(step, "mark"))
		must((CUresult)-gpupool_mark(value), "mark");
	else if (!strcmp(step, "peaks"))
		must((CUresult)-gpupool_reset_peak(0), "peaks");
	else if (!strcmp(step, "trim"))
		must((CUresult)-gpupool_trim(0, &freed), "trim");
	else
		return 0;
	if (!strcmp(step, "trim"))
		printf("trim: %llu\n", (unsigned long long)freed >> 20);
	return 1;
}

static void create(void)
{
#if CUDA_VERSION >= 13000
	must(cuCtxCreate(&context, NULL, 0, 0), "create");
#else
	must(cuCtxCreate(&context, 0, 0), "create");
#endif
}

static void step(const char *word)
{
	char name[32];
	const char *value = strchr(word, '=') + 1;
	long long n[4] = {0};

	snprintf(name, sizeof(name), "%.*s", (int)(value - word) - 1, word);
	numbers(value, n);
	if (!strcmp(name, "alloc"))
		take((size_t)n[0], 0);
	else if (!strcmp(name, "pitch"))
		take(0, (size_t)n[0]);
	else if (!strcmp(name, "spin"))
		spin((unsigned)n[0], other);
	else if (!strcmp(name, "busy"))
		spin((unsigned)n[0], NULL);
	else if (!strcmp(name, "query"))
		printf("query: %d\n", (int)cuStreamQuery(n[0] ? other : NULL));
	else if (!strcmp(name, "idle"))
		printf("idle: %d\n", (int)cuCtxSynchronize());
	else if (!strcmp(name, "sleep"))
		usleep((useconds_t)n[0] * 1000);
	else if (!strcmp(name, "used"))
		tell_used();
	else if (!strcmp(name, "info"))
		tell_info();
	else if (!strcmp(name, "capture"))
		capture(strcmp(value, "global") != 0
				? CU_STREAM_CAPTURE_MODE_RELAXED
				: CU_STREAM_CAPTURE_MODE_GLOBAL);
	else if (!strcmp(name, "current"))
		must(cuCtxSetCurrent(n[0] ? context : NULL), "current");
	else if (!strcmp(name, "create"))
		create();
	else if (!strcmp(name, "destroy"))
		printf("destroy: %d\n", (int)cuCtxDestroy(context));
	else if (!strcmp(name, "reset")) {
		printf("reset: %d\n", (int)cuDevicePrimaryCtxReset(0));
		use();
	} else if (!of_library(name, value) && !of_block(name, n)) {
		printf("what is '%s'?\n", word);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	if (cuInit(0) != CUDA_SUCCESS)
		return 77;
	use();
	for (int i = 1; i < argc; i++) {
		step(argv[i]);
		fflush(stdout);
	}
	return 0;
}
