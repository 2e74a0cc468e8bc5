/* Allocation and freeing, and what may be leaned on after a free. */
#ifndef FUZZ_MEMORY_H
#define FUZZ_MEMORY_H

#include "worker.h"

namespace fuzz
{

inline void Worker::take(int at, size_t bytes)
{
	Block &block = blocks[at];

	CHECK(cudaMalloc((void **)&block.p, bytes));
	block.words = bytes / 4;
	held += bytes;
	note("allocates it", block, Stream());
}

/* cudaFree with whatever still runs, also in graphs. */
inline void Worker::release(int at)
{
	Block &block = blocks[at];
	uint64_t before;

	if (block.graphs)
		for (Exec &exec : execs)
			for (size_t i = 0; i < exec.parts.size(); i++)
				if (exec.parts[i].block == at) {
					drop_exec(exec);
					break;
				}
	before = now();
	note("frees it", block, Stream());
	if (options.keep) {
		std::lock_guard<std::mutex> guard(world->lock);

		world->kept.push_back(block.p);
	} else {
		CHECK(cudaFree(block.p));
	}
	held -= block.words * 4;
	block = Block();
	if (options.lean)
		freed(before);
}

/* A cudaFree that began then has returned: all older work is over. */
inline void Worker::freed(uint64_t before)
{
	settled = before;
	if (functions_done != functions)
		fail("cudaFree returned, but %llu of %llu host functions ran",
		     (Count)functions_done, (Count)functions);
	if (random.below(2))
		for (Pin &pin : pins)
			if (pin.state != Pin::IDLE)
				look(pin);
}

inline size_t any_size(Random &random)
{
	uint32_t kind = random.below(100);
	size_t most = kind < 45   ? 64u << 10
		      : kind < 80 ? 2u << 20
		      : kind < 98 ? 16u << 20
				  : 64u << 20;

	/* Equal sizes, so that a freed block is just what is wanted next. */
	if (random.below(2))
		return most >> (1 + random.below(4));
	return 4 + random.below(most / 4) * 4;
}

inline void Worker::op_alloc()
{
	for (int i = 0; i < kBlocks; i++) {
		if (blocks[i].p)
			continue;
		if (held < (size_t)options.megabytes << 20)
			take(i, any_size(random));
		if (blocks[i].p && random.below(4))
			fill(blocks[i], any_stream(), delay());
		return;
	}
}

inline void Worker::op_free()
{
	int at = any_block(false);

	if (at < 0)
		return;
	if (random.below(2))
		verify(blocks[at], any_stream(), delay());
	release(at);
}

/* A slow reader or writer, cudaFree, cudaMalloc of the same size, and at once
 * a writer in another stream. */
inline void Worker::op_reuse()
{
	int at = any_block(true);
	size_t bytes;

	if (at < 0)
		return;
	bytes = blocks[at].words * 4;
	if (random.below(3))
		verify(blocks[at], any_stream(), delay());
	else if (Stream stream = any_stream(); order(blocks[at], stream, true))
		fill(blocks[at], stream, delay());
	release(at);
	if (random.below(8) == 0)
		op_stream();
	take(at, bytes);
	Stream stream = any_stream();

	fill(blocks[at], stream, 0);
	if (random.below(2))
		verify(blocks[at], any_stream(), delay());
}

/* A block goes to another thread, with work on it pending. */
inline void Worker::op_give()
{
	int at = any_block(false);
	bool with_mark = random.below(2);

	if (at < 0 || blocks[at].graphs)
		return;
	for (const Stream &stream : own)
		detach(blocks[at], stream, with_mark);
	detach(blocks[at], per_thread, with_mark);
	std::lock_guard<std::mutex> guard(world->lock);

	if (world->given.size() >= 16)
		return;
	held -= blocks[at].words * 4;
	world->given.push_back(std::move(blocks[at]));
	blocks[at] = Block();
}

inline void Worker::op_get()
{
	for (int i = 0; i < kBlocks; i++) {
		if (blocks[i].p)
			continue;
		{
			std::lock_guard<std::mutex> guard(world->lock);

			if (world->given.empty())
				return;
			size_t from = random.below(world->given.size());

			blocks[i] = std::move(world->given[from]);
			world->given.erase(world->given.begin() + (long)from);
		}
		held += blocks[i].words * 4;
		if (random.below(2))
			verify(blocks[i], any_stream(), delay());
		if (random.below(2))
			release(i);
		return;
	}
}

} // namespace fuzz

#endif
