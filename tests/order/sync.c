/* Streams, events, and waiting for them. */
#include "tests/order/world.h"

void op_stream_create(void)
{
	CUstream handle;
	CUresult rc;
	unsigned i = here() * STREAM_SLOTS, end_of = i + w.streams;
	bool blocking = draw(2);

	while (i < end_of && (w.stream[i].alive || w.stream[i].calls))
		i++;
	/* The oracle counts every stream there ever was. */
	if (i == end_of || w.serials > 300)
		return;
	w.stream[i].calls++;
	begin(GPUSIM_WORKS);
	rc = cuStreamCreate(&handle, blocking ? CU_STREAM_DEFAULT
					      : CU_STREAM_NON_BLOCKING);
	end(rc, "cuStreamCreate");
	w.stream[i] = (struct stream){.handle = handle,
				      .alive = true,
				      .blocking = blocking,
				      .serial = ++w.serials,
				      .last = moment()};
}

/* A stream of the program's making that nobody uses now; -1: none. */
static int any_quiet(void)
{
	unsigned from = draw(MAX_STREAMS);

	for (unsigned i = 0; i < MAX_STREAMS; i++) {
		unsigned at = here() * STREAM_SLOTS + (from + i) % MAX_STREAMS;

		if (w.stream[at].alive && !w.stream[at].calls &&
		    !w.stream[at].capturing)
			return (int)at;
	}
	return -1;
}

void op_stream_destroy(void)
{
	int i = any_quiet();

	if (i < 0)
		return;
	w.stream[i].alive = false;
	w.stream[i].calls++;
	w.stream[i].serial = ++w.serials; /* nobody's home any more */
	begin(GPUSIM_WORKS);
	end(cuStreamDestroy(w.stream[i].handle), "cuStreamDestroy");
	w.stream[i].calls--;
}

void op_record(void)
{
	int stream = any_stream(), e = any_event(false);
	struct event *event;

	if (e < 0)
		return;
	event = &w.event[e];
	event->busy = true;
	hold_stream(stream);
	begin(GPUSIM_WORKS);
	end(cuEventRecord(event->handle, handle_of(stream)), "cuEventRecord");
	let_stream(stream);
	event->recorded = true;
	event->moment = moment();
	event->busy = false;
}

void op_wait(void)
{
	unsigned of = w.contexts > 1 ? draw(w.contexts) : 0;
	int stream = any_stream(), e = any_event_of(of, true);

	if (e < 0)
		return;
	w.event[e].busy = true;
	hold_stream(stream);
	begin(GPUSIM_WORKS);
	end(cuStreamWaitEvent(handle_of(stream), w.event[e].handle, 0),
	    "cuStreamWaitEvent");
	let_stream(stream);
	w.event[e].busy = false;
}

void op_event_sync(void)
{
	int e = any_event(true);

	if (e < 0)
		return;
	w.event[e].busy = true;
	begin(GPUSIM_WAITS);
	end(cuEventSynchronize(w.event[e].handle), "cuEventSynchronize");
	w.event[e].busy = false;
}

/* What this thread's last free stood behind is over. */
static bool covered(uint64_t at)
{
	return at && at <= w.own_free[here()][threads_self()];
}

/* A question that may be answered "not yet", unless a free said more. */
static void answer(CUresult rc, bool must, const char *what)
{
	if (rc == CUDA_ERROR_NOT_READY && !must)
		rc = CUDA_SUCCESS;
	end(rc, what);
}

static void ask_elapsed(int e)
{
	int other = ((int)draw(MAX_EVENTS) & ~1) + (int)here() * MAX_EVENTS;
	struct event *a = &w.event[e], *b = &w.event[other];
	float ms;

	if (e & 1 || b->busy || !b->recorded)
		return;
	b->busy = true;
	begin(GPUSIM_WORKS);
	answer(cuEventElapsedTime(&ms, a->handle, b->handle),
	       covered(a->moment) && covered(b->moment), "cuEventElapsedTime");
	b->busy = false;
}

void op_event_query(void)
{
	int e = any_event(true);

	if (e < 0)
		return;
	w.event[e].busy = true;
	begin(GPUSIM_WORKS);
	answer(cuEventQuery(w.event[e].handle), covered(w.event[e].moment),
	       "cuEventQuery");
	ask_elapsed(e);
	w.event[e].busy = false;
}

/* Work that the stream got before can be taken for complete. */
static void settled(int stream, uint64_t before)
{
	for (int i = 0; i < ALL_MEMS; i++) {
		struct mem *m = &w.mem[i];

		if (m->va && !m->busy && m->home == stream &&
		    m->home_serial == w.stream[stream].serial &&
		    m->used <= before)
			m->home = NOWHERE;
	}
}

void op_stream_sync(void)
{
	int stream = any_stream();
	uint64_t before = moment();

	w.stream[stream].calls++;
	begin(GPUSIM_WAITS);
	end(cuStreamSynchronize(handle_of(stream)), "cuStreamSynchronize");
	settled(stream, before);
	w.stream[stream].calls--;
}

void op_stream_query(void)
{
	int stream = any_stream();
	uint64_t before = moment();
	const struct stream *s = &w.stream[stream];
	bool quiet = !s->calls && covered(s->last);
	CUresult rc;

	/* Another thread may give it work meanwhile; the default stream is
	 * behind all blocking ones. */
	if (w.threads > 1 || is_legacy(stream))
		quiet = false;
	w.stream[stream].calls++;
	begin(GPUSIM_WORKS);
	rc = cuStreamQuery(handle_of(stream));
	answer(rc, quiet, "cuStreamQuery");
	if (!rc)
		settled(stream, before);
	w.stream[stream].calls--;
}

void op_ctx_sync(void)
{
	uint64_t before = moment();

	if (w.captures) /* it would break them */
		return;
	w.ctx_waits++;
	begin(GPUSIM_WAITS);
	end(cuCtxSynchronize(), "cuCtxSynchronize");
	w.ctx_waits--;
	for (int i = 0; i < ALL_MEMS; i++)
		if (w.mem[i].va && !w.mem[i].busy &&
		    w.mem[i].waits >> here() & 1 && w.mem[i].used <= before)
			w.mem[i].home = NOWHERE;
	look_at_pins(here(), before);
}

/* One stream waits for what another writes later: whoever orders the second
 * behind the first has a deadlock. */
void op_values(void)
{
	int a = (int)draw(w.streams), b = (int)draw(w.streams);
	unsigned of = here(), other = w.contexts > 1 ? draw(w.contexts) : 0;
	uint32_t value = ++w.flags;
	/* One word each, as they need not be written in this order. */
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)&w.flag[1 + value % FLAGS];

	a += (int)of * STREAM_SLOTS;
	b += (int)other * STREAM_SLOTS;
	/* A free by another thread would wait for the first and hold up the
	 * second: none is in an operation, nor begins one meanwhile. */
	if (w.inside > 1 || a == b || !w.stream[a].alive ||
	    !w.stream[b].alive || w.stream[a].capturing ||
	    w.stream[b].capturing)
		return;
	hold_stream(a);
	hold_stream(b);
	threads_keep(true);
	w.half = true;
	begin(GPUSIM_WORKS);
	end(cuStreamWaitValue32(w.stream[a].handle, at, value,
				CU_STREAM_WAIT_VALUE_GEQ),
	    "cuStreamWaitValue32");
	if (other != of)
		go_to(other);
	begin(GPUSIM_WORKS);
	end(cuStreamWriteValue32(w.stream[b].handle, at, value, 0),
	    "cuStreamWriteValue32");
	if (other != of)
		go_to(of);
	w.half = false;
	threads_keep(false);
	let_stream(b);
	let_stream(a);
}

static void count(void *at)
{
	__atomic_add_fetch((uint32_t *)at, 1, __ATOMIC_RELAXED);
}

void op_host_function(void)
{
	int stream = any_stream();

	hold_stream(stream);
	begin(GPUSIM_WORKS);
	end(cuLaunchHostFunc(handle_of(stream), count, &w.flag[0]),
	    "cuLaunchHostFunc");
	let_stream(stream);
}
