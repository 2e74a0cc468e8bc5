/*
 * The order of streams: when may an operation at the head of one start?
 */
#include "tests/sim/engine.h"

/* Does `stream` hold something that `seq` is ordered behind by the legacy
 * stream's rule? */
static bool holds_back(const struct sim_stream *other, uint64_t seq)
{
	return other->head && other->head->seq < seq;
}

/* Is nothing older left on the context's streams; of these, for the legacy
 * stream, the blocking ones? */
static bool oldest(const struct sim_op *op)
{
	const struct sim_ctx *ctx = op->stream->ctx;
	bool all = op->stream->sweeper;
	struct sim_list *l;

	for (l = sim.active.next; l != &sim.active; l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, active);

		if (s->ctx == ctx && holds_back(s, op->seq) &&
		    (all || !(s->flags & CU_STREAM_NON_BLOCKING)))
			return false;
	}
	return true;
}

static bool value_met(const struct sim_work *work)
{
	struct sim_agent agent = {NULL, false, false};
	struct sim_piece piece;
	uint64_t now = 0;
	int64_t ahead;

	/* Unreachable: go on, running it will say what is wrong. */
	if (!sim_reach(&agent, work->dst.va, work->bytes, &piece))
		return true;
	if (work->bytes == 4)
		now = __atomic_load_n((uint32_t *)(void *)piece.at,
				      __ATOMIC_ACQUIRE);
	else
		now = __atomic_load_n((uint64_t *)(void *)piece.at,
				      __ATOMIC_ACQUIRE);
	sim_piece_done(&piece);
	ahead = work->bytes == 4 ? (int32_t)(uint32_t)(now - work->value)
				 : (int64_t)(now - work->value);
	switch (work->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return ahead >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return ahead == 0;
	case CU_STREAM_WAIT_VALUE_AND:
		return now & work->value;
	default:
		return ~(now | work->value) &
		       (work->bytes == 4 ? UINT32_MAX : UINT64_MAX);
	}
}

bool sim_op_ready(const struct sim_op *op)
{
	const struct sim_stream *stream = op->stream;

	if ((stream->legacy || stream->sweeper) && !oldest(op))
		return false;
	if (!stream->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING) &&
	    stream->ctx->legacy && holds_back(stream->ctx->legacy, op->seq))
		return false;
	if (op->work.kind == SIM_W_WAIT)
		return op->work.awaited->state == SIM_DONE;
	if (op->work.kind == SIM_W_POLL)
		return stream->ctx->sticky || value_met(&op->work);
	return true;
}
