/*
 * Description: the simulated driver's streams and events: what is ordered
 * behind what, what waits and what does not, durations, host functions,
 * values in memory.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/sim/simtest.h"

#define MS 1000u /* us */

static CUstream blocking, other, free_running;
static CUdeviceptr memory;

static double since(double began)
{
	return sim_test_ms() - began;
}

/* Work takes its time, and its effect comes at its end. */
static void durations(void)
{
	CUevent start, end;
	float ms = 0;

	NEED(cuEventCreate(&start, 0));
	NEED(cuEventCreate(&end, 0));
	NEED(cuMemsetD32(memory, 1, 1));
	NEED(cuCtxSynchronize());
	NEED(cuEventRecord(start, free_running));
	NEED(sim_test_spin(free_running, 30 * MS));
	NEED(sim_test_close(0, free_running));
	NEED(cuMemsetD32Async(memory, 2, 1, free_running));
	NEED(cuEventRecord(end, free_running));
	IS(cuEventQuery(end), CUDA_ERROR_NOT_READY);
	IS(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
	IS(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
	HOLDS(gpusim_pending() >= 2);
	IS(sim_test_word(memory), 1); /* the legacy stream does not wait */
	sim_test_open(0);
	IS(cuEventSynchronize(end), 0);
	IS(cuEventQuery(end), 0);
	IS(cuStreamQuery(free_running), 0);
	IS(sim_test_word(memory), 2);
	IS(cuEventElapsedTime(&ms, start, end), 0);
	HOLDS(ms >= 29);
	IS(gpusim_pending(), 0);
	NEED(cuEventDestroy(start));
	NEED(cuEventDestroy(end));
	IS(cuEventQuery(end), CUDA_ERROR_INVALID_HANDLE);
}

/* The legacy stream waits for blocking ones, and they for it. */
static void legacy(void)
{
	NEED(sim_test_close(0, blocking));
	NEED(cuMemsetD32Async(memory, 3, 1, blocking));
	NEED(cuMemsetD32Async(memory, 4, 1, NULL));
	NEED(cuMemsetD32Async(memory + 4, 5, 1, other));
	IS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	IS(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	sim_test_open(0);
	IS(cuStreamSynchronize(other), 0);
	IS(cuStreamQuery(blocking), 0);
	IS(sim_test_word(memory), 4);

	NEED(sim_test_close(0, free_running));
	NEED(cuMemsetD32(memory, 6, 1));
	IS(sim_test_word(memory), 6);
	IS(cuStreamSynchronize(NULL), 0);
	IS(cuStreamSynchronize(blocking), 0);
	IS(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
	sim_test_open(0);
	IS(cuCtxSynchronize(), 0);
	IS(cuStreamQuery(free_running), 0);
}

static void events(void)
{
	CUevent event;

	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	IS(cuEventQuery(event), 0); /* never recorded */
	IS(cuStreamWaitEvent(free_running, event, 0), 0);
	NEED(sim_test_close(0, blocking));
	NEED(cuMemsetD32Async(memory, 7, 1, blocking));
	NEED(cuEventRecord(event, blocking));
	NEED(cuStreamWaitEvent(free_running, event, 0));
	NEED(cuMemcpyDtoDAsync(memory + 8, memory, 4, free_running));
	/* recorded anew: the wait is for what was there */
	NEED(sim_test_close(1, blocking));
	NEED(cuEventRecord(event, blocking));
	IS(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
	sim_test_open(0);
	IS(cuStreamSynchronize(free_running), 0);
	IS(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	NEED(cuEventDestroy(event)); /* while it is pending */
	sim_test_open(1);
	IS(cuCtxSynchronize(), 0);
	IS(sim_test_word(memory + 8), 7);
}

/* A free waits for every stream of the context, an allocation for none. */
static void frees(uint64_t bytes)
{
	CUdeviceptr p, q;
	double began;

	NEED(cuMemAlloc(&p, bytes));
	NEED(sim_test_close(0, free_running));
	NEED(cuMemAlloc(&q, bytes));
	sim_test_open(0);
	began = sim_test_ms();
	NEED(sim_test_spin(free_running, 30 * MS));
	IS(cuMemFree(p), 0);
	HOLDS(since(began) >= 29);
	IS(cuMemFree(q), 0);
}

static void enter(void)
{
	CUcontext ctx;

	NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
	NEED(cuCtxSetCurrent(ctx));
}

static pid_t freeing_tid; /* atomic */

static void *free_it(void *arg)
{
	enter();
	__atomic_store_n(&freeing_tid, (pid_t)syscall(SYS_gettid),
			 __ATOMIC_RELEASE);
	IS(cuMemFree(*(CUdeviceptr *)arg), 0);
	return NULL;
}

static void *launch(void *arg)
{
	enter();
	NEED(sim_test_spin(other, 0));
	__atomic_store_n((bool *)arg, true, __ATOMIC_RELEASE);
	return NULL;
}

/* It waits, and not just for a moment. */
static bool sleeps(pid_t tid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		file = fopen(path, "r");
		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = 0;
		if (file)
			fclose(file);
		if (state != 'S')
			return false;
	}
	return true;
}

/* While a free waits, another thread's launch waits with it. */
static void free_is_a_barrier(void)
{
	long calls = gpusim_calls("cuMemFree_v2");
	pthread_t freeing, launching;
	bool launched = false;
	CUdeviceptr p;

	NEED(cuMemAlloc(&p, 512));
	NEED(sim_test_close(0, free_running));
	NEED(pthread_create(&freeing, NULL, free_it, &p));
	while (gpusim_calls("cuMemFree_v2") == calls)
		usleep(1000);
	while (!sleeps(__atomic_load_n(&freeing_tid, __ATOMIC_ACQUIRE)))
		;
	NEED(pthread_create(&launching, NULL, launch, &launched));
	usleep(50 * MS);
	HOLDS(!__atomic_load_n(&launched, __ATOMIC_ACQUIRE));
	sim_test_open(0);
	NEED(pthread_join(launching, NULL));
	NEED(pthread_join(freeing, NULL));
	HOLDS(launched);
}

struct note {
	sem_t go;
	pthread_t thread;
	int calls;
	CUresult inside;
};

static void CUDA_CB host_function(void *arg)
{
	struct note *note = arg;
	CUdeviceptr p;

	note->thread = pthread_self();
	note->inside = cuMemAlloc(&p, 512);
	sem_wait(&note->go);
	note->calls++;
}

static void CUDA_CB callback(CUstream stream, CUresult err, void *arg)
{
	(void)stream;
	*(int *)arg = err == CUDA_SUCCESS;
}

static void host_functions(void)
{
	struct note note = {.calls = 0};
	int called = 0;

	NEED(sem_init(&note.go, 0, 0));
	NEED(cuLaunchHostFunc(free_running, host_function, &note));
	/* others go on meanwhile */
	NEED(cuMemsetD32Async(memory, 8, 1, other));
	IS(cuStreamSynchronize(other), 0);
	NEED(cuMemsetD32Async(memory, 9, 1, free_running));
	IS(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
	sem_post(&note.go);
	IS(cuStreamSynchronize(free_running), 0);
	IS(note.calls, 1);
	IS(note.inside, CUDA_ERROR_NOT_PERMITTED);
	HOLDS(!pthread_equal(note.thread, pthread_self()));
	IS(sim_test_word(memory), 9);
	NEED(cuStreamAddCallback(blocking, callback, &called, 0));
	IS(cuStreamSynchronize(blocking), 0);
	IS(called, 1);
}

static void values(void)
{
	CUdeviceptr flag = memory + 64;

	NEED(cuMemsetD32(flag, 0, 2));
	NEED(cuStreamWaitValue32(free_running, flag, 3,
				 CU_STREAM_WAIT_VALUE_GEQ));
	NEED(cuMemsetD32Async(memory, 10, 1, free_running));
	usleep(5 * MS);
	IS(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
	NEED(cuStreamWriteValue32(other, flag, 5, 0));
	IS(cuStreamSynchronize(free_running), 0);
	IS(sim_test_word(memory), 10);
	IS(sim_test_word(flag), 5);
	IS(cuStreamWaitValue32(other, flag + 1, 0, 0),
	   CUDA_ERROR_INVALID_VALUE);
}

static void batches(void)
{
	CUstreamBatchMemOpParams op[3];
	CUdeviceptr flag = memory + 64;

	memset(op, 0, sizeof(op));
	op[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	op[0].waitValue.address = flag;
	op[0].waitValue.value64 = 7;
	op[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	op[1].operation = CU_STREAM_MEM_OP_BARRIER;
	op[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op[2].writeValue.address = flag + 8;
	op[2].writeValue.value = 9;
	NEED(cuMemsetD32(flag, 0, 4));
	NEED(cuStreamBatchMemOp(free_running, 3, op, 0));
	IS(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
	NEED(cuStreamWriteValue64(other, flag, 7, 0));
	IS(cuStreamSynchronize(free_running), 0);
	IS(sim_test_word(flag + 8), 9);
	op[1].operation = (CUstreamBatchMemOpType)77;
	IS(cuStreamBatchMemOp(free_running, 3, op, 1),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuStreamBatchMemOp(free_running, 1, &op[1], 0),
	   CUDA_ERROR_INVALID_VALUE);
}

/* An event of all the context has, and one that all it gets waits for, on
 * streams that are there and on those to come. */
static void context_events(void)
{
#if CUDA_VERSION >= 12050
	CUevent all, first;
	CUstream later;
	CUcontext ctx;

	NEED(cuCtxGetCurrent(&ctx));
	NEED(cuEventCreate(&all, 0));
	NEED(cuEventCreate(&first, 0));
	NEED(sim_test_close(0, free_running));
	NEED(sim_test_close(1, blocking));
	NEED(cuCtxRecordEvent(ctx, all));
	sim_test_open(1);
	IS(cuStreamSynchronize(blocking), 0);
	IS(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	NEED(cuEventRecord(first, free_running));
	NEED(cuCtxWaitEvent(ctx, first));
	NEED(cuStreamCreate(&later, CU_STREAM_NON_BLOCKING));
	NEED(cuMemsetD32Async(memory, 12, 1, later));
	NEED(cuMemsetD32Async(memory + 4, 12, 1, other));
	IS(cuStreamQuery(later), CUDA_ERROR_NOT_READY);
	IS(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	sim_test_open(0);
	IS(cuEventSynchronize(all), 0);
	IS(cuStreamSynchronize(later), 0);
	IS(cuStreamSynchronize(other), 0);
	IS(sim_test_word(memory), 12);
	NEED(cuStreamDestroy(later));
	NEED(cuEventDestroy(all));
	NEED(cuEventDestroy(first));
	IS(cuCtxWaitEvent(ctx, first), CUDA_ERROR_INVALID_HANDLE);
#endif
}

/* A destroyed stream's work is done all the same. */
static void destruction(void)
{
	CUstream stream;

	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(sim_test_spin(stream, 20 * MS));
	NEED(cuMemsetD32Async(memory, 11, 1, stream));
	NEED(cuStreamDestroy(stream));
	IS(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
	IS(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	IS(cuCtxSynchronize(), 0);
	IS(sim_test_word(memory), 11);
}

/* An asynchronous copy out of pageable memory has taken its source; one out
 * of pinned memory has not. One into pageable memory waits. */
static void pageable(void)
{
	uint32_t own = 1, *pinned;
	double began;

	NEED(cuMemHostAlloc((void **)&pinned, 4096, 0));
	pinned[0] = 1;
	NEED(sim_test_close(0, free_running));
	NEED(cuMemcpyHtoDAsync(memory, &own, 4, free_running));
	NEED(cuMemcpyHtoDAsync(memory + 4, pinned, 4, free_running));
	own = pinned[0] = 2;
	sim_test_open(0);
	began = sim_test_ms();
	NEED(sim_test_spin(free_running, 30 * MS));
	NEED(cuMemcpyDtoHAsync(&own, memory, 4, free_running));
	HOLDS(since(began) >= 29);
	IS(own, 1);
	IS(sim_test_word(memory + 4), 2);
	NEED(cuMemFreeHost(pinned));
}

static void kernels(void)
{
	CUdeviceptr a = memory, b = memory + 4096, out = memory + 8192;
	unsigned value = 3;
	size_t n = 1024;
	void *fill[] = {&a, &value, &n}, *copy[] = {&b, &a, &n};
	void *sum[] = {&out, &b, &n}, *bad[] = {&out, &value, &n};
	int threads = 0;
	CUdeviceptr nowhere = 4096;

	NEED(cuLaunchKernel(sim_test_kernel("fill32"), 1, 1, 1, 32, 1, 1, 0,
			    free_running, fill, NULL));
	NEED(cuLaunchKernel(sim_test_kernel("add32"), 1, 1, 1, 32, 1, 1, 0,
			    free_running, fill, NULL));
	NEED(cuLaunchKernel(sim_test_kernel("copy32"), 1, 1, 1, 32, 1, 1, 0,
			    free_running, copy, NULL));
	NEED(cuLaunchKernel(sim_test_kernel("sum"), 1, 1, 1, 32, 1, 1, 0,
			    free_running, sum, NULL));
	IS(cuStreamSynchronize(free_running), 0);
	IS(sim_test_word(out), 6 * 1024);
	NEED(cuLaunchKernel(sim_test_kernel("hash"), 1, 1, 1, 32, 1, 1, 0,
			    free_running, sum, NULL));
	IS(cuStreamSynchronize(free_running), 0);
	HOLDS(sim_test_word(out) != 6 * 1024);
	IS(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
			      sim_test_kernel("sum")),
	   0);
	IS(threads, 1024);
	IS(cuLaunchKernel(sim_test_kernel("sum"), 0, 1, 1, 32, 1, 1, 0,
			  free_running, sum, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	IS(cuLaunchKernel((CUfunction)&value, 1, 1, 1, 1, 1, 1, 0, free_running,
			  sum, NULL),
	   CUDA_ERROR_INVALID_HANDLE);
	bad[1] = &nowhere;
	NEED(cuLaunchKernel(sim_test_kernel("sum"), 1, 1, 1, 32, 1, 1, 0,
			    free_running, bad, NULL));
	IS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void)
{
	sim_test_begin("memory:1GiB");
	NEED(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	NEED(cuStreamCreate(&other, CU_STREAM_DEFAULT));
	NEED(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAlloc(&memory, MIB));
	NEED(sim_test_spin(NULL, 0));
	durations();
	legacy();
	events();
	frees(512);
	frees(64 * MIB);
	free_is_a_barrier();
	host_functions();
	values();
	batches();
	context_events();
	destruction();
	pageable();
	kernels();
	return sim_test_end();
}
