/*
 * Captures as the program handles them: begun, ended, asked about.
 */
#include <stdlib.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/graph.h"

static void leave(struct sim_stream *stream)
{
	stream->capture = NULL;
	free(stream->deps);
	stream->deps = NULL;
	stream->dep_count = 0;
}

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
	    !sim_deps_set(&stream->deps, &stream->dep_count, deps, count)) {
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
	sim_list_add(&sim_captures, &capture->link);
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
		   sim_capture_break_blocking(stream->ctx)) {
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
