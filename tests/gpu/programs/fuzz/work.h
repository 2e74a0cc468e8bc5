/* Kernels, copies and sets of this thread's blocks. */
#ifndef FUZZ_WORK_H
#define FUZZ_WORK_H

#include "worker.h"

namespace fuzz
{

/* The caller has ordered it, or the block is new. */
inline void Worker::fill(Block &block, const Stream &stream, uint32_t us)
{
	block.content = {key(), 0};
	block.filled = block.words;
	device::fill(stream.handle, block.p, block.filled, block.content, us);
	used(block, stream, true);
}

inline bool Worker::verify(Block &block, const Stream &stream, uint32_t us)
{
	if (!block.filled || !order(block, stream, false))
		return false;
	device::verify(stream.handle, block.p, block.filled, block.content, us,
		       key());
	used(block, stream, false);
	return true;
}

inline void Worker::op_fill()
{
	int at = any_block(false);
	Stream stream = any_stream();

	if (at >= 0 && order(blocks[at], stream, true))
		fill(blocks[at], stream, delay());
}

inline void Worker::op_verify()
{
	int at = any_block(true);

	if (at >= 0)
		verify(blocks[at], any_stream(), delay());
}

/* The old words are looked at, new ones written. */
inline void Worker::op_exchange()
{
	int at = any_block(true);
	Stream stream = any_stream();
	Content fresh{key(), 0};

	if (at < 0 || !order(blocks[at], stream, true))
		return;
	device::exchange(stream.handle, blocks[at].p, blocks[at].filled,
			 blocks[at].content, fresh, delay(), key());
	blocks[at].content = fresh;
	used(blocks[at], stream, true);
}

inline void Worker::op_copy()
{
	int from = any_block(true), to = any_block(false);
	Stream stream = any_stream();
	size_t words;

	if (from < 0 || to < 0 || from == to)
		return;
	Block &source = blocks[from], &target = blocks[to];

	if (!order(source, stream, false) || !order(target, stream, true))
		return;
	words = std::min(source.filled, target.words);
	if (random.below(2))
		device::copy(stream.handle, target.p, source.p, words, delay());
	else if (stream.kind == LEGACY && random.below(2))
		CHECK(cudaMemcpy(target.p, source.p, words * 4,
				 cudaMemcpyDeviceToDevice));
	else
		CHECK(cudaMemcpyAsync(target.p, source.p, words * 4,
				      cudaMemcpyDeviceToDevice, stream.handle));
	target.content = source.content;
	target.filled = words;
	used(source, stream, false);
	used(target, stream, true);
}

inline void Worker::op_set()
{
	int at = any_block(false), byte = (int)random.below(256);
	Stream stream = any_stream();

	if (at < 0 || !order(blocks[at], stream, true))
		return;
	Block &block = blocks[at];

	if (stream.kind == LEGACY && random.below(2))
		CHECK(cudaMemset(block.p, byte, block.words * 4));
	else
		CHECK(cudaMemsetAsync(block.p, byte, block.words * 4,
				      stream.handle));
	block.content = {(uint32_t)byte * 0x01010101u, 1};
	block.filled = block.words;
	used(block, stream, true);
}

} // namespace fuzz

#endif
