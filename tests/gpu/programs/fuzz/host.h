/* What the host gives and sees: pinned and pageable copies, host functions. */
#ifndef FUZZ_HOST_H
#define FUZZ_HOST_H

#include "worker.h"

namespace fuzz
{

/* After an own free without any other wait, where that may be leaned on. */
inline void Worker::look(Pin &pin)
{
	if (!(pin.moment < settled))
		CHECK(cudaEventSynchronize(pin.done));
	if (pin.state == Pin::OUT)
		for (size_t i = 0; i < pin.words; i++)
			if (pin.host[i] != word(pin.content, (uint32_t)i)) {
				fail("a copy to pinned memory: word %zu of %zu "
				     "is %08x, not %08x",
				     i, pin.words, pin.host[i],
				     word(pin.content, (uint32_t)i));
				break;
			}
	/* Whoever still reads it will see. */
	memset(pin.host, 0xee, pin.words * 4);
	pin.state = Pin::IDLE;
}

inline void Worker::op_pin_in()
{
	int at = any_block(false);
	Stream stream = any_stream();
	Pin &pin = pins[random.below(kPins)];

	if (at < 0 || pin.state != Pin::IDLE ||
	    !order(blocks[at], stream, true))
		return;
	Block &block = blocks[at];

	pin.words = std::min(block.words, kPinWords);
	pin.content = {key(), 0};
	for (size_t i = 0; i < pin.words; i++)
		pin.host[i] = word(pin.content, (uint32_t)i);
	CHECK(cudaMemcpyAsync(block.p, pin.host, pin.words * 4,
			      cudaMemcpyHostToDevice, stream.handle));
	CHECK(cudaEventRecord(pin.done, stream.handle));
	pin.state = Pin::IN;
	block.content = pin.content;
	block.filled = pin.words;
	used(block, stream, true);
	pin.moment = now();
	if (random.below(4) == 0)
		op_free();
}

inline void Worker::op_pin_out()
{
	int at = any_block(true);
	Stream stream = any_stream();
	Pin &pin = pins[random.below(kPins)];

	if (at < 0 || pin.state != Pin::IDLE ||
	    !order(blocks[at], stream, false))
		return;
	Block &block = blocks[at];

	pin.words = std::min(block.filled, kPinWords);
	pin.content = block.content;
	CHECK(cudaMemcpyAsync(pin.host, block.p, pin.words * 4,
			      cudaMemcpyDeviceToHost, stream.handle));
	CHECK(cudaEventRecord(pin.done, stream.handle));
	pin.state = Pin::OUT;
	used(block, stream, false);
	pin.moment = now();
	if (random.below(4) == 0)
		release(at); /* the very source */
}

inline void Worker::op_pin_look()
{
	for (Pin &pin : pins)
		if (pin.state != Pin::IDLE) {
			look(pin);
			return;
		}
}

/* To pageable memory and back; a copy to it is over when it returns. */
inline void Worker::op_pageable()
{
	bool out = random.below(2), plain = random.below(2);
	int at = any_block(out);
	Stream stream = plain ? legacy : any_stream();

	if (at < 0 || !order(blocks[at], stream, !out))
		return;
	Block &block = blocks[at];
	size_t words = std::min(out ? block.filled : block.words,
				(size_t)random.below(20000) + 1);
	std::vector<uint32_t> host(words);

	if (!out) {
		block.content = {key(), 0};
		block.filled = words;
		for (size_t i = 0; i < words; i++)
			host[i] = word(block.content, (uint32_t)i);
	}
	void *to = out ? (void *)host.data() : block.p;
	void *from = out ? (void *)block.p : host.data();
	cudaMemcpyKind kind =
		out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;

	if (plain)
		CHECK(cudaMemcpy(to, from, words * 4, kind));
	else
		CHECK(cudaMemcpyAsync(to, from, words * 4, kind,
				      stream.handle));
	used(block, stream, !out);
	for (size_t i = 0; out && i < words; i++)
		if (host[i] != word(block.content, (uint32_t)i)) {
			fail("a copy to pageable memory: word %zu of %zu is "
			     "%08x, not %08x",
			     i, words, host[i],
			     word(block.content, (uint32_t)i));
			break;
		}
}

inline void count_up(void *at)
{
	++*static_cast<std::atomic<uint64_t> *>(at);
}

inline void Worker::op_function()
{
	CHECK(cudaLaunchHostFunc(any_stream().handle, count_up,
				 &functions_done));
	functions++;
}

} // namespace fuzz

#endif
