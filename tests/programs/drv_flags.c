/*
 * Description: work that waits until another stream sets a flag. It must not
 * be what the other stream is ordered behind, whatever was freed before: a
 * program that runs by itself would then stand still.
 *
 * Also runs on a card, with the kernels below (tests/gpu/run.py). Where the
 * flag is not set in time the host sets it, and the program fails.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#include "tests/support/must.h"

#define LIMIT_MS 60000
#define STREAMS  4
#define KIB      ((size_t)1 << 10)
#define MIB      ((size_t)1 << 20)

/* The simulated driver has these by name: fill32(at, value, n) and
 * await32(at, value), which waits until the word there is the value. */
static const char ptx[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .entry fill32(.param .u64 at, .param .u32 value, "
	".param .u64 n)\n"
	"{\n"
	"  .reg .pred %q; .reg .b32 %v; .reg .b64 %p, %n;\n"
	"  ld.param.u64 %p, [at]; ld.param.u32 %v, [value];\n"
	"  ld.param.u64 %n, [n];\n"
	"  cvta.to.global.u64 %p, %p;\n"
	"next:\n"
	"  setp.eq.u64 %q, %n, 0; @%q bra done;\n"
	"  st.volatile.global.u32 [%p], %v;\n"
	"  add.u64 %p, %p, 4; sub.u64 %n, %n, 1;\n"
	"  bra next;\n"
	"done:\n"
	"  membar.sys; ret;\n"
	"}\n"
	".visible .entry await32(.param .u64 at, .param .u32 value)\n"
	"{\n"
	"  .reg .pred %q; .reg .b32 %v, %w; .reg .b64 %p;\n"
	"  ld.param.u64 %p, [at]; ld.param.u32 %v, [value];\n"
	"  cvta.to.global.u64 %p, %p;\n"
	"again:\n"
	"  ld.volatile.global.u32 %w, [%p];\n"
	"  setp.ne.u32 %q, %w, %v; @%q bra again;\n"
	"  ret;\n"
	"}\n";

static CUfunction fill, await;
static CUstream stream[STREAMS];
static uint32_t *flag; /* one a stream; pinned, so not of any pool */
static long began_ms;  /* atomic; 0: nothing waits for a flag */
static int late;       /* atomic: the host had to help */
static int stood_still;

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *watch(void *unused)
{
	(void)unused;
	for (;; usleep(10000)) {
		long began = __atomic_load_n(&began_ms, __ATOMIC_ACQUIRE);

		if (!began || now_ms() - began < LIMIT_MS)
			continue;
		__atomic_store_n(&late, 1, __ATOMIC_RELEASE);
		for (int i = 0; i < STREAMS; i++)
			__atomic_store_n(&flag[i], 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void write_words(CUdeviceptr at, uint32_t value, uint64_t n, CUstream s)
{
	void *args[] = {&at, &value, &n};

	MUST(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

static CUdeviceptr flag_of(int i)
{
	return (CUdeviceptr)(uintptr_t)&flag[i];
}

static void wait_for_flag(bool by_kernel, int i, CUstream s)
{
	CUdeviceptr at = flag_of(i);
	uint32_t value = 1;
	void *args[] = {&at, &value};

	if (by_kernel)
		MUST(cuLaunchKernel(await, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
	else
		MUST(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_EQ));
}

/* Memory comes and goes with work on it pending. */
static void churn(CUstream s)
{
	CUdeviceptr p;

	for (int i = 0; i < 40; i++) {
		size_t bytes = i % 3 ? 64 * KIB : 3 * MIB;

		MUST(cuMemAlloc(&p, bytes));
		write_words(p + bytes - 4 * KIB, (uint32_t)i, KIB, s);
		MUST(cuMemFree(p));
	}
}

static void begin(void)
{
	for (int i = 0; i < STREAMS; i++)
		__atomic_store_n(&flag[i], 0, __ATOMIC_RELEASE);
	__atomic_store_n(&began_ms, now_ms(), __ATOMIC_RELEASE);
}

static void end(const char *what, bool by_kernel)
{
	for (int i = STREAMS; i-- > 0;)
		MUST(cuStreamSynchronize(stream[i]));
	__atomic_store_n(&began_ms, 0, __ATOMIC_RELEASE);
	printf("%s, %s: ", by_kernel ? "kernel" : "value", what);
	if (__atomic_exchange_n(&late, 0, __ATOMIC_ACQ_REL)) {
		stood_still++;
		printf("stood still\n");
	} else {
		printf("done\n");
	}
}

static void after_churn(bool by_kernel)
{
	churn(stream[0]);
	begin();
	wait_for_flag(by_kernel, 0, stream[0]);
	write_words(flag_of(0), 1, 1, stream[1]);
	end("after churn on its stream", by_kernel);
}

/* The other stream had the churn. */
static void after_others_churn(bool by_kernel)
{
	churn(stream[1]);
	begin();
	wait_for_flag(by_kernel, 0, stream[0]);
	write_words(flag_of(0), 1, 1, stream[1]);
	end("after churn on the other stream", by_kernel);
}

/* What was freed is taken again meanwhile, and what was never there. */
static void with_new_memory(bool by_kernel)
{
	CUdeviceptr old, fresh;

	churn(stream[0]);
	begin();
	wait_for_flag(by_kernel, 0, stream[0]);
	MUST(cuMemAlloc(&old, 3 * MIB));
	write_words(old, 7, KIB, stream[1]);
	MUST(cuMemAlloc(&fresh, 200 * MIB));
	write_words(fresh, 7, KIB, stream[2]);
	write_words(flag_of(0), 1, 1, stream[1]);
	end("memory taken meanwhile", by_kernel);
	MUST(cuMemFree(old));
	MUST(cuMemFree(fresh));
}

/* The first stream waits for the second, that for the third, ... */
static void in_a_chain(bool by_kernel)
{
	for (int i = 0; i < STREAMS; i++)
		churn(stream[i]);
	begin();
	for (int i = 0; i + 1 < STREAMS; i++) {
		wait_for_flag(by_kernel, i, stream[i]);
		if (i)
			write_words(flag_of(i - 1), 1, 1, stream[i]);
	}
	write_words(flag_of(STREAMS - 2), 1, 1, stream[STREAMS - 1]);
	end("a chain of streams", by_kernel);
}

/* A stream that is gone had work on memory that is free. */
static void after_a_stream(bool by_kernel)
{
	CUdeviceptr p;
	CUstream gone;

	MUST(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&p, 5 * MIB));
	write_words(p, 7, KIB, gone);
	MUST(cuStreamDestroy(gone));
	MUST(cuMemFree(p));
	begin();
	wait_for_flag(by_kernel, 0, stream[0]);
	MUST(cuMemAlloc(&p, 5 * MIB));
	write_words(p, 7, KIB, stream[1]);
	write_words(flag_of(0), 1, 1, stream[1]);
	end("after a stream that is gone", by_kernel);
	MUST(cuMemFree(p));
}

/* The setter asks first whether older work is over, and waits for it. */
static void after_an_event(bool by_kernel)
{
	CUevent event;

	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	churn(stream[1]);
	MUST(cuEventRecord(event, stream[1]));
	begin();
	wait_for_flag(by_kernel, 0, stream[0]);
	MUST(cuStreamWaitEvent(stream[2], event, 0));
	MUST(cuEventSynchronize(event));
	write_words(flag_of(0), 1, 1, stream[2]);
	end("with an event of before", by_kernel);
	MUST(cuEventDestroy(event));
}

int main(void)
{
	CUcontext ctx;
	CUmodule module;
	pthread_t watcher;

	setvbuf(stdout, NULL, _IOLBF, 0);
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&ctx, 0));
	MUST(cuCtxSetCurrent(ctx));
	MUST(cuModuleLoadData(&module, ptx));
	MUST(cuModuleGetFunction(&fill, module, "fill32"));
	MUST(cuModuleGetFunction(&await, module, "await32"));
	MUST(cuMemHostAlloc((void **)&flag, STREAMS * sizeof(*flag), 0));
	for (int i = 0; i < STREAMS; i++)
		MUST(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	if (pthread_create(&watcher, NULL, watch, NULL))
		return 1;
	/* A kernel's first launch may load it, which waits. */
	begin();
	write_words(flag_of(0), 1, 1, stream[0]);
	wait_for_flag(true, 0, stream[0]);
	MUST(cuCtxSynchronize());
	__atomic_store_n(&began_ms, 0, __ATOMIC_RELEASE);

	for (int by_kernel = 0; by_kernel < 2; by_kernel++) {
		after_churn(by_kernel);
		after_others_churn(by_kernel);
		with_new_memory(by_kernel);
		in_a_chain(by_kernel);
		after_a_stream(by_kernel);
		after_an_event(by_kernel);
	}
	printf("result stood_still=%d\n", stood_still);
	return stood_still != 0;
}
