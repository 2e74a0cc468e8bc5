/*
 * Is an access behind those that it must be behind? If not by what plain CUDA
 * says already, an event makes it so.
 */
#ifndef FUZZ_ORDER_H
#define FUZZ_ORDER_H

#include "worker.h"

namespace fuzz
{

/* The default stream and blocking ones are in the order of submission. */
inline bool by_rules(const Stream &from, const Stream &to)
{
	return (from.kind == LEGACY && to.blocking) ||
	       (to.kind == LEGACY && from.blocking);
}

/* Nothing needs to be done for this one. */
inline bool Worker::passes(const Use &use, const Stream &stream,
			   bool write) const
{
	return (!write && !use.write) || use.moment < settled ||
	       use.stream.serial == stream.serial ||
	       by_rules(use.stream, stream);
}

/* An event can be had behind it. */
inline bool Worker::orderable(const Use &use) const
{
	if (use.mark)
		return true;
	for (const Stream &stream : own)
		if (stream.serial == use.stream.serial && stream.capturing)
			return false;
	return !use.gone;
}

/* False: it cannot be done now; nothing has been done then. */
inline bool Worker::order(Block &block, const Stream &stream, bool write)
{
	for (const Use &use : block.uses)
		if (!passes(use, stream, write) && !orderable(use))
			return false;
	for (const Use &use : block.uses) {
		if (passes(use, stream, write))
			continue;
		cudaEvent_t event = use.mark ? use.mark->event : nullptr;

		if (!event) {
			event = order_events[next_order++ % kOrderEvents];
			CHECK(cudaEventRecord(event, use.stream.handle));
			touch(use.stream.serial);
		}
		CHECK(cudaStreamWaitEvent(stream.handle, event, 0));
		note("is waited for", block, use.stream);
	}
	return true;
}

/* An own stream gets something to do. */
inline void Worker::touch(uint64_t serial)
{
	for (Stream &stream : own)
		if (stream.serial == serial)
			stream.touched = now();
}

/* It was ordered, and submitted. */
inline void Worker::used(Block &block, const Stream &stream, bool write)
{
	Use use;

	use.stream = stream;
	use.write = write;
	use.moment = now();
	note(write ? "writes it" : "reads it", block, stream);
	if (write)
		block.uses.clear();
	for (Use &old : block.uses)
		if (!old.write && old.stream.serial == stream.serial &&
		    !old.mark) {
			old = use;
			return;
		}
	block.uses.push_back(use);
}

/* The stream cannot be named for this block from here on. */
inline void Worker::detach(Block &block, const Stream &stream, bool with_mark)
{
	for (Use &use : block.uses) {
		if (use.stream.serial != stream.serial || use.mark || use.gone)
			continue;
		if (with_mark && orderable(use))
			use.mark = std::make_shared<Mark>(use.stream.handle);
		use.gone = true;
	}
}

/* What was submitted there before that moment is over. */
inline void Worker::stream_settled(const Stream &stream, uint64_t before)
{
	for (Block &block : blocks)
		for (size_t i = block.uses.size(); i-- > 0;)
			if (block.uses[i].stream.serial == stream.serial &&
			    block.uses[i].moment < before)
				block.uses.erase(block.uses.begin() + (long)i);
}

} // namespace fuzz

#endif
