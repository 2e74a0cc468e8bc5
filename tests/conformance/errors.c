/* The last error, and errors that stay. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "conformance.h"

static void last_error(void)
{
	cudaEvent_t event;
	CUdeviceptr d;
	void *p;

	need_rt(cudaFree(NULL));
	warm(4 * KIB);
	tell("bad free", (int)cudaFree((void *)16));
	tell("good alloc after it", (int)cudaMalloc(&p, 4 * KIB));
	tell("good free after it", (int)cudaFree(p));
	tell("peek", (int)cudaPeekAtLastError());
	tell("peek again", (int)cudaPeekAtLastError());
	tell("get", (int)cudaGetLastError());
	tell("get again", (int)cudaGetLastError());
	/* The newest counts. */
	tell("no memory", (int)cudaMalloc(&p, (size_t)1 << 46));
	tell("bad free", (int)cudaFree((void *)16));
	tell("get", (int)cudaGetLastError());
	tell("bad free", (int)cudaFree((void *)16));
	tell("no memory", (int)cudaMalloc(&p, (size_t)1 << 46));
	tell("get", (int)cudaGetLastError());
	/* The driver's do not count. */
	tell("driver: bad free", (int)cuMemFree(16));
	tell("driver: no memory", (int)cuMemAlloc(&d, (size_t)1 << 46));
	tell("get", (int)cudaGetLastError());
	need_rt(cudaEventCreateWithFlags(&event, cudaEventDefault));
	tell("no kind of copy",
	     (int)cudaMemcpy(p, p, 1, (enum cudaMemcpyKind)9));
	tell("query a new event", (int)cudaEventQuery(event));
	tell("get", (int)cudaGetLastError());
	need_rt(cudaEventDestroy(event));
	tell("good free", (int)cudaFree(device_block(512)));
	tell("get", (int)cudaGetLastError());
}

static void *in_thread(void *arg)
{
	tell("thread: get", (int)cudaGetLastError());
	tell("thread: bad free", (int)cudaFree((void *)32));
	tell("thread: peek", (int)cudaPeekAtLastError());
	return arg;
}

/* Each thread has its own. */
static void threads(void)
{
	pthread_t thread;

	tell("no memory", (int)cudaMalloc(&(void *){NULL}, (size_t)1 << 46));
	if (pthread_create(&thread, NULL, in_thread, NULL))
		exit(1);
	pthread_join(thread, NULL);
	tell("get", (int)cudaGetLastError());
	tell("get again", (int)cudaGetLastError());
}

static const char store[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry store(.param .u64 p)\n{\n"
	"  .reg .b64 %p;\n"
	"  ld.param.u64 %p, [p]; cvta.to.global.u64 %p, %p;\n"
	"  st.global.u32 [%p], 7;\n  ret;\n}\n";

static int launch(CUfunction function, void *address)
{
	void *args[] = {&address};

	return (int)cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args,
				   NULL);
}

/* A kernel writes where nothing is: told by the next call that would have, and
 * by all after it. */
static void fault(void)
{
	CUfunction function = NULL;
	CUmodule module = NULL;
	cudaStream_t stream;
	CUdeviceptr d;
	void *p, *held = device_block(4 * KIB);
	int rc;

	warm(64 * KIB);
	tell_rt("stream", cudaStreamCreate(&stream));
	rc = (int)cuModuleLoadData(&module, store);
	tell("module", rc);
	if (rc)
		return;
	rc = (int)cuModuleGetFunction(&function, module, "store");
	tell("function", rc);
	if (rc)
		return;
	tell("good launch", launch(function, held));
	tell_rt("wait", cudaDeviceSynchronize());
	tell("bad launch", launch(function, (void *)(uintptr_t)0x10));
	tell_rt("wait", cudaDeviceSynchronize());
	tell_rt("wait again", cudaDeviceSynchronize());
	tell_rt("alloc", cudaMalloc(&p, 64 * KIB));
	tell_rt("alloc, large", cudaMalloc(&p, 64 * MIB));
	tell_rt("alloc 0", cudaMalloc(&p, 0));
	tell_rt("free", cudaFree(held));
	tell_rt("free NULL", cudaFree(NULL));
	tell("driver: alloc", (int)cuMemAlloc(&d, 64 * KIB));
	tell("driver: free", (int)cuMemFree(16));
	tell_rt("set", cudaMemset(held, 0, 16));
	tell_rt("stream", cudaStreamSynchronize(stream));
}

/* The same, seen first by an allocation or a free. */
static void fault_first(bool is_free)
{
	CUfunction function = NULL;
	CUmodule module = NULL;
	void *p, *held = device_block(4 * KIB);
	cudaEvent_t event;

	warm(64 * KIB);
	need_rt(cudaEventCreateWithFlags(&event, cudaEventDefault));
	if (cuModuleLoadData(&module, store) ||
	    cuModuleGetFunction(&function, module, "store"))
		return;
	tell("bad launch", launch(function, (void *)(uintptr_t)0x10));
	cudaEventRecord(event, NULL); /* fails if the kernel has */
	cudaGetLastError();
	while (cudaEventQuery(event) == cudaErrorNotReady)
		;
	if (is_free)
		tell_rt("free", cudaFree(held));
	else
		tell_rt("alloc", cudaMalloc(&p, 64 * KIB));
	tell_rt("wait", cudaDeviceSynchronize());
}

static void fault_alloc(void)
{
	fault_first(false);
}

static void fault_free(void)
{
	fault_first(true);
}

/* Not even the first call tells what is not its own. */
static void fault_unseen(void)
{
	CUfunction function = NULL;
	CUmodule module = NULL;
	void *held = device_block(4 * KIB);

	if (cuModuleLoadData(&module, store) ||
	    cuModuleGetFunction(&function, module, "store"))
		return;
	tell("bad launch", launch(function, (void *)(uintptr_t)0x10));
	tell_rt("free, the barrier", cudaFree(held));
	tell_rt("wait", cudaDeviceSynchronize());
}

const struct section errors_sections[] = {{"last-error", last_error},
					  {"last-error-threads", threads},
					  {"fault", fault},
					  {"fault-alloc", fault_alloc},
					  {"fault-free", fault_free},
					  {"fault-unseen", fault_unseen},
					  {NULL, NULL}};
