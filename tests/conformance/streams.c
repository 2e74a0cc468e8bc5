/* Streams and events while memory comes and goes. */
#include "conformance.h"

static void streams(void)
{
	cudaStream_t stream, blocking;
	char *p = device_block(4 * MIB), *q;
	char back = 0;

	tell_rt("non-blocking",
		cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	tell_rt("blocking", cudaStreamCreate(&blocking));
	tell_rt("set on it", cudaMemsetAsync(p, 1, 4 * MIB, stream));
	tell_rt("free what it works on", cudaFree(p));
	tell_rt("query", cudaStreamQuery(stream));
	tell_rt("query the other", cudaStreamQuery(blocking));
	tell_rt("query the default", cudaStreamQuery(NULL));
	tell_rt("alloc", cudaMalloc((void **)&q, 4 * MIB));
	tell_rt("set on the other", cudaMemsetAsync(q, 2, 4 * MIB, blocking));
	tell_rt("wait", cudaStreamSynchronize(blocking));
	tell_rt("look", cudaMemcpy(&back, q + MIB, 1, cudaMemcpyDeviceToHost));
	tell_value("byte", back);
	tell_rt("set on the legacy",
		cudaMemsetAsync(q, 3, MIB, cudaStreamLegacy));
	tell_rt("set on the thread's",
		cudaMemsetAsync(q, 3, MIB, cudaStreamPerThread));
	tell_rt("wait", cudaStreamSynchronize(cudaStreamPerThread));
	tell_rt("set on it", cudaMemsetAsync(q, 4, MIB, stream));
	tell_rt("destroy it", cudaStreamDestroy(stream));
	tell_rt("free", cudaFree(q));
	tell_rt("destroy", cudaStreamDestroy(blocking));
	tell_rt("wait for all", cudaDeviceSynchronize());
}

static void events(void)
{
	cudaEvent_t begin, end, never, plain;
	cudaStream_t stream;
	char *p = device_block(MIB);
	float ms = -1;

	need_rt(cudaStreamCreate(&stream));
	tell_rt("event", cudaEventCreateWithFlags(&begin, cudaEventDefault));
	tell_rt("event", cudaEventCreateWithFlags(&end, cudaEventDefault));
	tell_rt("event", cudaEventCreateWithFlags(&never, cudaEventDefault));
	tell_rt("event without time",
		cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
	tell_rt("query one not recorded", cudaEventQuery(never));
	tell_rt("wait for one not recorded", cudaEventSynchronize(never));
	tell_rt("stream waits for it", cudaStreamWaitEvent(stream, never, 0));
	tell_rt("record", cudaEventRecord(begin, stream));
	tell_rt("set", cudaMemsetAsync(p, 1, MIB, stream));
	tell_rt("record", cudaEventRecord(end, stream));
	tell_rt("record", cudaEventRecord(plain, stream));
	tell_rt("free", cudaFree(p));
	tell_rt("query", cudaEventQuery(end));
	tell_rt("wait", cudaEventSynchronize(end));
	tell_rt("time", cudaEventElapsedTime(&ms, begin, end));
	tell_value("not negative", ms >= 0);
	tell_rt("time with one not recorded",
		cudaEventElapsedTime(&ms, begin, never));
	tell_rt("time with one without",
		cudaEventElapsedTime(&ms, begin, plain));
	tell_rt("destroy", cudaEventDestroy(begin));
	tell_rt("destroy", cudaEventDestroy(end));
	tell_rt("destroy", cudaEventDestroy(never));
	tell_rt("destroy", cudaEventDestroy(plain));
	tell_rt("query", cudaStreamQuery(stream));
}

static void CUDART_CB count(void *arg)
{
	++*(int *)arg;
}

static void host_functions(void)
{
	cudaStream_t stream;
	char *p = device_block(MIB);
	int calls = 0;

	need_rt(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	tell_rt("function", cudaLaunchHostFunc(stream, count, &calls));
	tell_rt("free", cudaFree(p));
	tell_value("called before the free returned", calls);
	tell_rt("alloc", cudaMalloc((void **)&p, MIB));
	tell_rt("function", cudaLaunchHostFunc(stream, count, &calls));
	tell("driver: free", (int)cuMemFree((CUdeviceptr)p));
	tell_value("called before the free returned", calls);
	tell_rt("function", cudaLaunchHostFunc(stream, NULL, NULL));
	tell_rt("wait", cudaStreamSynchronize(stream));
}

const struct section stream_sections[] = {{"streams", streams},
					  {"events", events},
					  {"host-functions", host_functions},
					  {NULL, NULL}};
