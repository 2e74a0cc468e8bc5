/*
 * Facts about streams and events that pool/ORDER.md relies on, looked at on
 * this card and driver. Each must be 1, plain and preloaded.
 *
 *   facts
 */
#include <cuda.h>
#include <dlfcn.h>
#include <thread>

#include "gpu.cuh"

namespace
{

constexpr uint32_t kSlowUs = 20000;

__global__ void set_late(int *flag, uint32_t us)
{
	spin_us(us);
	*(volatile int *)flag = 1;
}

__global__ void look(const int *flag, int *seen)
{
	*seen = *(const volatile int *)flag;
}

struct Looks {
	cudaStream_t idle, busy, free_running;
	cudaEvent_t event;
	int *flag, *seen;

	Looks()
	{
		CHECK(cudaStreamCreate(&idle)); /* these two block */
		CHECK(cudaStreamCreate(&busy));
		CHECK(cudaStreamCreateWithFlags(&free_running,
						cudaStreamNonBlocking));
		CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
		CHECK(cudaMalloc(&flag, sizeof(int)));
		CHECK(cudaMalloc(&seen, sizeof(int)));
		/* A kernel's first launch may load it, which waits. */
		set_late<<<1, 1>>>(flag, 0);
		look<<<1, 1>>>(flag, seen);
		CHECK(cudaDeviceSynchronize());
	}
	void begin()
	{
		CHECK(cudaMemset(flag, 0, sizeof(int)));
		CHECK(cudaMemset(seen, 0xff, sizeof(int)));
		CHECK(cudaDeviceSynchronize());
	}
	/* What a look behind the event sees of a slow kernel in `stream`. */
	int behind_event(cudaStream_t stream, cudaStream_t recorded)
	{
		begin();
		set_late<<<1, 1, 0, stream>>>(flag, kSlowUs);
		CHECK(cudaEventRecord(event, recorded));
		CHECK(cudaStreamWaitEvent(free_running, event, 0));
		look<<<1, 1, 0, free_running>>>(flag, seen);
		CHECK(cudaGetLastError());
		return result();
	}
	int result()
	{
		int value;

		CHECK(cudaDeviceSynchronize());
		CHECK(cudaMemcpy(&value, seen, sizeof(value),
				 cudaMemcpyDeviceToHost));
		return value;
	}
};

/* An event in an idle blocking stream is behind what the default stream has. */
int idle_behind_legacy(Looks &l)
{
	return l.behind_event(nullptr, l.idle);
}

/* The same for the host: it is not complete before that is. */
int idle_not_complete(Looks &l)
{
	cudaError_t status;

	l.begin();
	set_late<<<1, 1>>>(l.flag, kSlowUs);
	CHECK(cudaEventRecord(l.event, l.idle));
	status = cudaEventQuery(l.event);
	cudaGetLastError();
	CHECK(cudaDeviceSynchronize());
	return status == cudaErrorNotReady && !cudaEventQuery(l.event);
}

/* But it is not behind other blocking streams. */
int idle_not_behind_others(Looks &l)
{
	return l.behind_event(l.busy, l.idle) == 0;
}

/* Nor does it hold up the default stream's later work, or another's. */
int idle_holds_up_nothing(Looks &l)
{
	l.begin();
	set_late<<<1, 1, 0, l.free_running>>>(l.flag, kSlowUs);
	CHECK(cudaEventRecord(l.event, l.free_running));
	/* `idle` waits; an event behind that is recorded; `busy` goes on. */
	CHECK(cudaStreamWaitEvent(l.idle, l.event, 0));
	CHECK(cudaEventRecord(l.event, l.idle));
	look<<<1, 1, 0, l.busy>>>(l.flag, l.seen);
	CHECK(cudaGetLastError());
	return l.result() == 0;
}

/* An event in the default stream is behind all blocking streams, and behind
 * the thread's. */
int legacy_behind_blocking(Looks &l)
{
	return l.behind_event(l.busy, nullptr);
}

int legacy_behind_per_thread(Looks &l)
{
	return l.behind_event(cudaStreamPerThread, nullptr);
}

/* What the default stream's own waits and questions say of blocking streams
 * that got their work after it. Told, not judged: gpupool does not rely on it.
 */
void default_stream(Looks &l)
{
	cudaError_t asked, waited;

	l.begin();
	set_late<<<1, 1, 0, l.busy>>>(l.flag, kSlowUs);
	asked = cudaStreamQuery(nullptr);
	CHECK(cudaStreamSynchronize(nullptr));
	waited = cudaStreamQuery(l.busy);
	cudaGetLastError();
	CHECK(cudaDeviceSynchronize());
	printf("a blocking stream is busy: the default one is %s, and a wait "
	       "for it %s for that\n",
	       asked == cudaErrorNotReady ? "busy" : "idle",
	       waited == cudaErrorNotReady ? "does not wait" : "waits");
}

template <typename F> F *entry(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

	return driver ? (F *)dlsym(driver, name) : nullptr;
}

/* What the driver answers of streams and events to a thread that has no current
 * context, as gpupool's own. Told, not judged: either is allowed for. */
void without_context(Looks &l)
{
	auto query = entry<decltype(cuEventQuery)>("cuEventQuery");
	auto record = entry<decltype(cuEventRecord)>("cuEventRecord");

	CHECK(cudaEventRecord(l.event, l.free_running));
	CHECK(cudaDeviceSynchronize());
	std::thread([&] {
		if (query && record)
			printf("no current context: cuEventQuery %d, "
			       "cuEventRecord %d\n",
			       query(l.event), record(l.event, l.free_running));
	}).join();
}

/* A blocking stream made under the default one's work is behind it? */
int new_behind_legacy(Looks &l)
{
	cudaStream_t fresh;
	cudaError_t status;

	l.begin();
	set_late<<<1, 1>>>(l.flag, kSlowUs);
	CHECK(cudaStreamCreate(&fresh));
	CHECK(cudaEventRecord(l.event, fresh));
	status = cudaEventQuery(l.event);
	cudaGetLastError();
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaStreamDestroy(fresh));
	return status == cudaErrorNotReady;
}

/* cudaFree returns when all streams are through; cudaMalloc at once. (A pool
 * need not wait; told, not judged.) */
void how_long(Looks &l)
{
	void *p, *q;

	CHECK(cudaMalloc(&p, 1 << 20));
	l.begin();
	set_late<<<1, 1, 0, l.free_running>>>(l.flag, kSlowUs);
	double start = now_ms();

	CHECK(cudaMalloc(&q, 3 << 20));
	double taken = now_ms();

	CHECK(cudaFree(p));
	double freed = now_ms();

	CHECK(cudaDeviceSynchronize());
	printf("under a kernel of %u us: cudaMalloc %.0f us, cudaFree %.0f "
	       "us\n",
	       kSlowUs, (taken - start) * 1e3, (freed - taken) * 1e3);
	CHECK(cudaFree(q));
}

} // namespace

int main()
{
	CHECK(cudaSetDevice(0));
	Looks l;
	int facts[] = {idle_behind_legacy(l),     idle_not_complete(l),
		       idle_not_behind_others(l), idle_holds_up_nothing(l),
		       legacy_behind_blocking(l), legacy_behind_per_thread(l),
		       new_behind_legacy(l)};
	bool all = true;

	how_long(l);
	default_stream(l);
	without_context(l);
	printf("result idle_behind_legacy=%d idle_not_complete=%d "
	       "idle_not_behind_others=%d idle_holds_up_nothing=%d "
	       "legacy_behind_blocking=%d legacy_behind_per_thread=%d "
	       "new_behind_legacy=%d\n",
	       facts[0], facts[1], facts[2], facts[3], facts[4], facts[5],
	       facts[6]);
	for (int fact : facts)
		all = all && fact == 1;
	return all ? 0 : 1;
}
