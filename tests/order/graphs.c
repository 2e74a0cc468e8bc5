/* Captures, and launching what they made. */
#include "tests/order/world.h"

/* A stream of the program's making for a capture; -1: none. */
static int capturable(int but)
{
	unsigned from = draw(MAX_STREAMS);

	for (unsigned i = 0; i < MAX_STREAMS; i++) {
		int at =
			(int)(here() * STREAM_SLOTS + (from + i) % MAX_STREAMS);
		const struct stream *s = &w.stream[at];

		if (at == but || !s->alive || s->calls || s->capturing)
			continue;
		if (s->blocking && (w.stream[legacy_of(0)].calls ||
				    w.stream[legacy_of(1)].calls))
			continue;
		return at;
	}
	return -1;
}

static void set_capturing(int stream, bool on)
{
	w.stream[stream].capturing = on;
	if (w.stream[stream].blocking)
		w.blocking_captures += on ? 1 : -1u;
}

/* Put a node or two for one allocation into the capture. */
static void add_nodes(struct exec *exec, int stream)
{
	int mem = any_mem(false);
	CUstream handle = w.stream[stream].handle;
	uint32_t value = draw(UINT32_MAX);
	CUdeviceptr at;
	uint64_t words;

	if (mem < 0 || exec->n == EXEC_MEMS)
		return;
	for (unsigned i = 0; i < exec->n; i++)
		if (exec->write[i].mem == mem)
			return;
	w.mem[mem].busy = true;
	choose_words(&w.mem[mem], &at, &words);
	begin(GPUSIM_WORKS);
	if (draw(2))
		end(launch_words(w.context[here()].fill, handle, at, value,
				 words),
		    "a captured kernel");
	else
		end(cuMemsetD32Async(at, value, words, handle),
		    "a captured set");
	if (draw(2)) {
		begin(GPUSIM_WORKS);
		end(launch_words(w.context[here()].expect, handle, at, value,
				 words),
		    "a captured kernel");
	}
	w.mem[mem].execs++;
	w.mem[mem].busy = false;
	exec->write[exec->n].mem = mem;
	exec->write[exec->n].at = at;
	exec->write[exec->n].words = words;
	exec->write[exec->n].value = value;
	exec->n++;
}

/* Another stream joins, does something, and comes back. */
static void fork_and_join(struct exec *exec, int origin)
{
	int branch = capturable(origin), e = any_event(false);
	CUevent event;

	if (branch < 0 || e < 0)
		return;
	w.event[e].busy = true;
	w.event[e].recorded = false;
	event = w.event[e].handle;
	set_capturing(branch, true);
	begin(GPUSIM_WORKS);
	end(cuEventRecord(event, w.stream[origin].handle), "a captured record");
	begin(GPUSIM_WORKS);
	end(cuStreamWaitEvent(w.stream[branch].handle, event, 0),
	    "a captured wait");
	add_nodes(exec, branch);
	begin(GPUSIM_WORKS);
	end(cuEventRecord(event, w.stream[branch].handle), "a captured record");
	begin(GPUSIM_WORKS);
	end(cuStreamWaitEvent(w.stream[origin].handle, event, 0),
	    "a captured wait");
	/* It stays in the capture until that ends. */
	exec->write[EXEC_MEMS - 1].mem = branch;
	w.event[e].busy = false;
}

static void unuse(struct exec *exec)
{
	for (unsigned i = 0; i < exec->n; i++)
		w.mem[exec->write[i].mem].execs--;
	*exec = (struct exec){0};
}

void op_capture(void)
{
	CUstreamCaptureMode mode =
		draw(3) ? CU_STREAM_CAPTURE_MODE_RELAXED
			: CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	int origin = capturable(-1), branch = -1, i = 0;
	struct exec *exec;
	CUgraph graph;

	while (i < MAX_EXECS && (w.exec[i].handle || w.exec[i].busy))
		i++;
	if (i == MAX_EXECS || origin < 0 || w.ctx_waits || w.captures == 2)
		return;
	exec = &w.exec[i];
	exec->busy = true;
	exec->context = here();
	w.captures++;
	set_capturing(origin, true);
	begin(GPUSIM_WORKS);
	end(cuStreamBeginCapture(w.stream[origin].handle, mode),
	    "cuStreamBeginCapture");
	for (unsigned n = draw(4); n; n--) {
		add_nodes(exec, origin);
		if (draw(3) == 0 && branch < 0 && exec->n < EXEC_MEMS - 1) {
			exec->write[EXEC_MEMS - 1].mem = -1;
			fork_and_join(exec, origin);
			branch = exec->write[EXEC_MEMS - 1].mem;
			if (branch >= 0)
				break;
		}
		if (mode == CU_STREAM_CAPTURE_MODE_RELAXED && draw(2))
			operate(true);
	}
	begin(GPUSIM_WORKS);
	end(cuStreamEndCapture(w.stream[origin].handle, &graph),
	    "cuStreamEndCapture");
	set_capturing(origin, false);
	if (branch >= 0)
		set_capturing(branch, false);
	w.captures--;
	w.captured = moment();
	begin(GPUSIM_WORKS);
	end(cuGraphInstantiateWithFlags(&exec->handle, graph, 0),
	    "cuGraphInstantiate");
	begin(GPUSIM_WORKS);
	end(cuGraphDestroy(graph), "cuGraphDestroy");
	exec->busy = false;
}

static bool hold_mems(const struct exec *exec)
{
	for (unsigned i = 0; i < exec->n; i++)
		if (w.mem[exec->write[i].mem].busy)
			return false;
	for (unsigned i = 0; i < exec->n; i++)
		w.mem[exec->write[i].mem].busy = true;
	return true;
}

static void let_mems(const struct exec *exec)
{
	for (unsigned i = 0; i < exec->n; i++)
		w.mem[exec->write[i].mem].busy = false;
}

static bool order_mems(const struct exec *exec, int stream)
{
	for (unsigned i = 0; i < exec->n; i++)
		if (!order_mem(exec->write[i].mem, stream))
			return false;
	return true;
}

void op_launch_graph(void)
{
	struct exec *exec = &w.exec[draw(MAX_EXECS)];
	int stream = any_stream();

	if (!exec->handle || exec->busy || exec->context != here() ||
	    !hold_mems(exec))
		return;
	exec->busy = true;
	hold_stream(stream);
	if (order_mems(exec, stream)) {
		begin(GPUSIM_WORKS);
		end(cuGraphLaunch(exec->handle, handle_of(stream)),
		    "cuGraphLaunch");
		for (unsigned i = 0; i < exec->n; i++) {
			struct mem *m = &w.mem[exec->write[i].mem];

			m->filled = true;
			m->at = exec->write[i].at;
			m->words = exec->write[i].words;
			m->value = exec->write[i].value;
			used_mem(exec->write[i].mem, stream);
		}
	}
	let_mems(exec);
	let_stream(stream);
	exec->busy = false;
}

bool drop_execs_of(int mem)
{
	for (int i = 0; i < MAX_EXECS && w.mem[mem].execs; i++) {
		struct exec *exec = &w.exec[i];
		bool uses = false;

		for (unsigned j = 0; j < exec->n; j++)
			uses |= exec->write[j].mem == mem;
		if (!uses || exec->busy || !exec->handle)
			continue;
		exec->busy = true;
		begin(GPUSIM_WORKS);
		end(cuGraphExecDestroy(exec->handle), "cuGraphExecDestroy");
		unuse(exec);
	}
	return !w.mem[mem].execs;
}
