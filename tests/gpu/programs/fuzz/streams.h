/* Events, waits, questions; streams that come and go. */
#ifndef FUZZ_STREAMS_H
#define FUZZ_STREAMS_H

#include "worker.h"

namespace fuzz
{

/* Record one; now and then another stream waits for it. */
inline void Worker::op_event()
{
	Timer &timer = timers[random.below(kTimers)];

	CHECK(cudaEventRecord(timer.event, any_stream().handle));
	timer.moment = now();
	if (random.below(2))
		CHECK(cudaStreamWaitEvent(any_stream().handle, timer.event, 0));
	if (random.below(8) == 0)
		CHECK(cudaEventSynchronize(timer.event));
}

/* After an own free neither may say "not yet" of older work. */
inline void Worker::op_query()
{
	Timer &a = timers[random.below(kTimers)];
	Timer &b = timers[random.below(kTimers)];
	bool old = a.moment < settled && b.moment < settled;
	cudaError_t status;
	float ms;

	if (a.moment) {
		status = cudaEventQuery(a.event);
		if (status != cudaErrorNotReady)
			CHECK(status);
		else if (a.moment < settled)
			fail("cudaEventQuery: not ready after a free");
	}
	if (a.moment && b.moment && old) {
		status = cudaEventElapsedTime(&ms, a.event, b.event);
		if (status != cudaErrorNotReady)
			CHECK(status);
		else
			fail("cudaEventElapsedTime: not ready after a free");
	}
	query_stream(own[random.below(kOwn)]);
	cudaGetLastError();
}

/* A moment is given, as somebody else's free may just have marked it. */
inline void Worker::query_stream(const Stream &stream)
{
	bool old = !stream.blocking && stream.touched < settled;
	double start = now_ms();
	cudaError_t status;

	if (!stream.serial || stream.capturing)
		return;
	status = cudaStreamQuery(stream.handle);
	if (status == cudaErrorNotReady && old)
		world->late++;
	while (status == cudaErrorNotReady && old && now_ms() - start < 2000)
		status = cudaStreamQuery(stream.handle);
	if (status != cudaErrorNotReady)
		CHECK(status);
	else if (old)
		fail("cudaStreamQuery: not ready after a free");
}

inline void Worker::op_wait()
{
	Stream stream = any_stream();
	uint64_t before = now();

	CHECK(cudaStreamSynchronize(stream.handle));
	stream_settled(stream, before);
}

/* It would break captures of any thread. */
inline void Worker::op_device_wait()
{
	std::unique_lock<std::shared_mutex> alone(world->captures,
						  std::defer_lock);
	uint64_t before;

	if (capturing || !alone.try_lock())
		return;
	before = now();
	CHECK(cudaDeviceSynchronize());
	settled = std::max(settled, before);
}

inline void Worker::new_stream(int at)
{
	own[at] = Stream();
	own[at].blocking = random.below(3) == 0;
	CHECK(cudaStreamCreateWithFlags(
		&own[at].handle,
		own[at].blocking ? cudaStreamDefault : cudaStreamNonBlocking));
	own[at].serial = ++world->serial;
}

/* With whatever it still has to do. */
inline void Worker::drop_stream(int at)
{
	bool with_mark = random.below(2);

	for (Block &block : blocks)
		detach(block, own[at], with_mark);
	CHECK(cudaStreamDestroy(own[at].handle));
	own[at] = Stream();
}

inline void Worker::op_stream()
{
	int at = (int)random.below(kOwn);

	if (own[at].capturing)
		return;
	if (own[at].serial)
		drop_stream(at);
	if (random.below(4))
		new_stream(at);
}

} // namespace fuzz

#endif
