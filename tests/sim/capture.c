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
#include "tests/sim/graph.h"

/* Guarded by sim.lock. */
struct sim_capture {
	uint64_t id;
	CUstreamCaptureMode mode;
	uint64_t thread;           /* serial of the one that began it */
	struct sim_stream *origin; /* NULL: destroyed */
	struct sim_graph *graph;   /* a reference */
	bool broken;
	bool to_graph; /* the program's own graph */
	struct sim_list link;
};

static struct sim_list captures = {&captures, &captures};

static struct sim_capture *capture_by_id(uint64_t id)
{
	struct sim_list *l;

	for (l = captures.next; l != &captures; l = l->next) {
		struct sim_capture *c = sim_entry(l, struct sim_capture, link);

		if (c->id == id)
			return c;
	}
	return NULL;
}

static bool set_deps(struct sim_node ***to, size_t *to_count,
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

static void leave(struct sim_stream *stream)
{
	stream->capture = NULL;
	free(stream->deps);
	stream->deps = NULL;
	stream->dep_count = 0;
}

/* Break what blocking streams of ctx are in: the legacy stream would have to
 * wait for them. */
static bool break_blocking(struct sim_ctx *ctx)
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
	for (l = captures.next; l != &captures; l = l->next) {
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

CUresult sim_capture_submit(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_capture *capture = stream->capture;
	struct sim_node *node;

	if (!capture) {
		if (stream->legacy && atomic_load(&sim.captures) &&
		    break_blocking(stream->ctx))
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		return CUDA_ERROR_NOT_FOUND;
	}
	if (capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	node = sim_graph_add(capture->graph, work, stream->deps,
			     stream->dep_count);
	if (!node || !set_deps(&stream->deps, &stream->dep_count, &node, 1)) {
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
	    break_blocking(stream->ctx))
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
	if (!set_deps(&event->deps, &event->dep_count, stream->deps,
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

/* ---- beginning and end ------------------------------------------------------- */

static CUresult begin(CUstream handle, struct sim_graph *graph,
		      struct sim_node *const *deps, size_t count,
		      CUstreamCaptureMode mode)
{
	struct sim_stream *stream = sim_stream_of(handle);
	struct sim_capture *capture;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->to_graph = graph;
	if (graph)
		sim_graph_ref(graph);
	else
		graph = sim_graph_new();
	if (!graph ||
	    !set_deps(&stream->deps, &stream->dep_count, deps, count)) {
		if (graph)
			sim_graph_unref(graph);
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	capture->graph = graph;
	capture->id = ++sim.next_id;
	capture->mode = mode;
	capture->thread = sim_thread()->serial;
	capture->origin = stream;
	stream->capture = capture;
	sim_list_add(&captures, &capture->link);
	atomic_fetch_add(&sim.captures, 1);
	return CUDA_SUCCESS;
}

static bool known_mode(CUstreamCaptureMode mode)
{
	return mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
	       mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
	       mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult sim_capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
	CUresult err;

	if (!known_mode(mode))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	err = begin(stream, NULL, NULL, 0, mode);
	sim_unlock();
	return err;
}

CUresult sim_capture_begin_v1(CUstream stream)
{
	return sim_capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

#if CUDA_VERSION >= 12030
CUresult sim_capture_begin_to_graph(CUstream stream, CUgraph handle,
				    const CUgraphNode *deps,
				    const CUgraphEdgeData *edges, size_t count,
				    CUstreamCaptureMode mode)
{
	struct sim_graph *graph = (struct sim_graph *)(void *)handle;
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	if (!known_mode(mode) || edges || (count && !deps))
		return err;
	sim_lock();
	if (sim_handle_is(SIM_K_GRAPH, graph))
		err = begin(stream, graph, (struct sim_node *const *)deps,
			    count, mode);
	sim_unlock();
	return err;
}
#endif

/* Does every stream that joined lead back to the origin? */
static bool all_joined(const struct sim_capture *capture)
{
	struct sim_stream *origin = capture->origin;
	struct sim_list *c, *l;

	for (c = sim.contexts.next; c != &sim.contexts; c = c->next) {
		struct sim_ctx *ctx = sim_entry(c, struct sim_ctx, link);

		if (!ctx->alive)
			continue;
		for (l = ctx->streams.next; l != &ctx->streams; l = l->next) {
			struct sim_stream *s =
				sim_entry(l, struct sim_stream, link);

			for (size_t i = 0;
			     s->capture == capture && i < s->dep_count; i++)
				if (!sim_node_before(s->deps[i], origin->deps,
						     origin->dep_count))
					return false;
		}
	}
	return true;
}

/* Take every stream out of it and forget it. */
static void end(struct sim_capture *capture)
{
	struct sim_list *c, *l;

	for (c = sim.contexts.next; c != &sim.contexts; c = c->next) {
		struct sim_ctx *ctx = sim_entry(c, struct sim_ctx, link);

		for (l = ctx->streams.next; ctx->alive && l != &ctx->streams;
		     l = l->next) {
			struct sim_stream *s =
				sim_entry(l, struct sim_stream, link);

			if (s->capture == capture)
				leave(s);
		}
	}
	sim_list_del(&capture->link);
	atomic_fetch_sub(&sim.captures, 1);
	sim_graph_unref(capture->graph);
	free(capture);
}

static CUresult finish(struct sim_stream *stream, CUgraph *out)
{
	struct sim_capture *capture = stream->capture;
	CUresult err = CUDA_SUCCESS;

	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    capture->thread != sim_thread()->serial)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (capture->origin != stream) {
		capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->broken)
		err = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!all_joined(capture))
		err = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (!err) {
		if (!capture->to_graph)
			sim_handle_add(SIM_K_GRAPH, capture->graph);
		if (!capture->to_graph)
			sim_graph_ref(capture->graph);
		*out = (CUgraph)(void *)capture->graph;
	}
	end(capture);
	return err;
}

CUresult sim_capture_end(CUstream handle, CUgraph *out)
{
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct sim_stream *stream;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	sim_lock();
	stream = sim_stream_of(handle);
	if (stream)
		err = finish(stream, out);
	sim_unlock();
	return err;
}

void sim_capture_forget(struct sim_stream *stream)
{
	struct sim_capture *capture = stream->capture;

	if (!capture)
		return;
	capture->broken = true;
	if (capture->origin == stream)
		end(capture); /* nobody can end it any more */
	else
		leave(stream);
}

void sim_captures_end(struct sim_ctx *ctx)
{
	struct sim_list *l;

	for (l = ctx->streams.next; l != &ctx->streams; l = l->next)
		sim_capture_forget(sim_entry(l, struct sim_stream, link));
}

/* ---- questions ----------------------------------------------------------------- */

static CUstreamCaptureStatus status_of(const struct sim_stream *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
				       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult sim_capture_info_v2(CUstream handle, CUstreamCaptureStatus *status,
			     cuuint64_t *id, CUgraph *graph,
			     const CUgraphNode **deps, size_t *count)
{
	struct sim_stream *stream;
	CUresult err = CUDA_SUCCESS;

	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	if (!stream) {
		err = CUDA_ERROR_INVALID_HANDLE;
	} else if (stream->legacy && atomic_load(&sim.captures) &&
		   break_blocking(stream->ctx)) {
		err = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	} else {
		*status = status_of(stream);
		if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
			if (id)
				*id = stream->capture->id;
			if (graph)
				*graph =
					(CUgraph)(void *)stream->capture->graph;
			if (deps)
				*deps = (const CUgraphNode *)stream->deps;
			if (count)
				*count = stream->dep_count;
		}
	}
	sim_unlock();
	return err;
}

CUresult sim_capture_info(CUstream stream, CUstreamCaptureStatus *status,
			  cuuint64_t *id)
{
	return sim_capture_info_v2(stream, status, id, NULL, NULL, NULL);
}

CUresult sim_capture_status(CUstream stream, CUstreamCaptureStatus *status)
{
	return sim_capture_info_v2(stream, status, NULL, NULL, NULL, NULL);
}

#if CUDA_VERSION >= 12030
CUresult sim_capture_info_v3(CUstream stream, CUstreamCaptureStatus *status,
			     cuuint64_t *id, CUgraph *graph,
			     const CUgraphNode **deps,
			     const CUgraphEdgeData **edges, size_t *count)
{
	if (edges)
		*edges = NULL;
	return sim_capture_info_v2(stream, status, id, graph, deps, count);
}
#endif

CUresult sim_capture_mode(CUstreamCaptureMode *mode)
{
	struct sim_thread *thread = sim_thread();
	CUstreamCaptureMode before = thread->mode;

	if (!mode || !known_mode(*mode))
		return CUDA_ERROR_INVALID_VALUE;
	thread->mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

bool sim_capture_keep(struct sim_stream *stream,
		      const struct sim_region *region)
{
	return sim_graph_keep(stream->capture->graph, region);
}
