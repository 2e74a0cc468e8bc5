/*
 * Stream capture: work becomes nodes of a graph instead of being done.
 *
 * Streams join a capture by waiting on an event recorded in it. What would
 * touch a capture from outside, or wait for it, makes it invalid, which its
 * end reports. Unsafe calls (table.h) are forbidden to a thread by a capture
 * of its own that is not relaxed, and by any other's global one; a thread
 * that exchanged its mode is held to less.
 */
#include "tests/sim/capture.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/event.h"
#include "tests/sim/graph_memory.h"

struct sim_list sim_captures = {&sim_captures, &sim_captures};

static struct sim_capture *capture_by_id(uint64_t id)
{
	struct sim_list *l;

	for (l = sim_captures.next; l != &sim_captures; l = l->next) {
		struct sim_capture *c = sim_entry(l, struct sim_capture, link);

		if (c->id == id)
			return c;
	}
	return NULL;
}

bool sim_deps_set(struct sim_node ***to, size_t *to_count,
		  struct sim_node *const *deps, size_t count)
{
	struct sim_node **copy = calloc(count + 1, sizeof(*copy));

	if (!copy)
		return false;
	if (count)
		memcpy(copy, deps, count * sizeof(*copy));
	free(*to);
	*to = copy;
	*to_count = count;
	return true;
}

bool sim_capture_break_blocking(struct sim_ctx *ctx)
{
	struct sim_list *l;
	bool any = false;

	for (l = ctx->streams.next; l != &ctx->streams; l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, link);

		if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
			s->capture->broken = true;
			any = true;
		}
	}
	return any;
}

CUresult sim_capture_forbids(void)
{
	struct sim_thread *thread = sim_thread();
	CUresult err = CUDA_SUCCESS;
	struct sim_list *l;

	if (thread->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	sim_lock();
	for (l = sim_captures.next; l != &sim_captures; l = l->next) {
		struct sim_capture *c = sim_entry(l, struct sim_capture, link);
		bool own = c->thread == thread->serial;

		if (own ? c->mode == CU_STREAM_CAPTURE_MODE_RELAXED
			: c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
				    thread->mode !=
					    CU_STREAM_CAPTURE_MODE_GLOBAL)
			continue;
		c->broken = true;
		err = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	sim_unlock();
	return err;
}

CUresult sim_capture_forbids_beside(CUstream handle)
{
	struct sim_stream *stream;
	bool beside;

	if (!atomic_load(&sim.captures))
		return CUDA_SUCCESS;
	sim_lock();
	stream = sim_stream_of(handle);
	beside = stream && !stream->capture;
	sim_unlock();
	return beside ? sim_capture_forbids() : CUDA_SUCCESS;
}

CUresult sim_capture_submit(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_capture *capture = stream->capture;
	struct sim_node *node;

	if (!capture) {
		if (stream->legacy && atomic_load(&sim.captures) &&
		    sim_capture_break_blocking(stream->ctx))
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		return CUDA_ERROR_NOT_FOUND;
	}
	if (capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	node = sim_graph_add(capture->graph, work, stream->deps,
			     stream->dep_count);
	if (!node ||
	    !sim_deps_set(&stream->deps, &stream->dep_count, &node, 1)) {
		capture->broken = true;
		if (node) /* the graph owns it now */
			memset(work, 0, sizeof(*work));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult sim_capture_sync(struct sim_stream *stream)
{
	if (stream->capture) {
		stream->capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (stream->legacy && atomic_load(&sim.captures) &&
	    sim_capture_break_blocking(stream->ctx))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return CUDA_SUCCESS;
}

CUresult sim_capture_sync_ctx(struct sim_ctx *ctx)
{
	CUresult err = CUDA_SUCCESS;
	struct sim_list *l;

	for (l = ctx->streams.next; l != &ctx->streams; l = l->next) {
		struct sim_stream *s = sim_entry(l, struct sim_stream, link);

		if (s->capture) {
			s->capture->broken = true;
			err = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return err;
}

CUresult sim_capture_break(struct sim_stream *stream, CUresult err)
{
	stream->capture->broken = true;
	return err;
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event)
{
	if (stream->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!sim_deps_set(&event->deps, &event->dep_count, stream->deps,
			  stream->dep_count))
		return sim_capture_break(stream, CUDA_ERROR_OUT_OF_MEMORY);
	event->capture = stream->capture->id;
	return CUDA_SUCCESS;
}

/* Add the event's nodes to those the stream's next work comes after. */
static bool join(struct sim_stream *stream, const struct sim_event *event)
{
	size_t n = stream->dep_count;
	struct sim_node **all = calloc(n + event->dep_count + 1, sizeof(*all));

	if (!all)
		return false;
	if (n)
		memcpy(all, stream->deps, n * sizeof(*all));
	for (size_t i = 0; i < event->dep_count; i++)
		if (!sim_node_before(event->deps[i], all, n))
			all[n++] = event->deps[i];
	free(stream->deps);
	stream->deps = all;
	stream->dep_count = n;
	return true;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event)
{
	struct sim_capture *capture = capture_by_id(event->capture);

	if (!capture) /* of a capture that has ended */
		return stream->capture
			       ? sim_capture_break(
					 stream,
					 CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
			       : CUDA_ERROR_INVALID_VALUE;
	if (capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->legacy) {
		capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (stream->capture && stream->capture != capture) {
		capture->broken = true;
		return sim_capture_break(stream,
					 CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	if (!join(stream, event)) {
		capture->broken = true;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream->capture = capture;
	return CUDA_SUCCESS;
}

/* ---- memory ------------------------------------------------------------------ */

/* The node is what the stream's next work comes after. */
static CUresult goes_on(struct sim_stream *stream, struct sim_node *node,
			CUresult err)
{
	if (!err && !sim_deps_set(&stream->deps, &stream->dep_count, &node, 1))
		err = sim_capture_break(stream, CUDA_ERROR_OUT_OF_MEMORY);
	return err;
}

CUresult sim_capture_alloc(struct sim_stream *stream, struct sim_device *device,
			   uint64_t bytes, CUdeviceptr *out)
{
	struct sim_node *node;
	CUresult err;

	if (stream->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	err = sim_graph_node_alloc(stream->capture->graph, stream->ctx, device,
				   bytes, stream->deps, stream->dep_count,
				   &node);
	if (!err)
		*out = node->work.dst.va;
	return goes_on(stream, node, err);
}

CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr va)
{
	struct sim_node *node;
	CUresult err;

	if (stream->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	err = sim_graph_node_free(stream->capture->graph, va, stream->deps,
				  stream->dep_count, &node);
	return goes_on(stream, node, err);
}
