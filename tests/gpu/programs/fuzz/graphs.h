/* Captures, in streams that do not block, and launching what they made. */
#ifndef FUZZ_GRAPHS_H
#define FUZZ_GRAPHS_H

#include "worker.h"

namespace fuzz
{

/* Write a block, look at it. */
inline void Worker::add_nodes(Exec &exec, const Stream &stream)
{
	int at = any_block(false);

	if (at < 0)
		return;
	for (const Exec::Part &part : exec.parts)
		if (part.block == at)
			return;
	Block &block = blocks[at];
	Exec::Part part{at, block.words, {key(), 0}};

	if (random.below(2)) {
		device::fill(stream.handle, block.p, part.words, part.content,
			     delay());
	} else {
		int byte = (int)random.below(256);

		part.content = {(uint32_t)byte * 0x01010101u, 1};
		CHECK(cudaMemsetAsync(block.p, byte, part.words * 4,
				      stream.handle));
	}
	device::verify(stream.handle, block.p, part.words, part.content,
		       delay(), key());
	block.graphs++;
	block.busy = true; /* until it is made */
	exec.parts.push_back(part);
}

inline void Worker::op_graph()
{
	int slot = own_slot(true, true), other = -1;
	bool relaxed = random.below(3);
	Exec *exec = &execs[random.below(kExecs)];
	cudaGraph_t graph;

	if (slot < 0 || capturing)
		return;
	if (exec->handle)
		drop_exec(*exec);
	for (int i = 0; i < kOwn; i++)
		if (i != slot && own[i].serial && !own[i].blocking)
			other = i;
	std::shared_lock<std::shared_mutex> hold(world->captures);
	Stream &stream = own[slot];

	capturing = stream.capturing = true;
	CHECK(cudaStreamBeginCapture(
		stream.handle, relaxed ? cudaStreamCaptureModeRelaxed
				       : cudaStreamCaptureModeThreadLocal));
	add_nodes(*exec, stream);
	if (other >= 0 && random.below(2)) {
		own[other].capturing = true;
		CHECK(cudaEventRecord(fork[0], stream.handle));
		CHECK(cudaStreamWaitEvent(own[other].handle, fork[0], 0));
		add_nodes(*exec, own[other]);
		CHECK(cudaEventRecord(fork[1], own[other].handle));
		add_nodes(*exec, stream);
		CHECK(cudaStreamWaitEvent(stream.handle, fork[1], 0));
	}
	for (uint32_t n = relaxed ? random.below(6) : 0; n; n--)
		step();
	CHECK(cudaStreamEndCapture(stream.handle, &graph));
	capturing = stream.capturing = false;
	if (other >= 0)
		own[other].capturing = false;
	CHECK(cudaGraphInstantiate(&exec->handle, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (const Exec::Part &part : exec->parts)
		blocks[part.block].busy = false;
}

/* Only into streams that no other thread uses: graph_wait.cu says why. */
inline void Worker::op_launch()
{
	Exec &exec = execs[random.below(kExecs)];
	int at = own_slot(true, false);

	if (!exec.handle || at < 0)
		return;
	own[at].touched = now();
	Stream stream = own[at];

	for (const Exec::Part &part : exec.parts)
		if (!order(blocks[part.block], stream, true))
			return;
	CHECK(cudaGraphLaunch(exec.handle, stream.handle));
	for (const Exec::Part &part : exec.parts) {
		Block &block = blocks[part.block];

		block.content = part.content;
		block.filled = part.words;
		used(block, stream, true);
	}
}

inline void Worker::drop_exec(Exec &exec)
{
	if (exec.handle)
		CHECK(cudaGraphExecDestroy(exec.handle));
	for (const Exec::Part &part : exec.parts)
		blocks[part.block].graphs--;
	exec = Exec();
}

} // namespace fuzz

#endif
