/*
 * A fault of the driver (seen with 580.159 on an H200), and that gpupool's own
 * order does not suffer from it: while one thread is inside cudaGraphLaunch, a
 * cudaStreamWaitEvent of another thread for the same stream may be lost. What
 * the other thread puts into the stream then does not wait.
 *
 *   graph_wait [--seconds N] [--threads T] [--streams S]
 *
 * Threads share some streams and now and then launch a graph into one of them.
 * First each hands a counter from stream to stream by events: how often an
 * event was not waited for is told, as it is the program's loss. Then each
 * frees memory that is written in one stream and reuses it in another, which
 * cudaFree makes right: that must not go wrong once.
 */
#include <atomic>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

#include "gpu.cuh"

namespace
{

constexpr uint32_t kWords = 64, kEvents = 16;

struct Shared {
	std::vector<cudaStream_t> streams;
	std::mutex setup; /* a capture, and what would end it */
	std::atomic<int> ready{0};
	std::atomic<bool> over{false};
	std::atomic<uint64_t> steps{0}, launches{0};
	uint32_t *lost, *lost_on_device; /* in mapped host memory */
	int threads;
};

__global__ void put(uint32_t *p, uint32_t value, uint32_t us)
{
	spin_us(us);
	*(volatile uint32_t *)(p + threadIdx.x) = value;
}

__global__ void look(const uint32_t *p, uint32_t value, uint32_t us,
		     uint32_t *lost)
{
	spin_us(us);
	if (*(const volatile uint32_t *)(p + threadIdx.x) != value)
		atomicAdd(lost, 1);
}

class Worker
{
      public:
	Worker(Shared *s, int number) : shared(s), random((uint64_t)number + 1)
	{
	}
	void run(bool by_free);

      private:
	Shared *shared;
	Random random;
	cudaStream_t own = nullptr;
	cudaGraphExec_t exec = nullptr;
	uint32_t *p = nullptr, *scratch = nullptr, value = 0;
	cudaEvent_t events[kEvents] = {};
	unsigned next_event = 0;

	void begin();
	void end();
	void by_event(cudaStream_t from, cudaStream_t to);
	void by_free(cudaStream_t from, cudaStream_t to);
	cudaStream_t any()
	{
		return shared->streams[random.below(shared->streams.size())];
	}
	uint32_t delay()
	{
		return random.below(4) ? 0 : random.below(60);
	}
};

/* A graph of two kernels that touch nothing of anybody's. */
void Worker::begin()
{
	std::lock_guard<std::mutex> guard(shared->setup);
	cudaGraph_t graph;

	CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&p, kWords * 4));
	CHECK(cudaMalloc((void **)&scratch, kWords * 4));
	for (cudaEvent_t &event : events)
		CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	put<<<1, kWords, 0, own>>>(p, value, 0);
	CHECK(cudaStreamSynchronize(own));
	CHECK(cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed));
	for (int i = 0; i < 2; i++)
		put<<<1, kWords, 0, own>>>(scratch, 1, 0);
	CHECK(cudaStreamEndCapture(own, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	shared->ready++;
}

void Worker::end()
{
	std::lock_guard<std::mutex> guard(shared->setup);

	CHECK(cudaDeviceSynchronize());
	CHECK(cudaGraphExecDestroy(exec));
	for (cudaEvent_t event : events)
		CHECK(cudaEventDestroy(event));
	CHECK(cudaStreamDestroy(own));
	CHECK(cudaFree(p));
	CHECK(cudaFree(scratch));
}

void Worker::by_event(cudaStream_t from, cudaStream_t to)
{
	cudaEvent_t event = events[next_event++ % kEvents];

	if (from != to) {
		CHECK(cudaEventRecord(event, from));
		CHECK(cudaStreamWaitEvent(to, event, 0));
	}
	look<<<1, kWords, 0, to>>>(p, value, 0, shared->lost_on_device);
	put<<<1, kWords, 0, to>>>(p, ++value, delay());
}

void Worker::by_free(cudaStream_t from, cudaStream_t to)
{
	put<<<1, kWords, 0, from>>>(p, ++value, 40 + delay());
	CHECK(cudaFree(p));
	CHECK(cudaMalloc((void **)&p, kWords * 4));
	put<<<1, kWords, 0, to>>>(p, ++value, 0);
	look<<<1, kWords, 0, to>>>(p, value, 120, shared->lost_on_device);
}

void Worker::run(bool frees)
{
	cudaStream_t at;

	begin();
	while (shared->ready < shared->threads)
		std::this_thread::yield();
	at = any();
	while (!shared->over) {
		cudaStream_t to = any();

		if (random.below(3) == 0) {
			CHECK(cudaGraphLaunch(exec, any()));
			shared->launches++;
		}
		if (frees)
			by_free(at, to);
		else
			by_event(at, to);
		at = to;
		if (++shared->steps % 4096 == 0)
			CHECK(cudaStreamSynchronize(at));
	}
	end();
}

/* How many words were wrong. */
uint32_t play(Shared *shared, bool by_free, double seconds)
{
	std::vector<std::thread> threads;

	shared->ready = 0;
	shared->over = false;
	shared->steps = shared->launches = 0;
	*shared->lost = 0;
	for (int i = 0; i < shared->threads; i++)
		threads.emplace_back([=] { Worker(shared, i).run(by_free); });
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
	shared->over = true;
	for (std::thread &thread : threads)
		thread.join();
	CHECK(cudaDeviceSynchronize());
	printf("ordered by %s: %llu steps, %llu graph launches, %u words "
	       "lost\n",
	       by_free ? "frees" : "events", (Count)shared->steps,
	       (Count)shared->launches, *shared->lost);
	return *shared->lost;
}

} // namespace

int main(int argc, char **argv)
{
	long seconds = 3, threads = 8, streams = 4;
	Shared shared;

	for (int i = 1; i < argc; i++)
		if (!number_option(argc, argv, &i, "--seconds", 1, &seconds) &&
		    !number_option(argc, argv, &i, "--threads", 1, &threads) &&
		    !number_option(argc, argv, &i, "--streams", 1, &streams)) {
			fprintf(stderr, "graph_wait: %s: not an option\n",
				argv[i]);
			return 2;
		}
	shared.threads = (int)threads;
	shared.streams.resize((size_t)streams);
	for (cudaStream_t &stream : shared.streams)
		CHECK(cudaStreamCreateWithFlags(&stream,
						cudaStreamNonBlocking));
	CHECK(cudaHostAlloc((void **)&shared.lost, 4, cudaHostAllocMapped));
	CHECK(cudaHostGetDevicePointer((void **)&shared.lost_on_device,
				       shared.lost, 0));
	play(&shared, false, (double)seconds);
	printf("result frees_lost=%u\n", play(&shared, true, (double)seconds));
	for (cudaStream_t stream : shared.streams)
		CHECK(cudaStreamDestroy(stream));
	return 0;
}
