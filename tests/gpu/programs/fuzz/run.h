/* A thread's life: choosing, one operation after the other, tidying up. */
#ifndef FUZZ_RUN_H
#define FUZZ_RUN_H

#include "graphs.h"
#include "host.h"
#include "memory.h"
#include "order.h"
#include "streams.h"
#include "work.h"

#include <cstdarg>

namespace fuzz
{

inline Worker::Worker(World *w, int t)
    : world(w), thread(t), random((uint64_t)w->seed * 64 + (uint64_t)t + 1)
{
	legacy.kind = LEGACY;
	legacy.serial = ++world->serial;
	per_thread.handle = cudaStreamPerThread;
	per_thread.kind = PER_THREAD;
	per_thread.blocking = true;
	per_thread.serial = ++world->serial;
	for (int i = 0; i < kOwn; i++)
		new_stream(i);
	for (Pin &pin : pins) {
		CHECK(cudaMallocHost((void **)&pin.host, kPinWords * 4));
		CHECK(cudaEventCreateWithFlags(&pin.done,
					       cudaEventDisableTiming));
	}
	for (Timer &timer : timers)
		CHECK(cudaEventCreate(&timer.event));
	for (cudaEvent_t &event : order_events)
		CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	for (cudaEvent_t &event : fork)
		CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
}

inline uint32_t Worker::delay()
{
	uint32_t kind = random.below(8);

	return kind < 5   ? 0
	       : kind < 7 ? random.below(40)
			  : random.below((uint64_t)options.delay_us + 1);
}

inline int Worker::any_block(bool filled)
{
	int from = (int)random.below(kBlocks);

	for (int i = 0; i < kBlocks; i++) {
		int at = (from + i) % kBlocks;
		const Block &block = blocks[at];

		if (block.p && !block.busy && (!filled || block.filled))
			return at;
	}
	return -1;
}

/* One of them, with or without a stream in it; -1: none. */
inline int Worker::own_slot(bool used, bool non_blocking)
{
	int from = (int)random.below(kOwn);

	for (int i = 0; i < kOwn; i++) {
		int at = (from + i) % kOwn;

		if (used == (own[at].serial != 0) && !own[at].capturing &&
		    !(non_blocking && own[at].blocking))
			return at;
	}
	return -1;
}

/* One that can get work now. */
inline Stream Worker::any_stream()
{
	uint32_t kind = random.below(10);
	int at;

	if (kind == 0 && !options.without.count("legacy"))
		return legacy;
	if (kind == 1 && !options.without.count("per-thread"))
		return per_thread;
	at = kind < 6 ? own_slot(true, false) : -1;
	if (at < 0)
		return world->shared[random.below(world->shared.size())];
	own[at].touched = now();
	return own[at];
}

inline void Worker::note(const char *what, const Block &block,
			 const Stream &stream)
{
	world->notes[thread].push_back(
		{now(), ops, op, what, block.p, block.words, stream});
}

/* The program saw what no program may see. */
inline void Worker::fail(const char *format, ...)
{
	std::lock_guard<std::mutex> guard(world->lock);
	va_list args;

	fprintf(stderr,
		"order_fuzz: seed %ld: thread %d, operation %llu (%s): ",
		world->seed, thread, (Count)ops, op);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	world->failed = true;
}

inline const std::vector<Worker::Op> &Worker::table()
{
	static const std::vector<Op> ops{
		{"alloc", 9, &Worker::op_alloc},
		{"free", 6, &Worker::op_free},
		{"reuse", 8, &Worker::op_reuse},
		{"give", 3, &Worker::op_give},
		{"get", 3, &Worker::op_get},
		{"fill", 10, &Worker::op_fill},
		{"verify", 14, &Worker::op_verify},
		{"exchange", 6, &Worker::op_exchange},
		{"copy", 6, &Worker::op_copy},
		{"set", 3, &Worker::op_set},
		{"pin-in", 4, &Worker::op_pin_in},
		{"pin-out", 4, &Worker::op_pin_out},
		{"pin-look", 2, &Worker::op_pin_look},
		{"pageable", 2, &Worker::op_pageable},
		{"function", 1, &Worker::op_function},
		{"event", 4, &Worker::op_event},
		{"query", 3, &Worker::op_query},
		{"wait", 3, &Worker::op_wait},
		{"device-wait", 1, &Worker::op_device_wait},
		{"stream", 2, &Worker::op_stream},
		{"graph", 1, &Worker::op_graph},
		{"launch", 4, &Worker::op_launch},
	};

	return ops;
}

inline std::string Worker::op_names()
{
	std::string names;

	for (const Op &each : table())
		names += std::string(each.name) + " ";
	return names + "legacy per-thread";
}

inline bool Worker::has_op(const std::string &name)
{
	for (const Op &each : table())
		if (name == each.name)
			return true;
	return name == "legacy" || name == "per-thread";
}

inline void Worker::step()
{
	const char *outer = op;
	uint32_t total = 0, at;

	for (const Op &each : table())
		total += (uint32_t)each.weight;
	at = random.below(total);
	ops++;
	world->ops++;
	for (const Op &each : table()) {
		if (at >= (uint32_t)each.weight) {
			at -= (uint32_t)each.weight;
			continue;
		}
		op = each.name;
		if (!options.without.count(op))
			(this->*each.function)();
		break;
	}
	op = outer;
}

inline void Worker::run()
{
	while (ops < (uint64_t)options.ops && !world->failed && !num_faults())
		step();
	clean_up();
}

/* Nothing is waited for before the frees. */
inline void Worker::clean_up()
{
	op = "end";
	for (int i = 0; i < kBlocks; i++)
		if (blocks[i].p)
			release(i);
	for (Exec &exec : execs)
		drop_exec(exec);
	for (int i = 0; i < kOwn; i++)
		if (own[i].serial)
			drop_stream(i);
	for (Pin &pin : pins) {
		if (pin.state != Pin::IDLE)
			look(pin);
		CHECK(cudaFreeHost(pin.host));
		CHECK(cudaEventDestroy(pin.done));
	}
	for (Timer &timer : timers)
		CHECK(cudaEventDestroy(timer.event));
	for (cudaEvent_t event : order_events)
		CHECK(cudaEventDestroy(event));
	for (cudaEvent_t event : fork)
		CHECK(cudaEventDestroy(event));
	while (functions_done != functions)
		std::this_thread::yield();
}

} // namespace fuzz

#endif
