#include "tests/sim/graph.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/bodies.h"
#include "tests/sim/engine.h"
#include "tests/sim/event.h"
#include "tests/sim/graph_memory.h"

struct sim_graph *sim_graph_new(void)
{
	struct sim_graph *graph = calloc(1, sizeof(*graph));

	if (graph)
		graph->refs = 1;
	return graph;
}

void sim_graph_ref(struct sim_graph *graph)
{
	graph->refs++;
}

static void node_free(struct sim_node *node)
{
	sim_work_drop(&node->work);
	free(node->deps);
	free(node);
}

void sim_graph_unref(struct sim_graph *graph)
{
	if (--graph->refs)
		return;
	for (size_t i = 0; i < graph->count; i++)
		node_free(graph->nodes[i]);
	sim_graph_memory_drop(graph);
	free(graph->nodes);
	free(graph);
}

struct sim_node *sim_graph_add(struct sim_graph *graph, struct sim_work *work,
			       struct sim_node *const *deps, size_t dep_count)
{
	struct sim_node **more =
		realloc(graph->nodes, (graph->count + 1) * sizeof(*more));
	struct sim_node *node;

	if (!more)
		return NULL;
	graph->nodes = more;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	node->deps = calloc(dep_count + 1, sizeof(*node->deps));
	if (!node->deps) {
		free(node);
		return NULL;
	}
	if (dep_count)
		memcpy(node->deps, deps, dep_count * sizeof(*deps));
	node->dep_count = dep_count;
	node->number = graph->count;
	node->work = *work;
	graph->nodes[graph->count++] = node;
	return node;
}

bool sim_node_before(const struct sim_node *node, struct sim_node *const *from,
		     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (from[i] == node)
			return true;
		if (from[i]->number > node->number &&
		    sim_node_before(node, from[i]->deps, from[i]->dep_count))
			return true;
	}
	return false;
}

CUresult sim_exec_run(const struct sim_exec *exec, struct sim_ctx *ctx,
		      CUstream stream)
{
	CUresult err = CUDA_SUCCESS;

	for (size_t i = 0; i < exec->count && !err; i++)
		err = sim_work_run(ctx, stream, &exec->nodes[i]->work);
	return err;
}

/* ---- instances ------------------------------------------------------------ */

void sim_exec_unref(struct sim_exec *exec)
{
	if (--exec->refs)
		return;
	sim_graph_unref(exec->graph);
	free(exec->nodes);
	free(exec);
}

/* The longest way through the nodes, us. False: no host memory. */
static bool longest(struct sim_exec *exec)
{
	uint64_t *end = calloc(exec->count + 1, sizeof(*end));

	if (!end)
		return false;
	for (size_t i = 0; i < exec->count; i++) {
		struct sim_node *node = exec->nodes[i];

		for (size_t j = 0; j < node->dep_count; j++)
			if (end[node->deps[j]->number] > end[i])
				end[i] = end[node->deps[j]->number];
		end[i] += node->work.us;
		if (end[i] > exec->us)
			exec->us = end[i];
		exec->has_host |= sim_work_is_host(&node->work);
	}
	free(end);
	return true;
}

/* locked */
static struct sim_exec *instantiate(struct sim_graph *graph)
{
	struct sim_exec *exec = calloc(1, sizeof(*exec));

	if (!exec)
		return NULL;
	exec->refs = 1;
	exec->graph = graph;
	exec->count = graph->count;
	exec->nodes = calloc(graph->count + 1, sizeof(*exec->nodes));
	sim_graph_ref(graph);
	if (exec->nodes) {
		if (graph->count)
			memcpy(exec->nodes, graph->nodes,
			       graph->count * sizeof(*exec->nodes));
		if (longest(exec))
			return exec;
	}
	sim_exec_unref(exec);
	return NULL;
}

struct sim_graph *sim_graph_of(CUgraph handle)
{
	struct sim_graph *graph = (struct sim_graph *)(void *)handle;

	return sim_handle_is(SIM_K_GRAPH, graph) ? graph : NULL;
}

CUresult sim_graph_instantiate_flags(CUgraphExec *out, CUgraph handle,
				     unsigned long long flags)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_graph *graph;
	struct sim_exec *exec;

	/* Other flags say where it is launched from, and with what priority. */
	sim_lock();
	graph = sim_graph_of(handle);
	if (graph && out && !(graph->has_memory && graph->num_execs)) {
		exec = instantiate(graph);
		err = exec ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		if (exec) {
			exec->auto_free =
				flags &
				CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
			graph->num_execs++;
			sim_handle_add(SIM_K_EXEC, exec);
			*out = (CUgraphExec)(void *)exec;
		}
	}
	sim_unlock();
	return err;
}

CUresult sim_graph_instantiate(CUgraphExec *out, CUgraph graph,
			       CUgraphNode *bad, char *log, size_t bytes)
{
	if (bad)
		*bad = NULL;
	if (log && bytes)
		*log = 0;
	return sim_graph_instantiate_flags(out, graph, 0);
}

static void forget_last(struct sim_exec *exec)
{
	if (exec->last)
		sim_op_unref(exec->last);
	exec->last = NULL;
}

/* Launches of one instance follow one another. */
static CUresult behind_last(struct sim_exec *exec, struct sim_stream *stream)
{
	struct sim_work wait = {
		.kind = SIM_W_WAIT, .awaited = exec->last, .program = true};

	if (!exec->last || exec->last->state == SIM_DONE ||
	    exec->last->stream == stream || stream->capture)
		return CUDA_SUCCESS;
	sim_op_ref(exec->last);
	return sim_submit(stream, &wait, NULL);
}

CUresult sim_graph_upload(CUgraphExec handle, CUstream hstream)
{
	struct sim_work mark = {.kind = SIM_W_MARK};
	struct sim_exec *exec = (struct sim_exec *)(void *)handle;
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *stream;

	sim_lock();
	stream = sim_stream_of(hstream);
	if (stream && sim_handle_is(SIM_K_EXEC, exec))
		err = behind_last(exec, stream);
	if (!err)
		err = sim_graph_map(exec->graph, stream);
	if (!err)
		err = sim_submit(stream, &mark, NULL);
	sim_unlock();
	return err;
}

#if CUDA_VERSION >= 12000
CUresult sim_graph_instantiate_params(CUgraphExec *out, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult err;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	params->hErrNode_out = NULL;
	err = sim_graph_instantiate_flags(out, graph, params->flags);
	params->result_out = err ? CUDA_GRAPH_INSTANTIATE_ERROR
				 : CUDA_GRAPH_INSTANTIATE_SUCCESS;
	if (!err && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		err = sim_graph_upload(*out, params->hUploadStream);
	return err;
}
#endif

/* The events that its nodes record are complete with all of it: the program may
 * not count on less. */
static void records(const struct sim_exec *exec, struct sim_op *op)
{
	for (size_t i = 0; i < exec->count; i++) {
		struct sim_event *event = exec->nodes[i]->work.event;

		if (sim_handle_is(SIM_K_EVENT, event))
			sim_event_is(event, op);
	}
}

static CUresult launch(struct sim_exec *exec, struct sim_stream *stream)
{
	struct sim_work work = {.kind = SIM_W_GRAPH, .us = exec->us};
	struct sim_op *op = NULL;
	CUresult err = behind_last(exec, stream);

	if (!err)
		err = sim_graph_begin(exec->graph, stream, exec->auto_free,
				      &work.run);
	if (err)
		return err;
	work.exec = exec;
	exec->refs += 2; /* the work's, and ours */
	err = sim_submit(stream, &work, &op);
	if (err)
		sim_graph_cancel(exec->graph);
	if (op) {
		records(exec, op);
		forget_last(exec);
		exec->last = op;
	}
	sim_exec_unref(exec);
	return err;
}

CUresult sim_graph_launch(CUgraphExec handle, CUstream hstream)
{
	struct sim_exec *exec = (struct sim_exec *)(void *)handle;
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *stream;

	sim_lock();
	stream = sim_stream_of(hstream);
	if (stream && sim.settings.launch_us) {
		stream->launching++;
		sim_unlock();
		usleep((useconds_t)sim.settings.launch_us);
		sim_lock();
		stream->launching--;
	}
	if (stream && sim_handle_is(SIM_K_EXEC, exec))
		err = launch(exec, stream);
	sim_unlock();
	return err;
}

CUresult sim_exec_destroy(CUgraphExec handle)
{
	struct sim_exec *exec = (struct sim_exec *)(void *)handle;
	bool known;

	sim_lock();
	known = sim_handle_is(SIM_K_EXEC, exec);
	if (known) {
		sim_handle_remove(exec);
		exec->graph->num_execs--;
		forget_last(exec);
		sim_exec_unref(exec);
	}
	sim_unlock();
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- graphs ---------------------------------------------------------------- */

CUresult sim_graph_create(CUgraph *out, unsigned flags)
{
	struct sim_graph *graph;

	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	graph = sim_graph_new();
	if (graph) {
		sim_handle_add(SIM_K_GRAPH, graph);
		*out = (CUgraph)(void *)graph;
	}
	sim_unlock();
	return graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_graph_destroy(CUgraph handle)
{
	struct sim_graph *graph;

	sim_lock();
	graph = sim_graph_of(handle);
	if (graph) {
		sim_handle_remove(graph);
		sim_graph_unref(graph);
	}
	sim_unlock();
	return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
