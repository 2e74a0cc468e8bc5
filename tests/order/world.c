#define _GNU_SOURCE
#include "tests/order/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct world w;

uint32_t draw(uint32_t below)
{
	w.random ^= w.random << 13;
	w.random ^= w.random >> 7;
	w.random ^= w.random << 17;
	return (uint32_t)((w.random >> 32) * below >> 32);
}

uint64_t moment(void)
{
	return ++w.moment;
}

void fail(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "order-fuzz: operation %lu: ", (unsigned long)w.done);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	gpusim_history();
	syscall(SYS_exit_group, GPUSIM_OBJECTS);
	__builtin_unreachable();
}

void begin(enum gpusim_call kind)
{
	gpusim_call_begin(kind);
}

void end(CUresult rc, const char *what)
{
	gpusim_call_end();
	if (rc)
		fail("%s returned %d", what, (int)rc);
}

/* ---- what is at hand -------------------------------------------------------------- */

static __thread unsigned context;

unsigned here(void)
{
	return context;
}

void go_to(unsigned to)
{
	if (cuCtxSetCurrent(w.context[to].handle))
		fail("cuCtxSetCurrent failed");
	context = to;
}

int any_mem(bool filled)
{
	return any_mem_of(here(), filled);
}

int any_mem_of(unsigned of, bool filled)
{
	unsigned from = draw(MAX_MEMS);

	for (unsigned i = 0; i < MAX_MEMS; i++) {
		unsigned at = of * MAX_MEMS + (from + i) % MAX_MEMS;
		const struct mem *m = &w.mem[at];

		if (m->va && !m->busy && (!filled || m->filled))
			return (int)at;
	}
	return -1;
}

static bool usable(int i)
{
	const struct stream *s = &w.stream[i];

	if (!s->alive || s->capturing)
		return false;
	if (i % STREAM_SLOTS >= PER_THREAD)
		return i % STREAM_SLOTS - PER_THREAD == threads_self();
	/* The default stream would break the capture of a blocking one. */
	return !is_legacy(i) || !w.blocking_captures;
}

int any_stream(void)
{
	unsigned from = draw(STREAM_SLOTS);
	int first = (int)here() * STREAM_SLOTS;
	int own = first + PER_THREAD + threads_self();

	if (draw(8) == 0 && usable(first + LEGACY))
		return first + LEGACY;
	if (draw(8) == 0 && usable(own))
		return own;
	for (unsigned i = 0; i < STREAM_SLOTS; i++) {
		int at = (int)((from + i) % STREAM_SLOTS);

		if (at < LEGACY && usable(first + at))
			return first + at;
	}
	return own;
}

int any_event(bool recorded)
{
	return any_event_of(here(), recorded);
}

int any_event_of(unsigned of, bool recorded)
{
	unsigned from = draw(MAX_EVENTS);

	for (unsigned i = 0; i < MAX_EVENTS; i++) {
		unsigned at = of * MAX_EVENTS + (from + i) % MAX_EVENTS;

		if (!w.event[at].busy && (!recorded || w.event[at].recorded))
			return (int)at;
	}
	return -1;
}

int any_pin(void)
{
	for (int i = 0; i < MAX_PINS; i++)
		if (w.pin[i].state == PIN_IDLE && !w.pin[i].busy)
			return i;
	return -1;
}

CUstream handle_of(int stream)
{
	if (stream % STREAM_SLOTS >= PER_THREAD)
		return CU_STREAM_PER_THREAD;
	if (is_legacy(stream))
		return draw(2) ? CU_STREAM_LEGACY : NULL;
	return w.stream[stream].handle;
}

void hold_stream(int stream)
{
	w.stream[stream].calls++;
	w.stream[stream].last = moment();
}

void let_stream(int stream)
{
	w.stream[stream].last = moment();
	w.stream[stream].calls--;
}

/* ---- the program's own order ----------------------------------------------------------- */

static bool goes_with_legacy(int stream)
{
	return w.stream[stream].blocking;
}

/* Does a free that has returned wait for the last use, as the program's do? */
static bool behind_free(const struct mem *m)
{
	for (unsigned i = 0; i < w.contexts; i++)
		if (m->waits >> i & 1 && m->used <= w.barrier[i])
			return true;
	return false;
}

/* The default stream's rules: the use was in one, or what comes will be. */
static bool ordered_by_rules(const struct mem *m, int stream, unsigned defaults)
{
	if (m->defaults >> context_of_stream(stream) & 1 &&
	    goes_with_legacy(stream))
		return true;
	if (m->defaults & defaults)
		return true;
	return defaults >> context_of_stream(m->home) & 1 &&
	       goes_with_legacy(m->home);
}

static bool in_order(const struct mem *m, int stream, unsigned defaults)
{
	if (m->home == NOWHERE)
		return true;
	if (m->home == stream && m->home_serial == w.stream[stream].serial)
		return true;
	if (behind_free(m))
		return true;
	return w.stream[m->home].serial == m->home_serial &&
	       ordered_by_rules(m, stream, defaults);
}

/* An event behind the last use, which is busy then; -1: not to be had. */
static int behind_use(const struct mem *m)
{
	int home = m->home, e;
	unsigned from = here();
	CUresult rc;

	if (w.stream[home].serial != m->home_serial || !usable(home))
		return -1; /* it cannot be named any more, or not here */
	e = any_event_of(context_of_stream(home), false);
	if (e < 0)
		return -1;
	w.event[e].busy = true;
	hold_stream(home);
	if (context_of_stream(home) != from)
		go_to(context_of_stream(home));
	begin(GPUSIM_WORKS);
	rc = cuEventRecord(w.event[e].handle, handle_of(home));
	end(rc, "cuEventRecord");
	if (context_of_stream(home) != from)
		go_to(from);
	let_stream(home);
	w.event[e].recorded = true;
	w.event[e].moment = moment();
	return e;
}

bool order_mem_in(int mem, int stream, unsigned defaults)
{
	const struct mem *m = &w.mem[mem];
	CUresult rc;
	int e;

	if (in_order(m, stream, defaults))
		return true;
	e = behind_use(m);
	if (e < 0)
		return false;
	begin(GPUSIM_WORKS);
	rc = cuStreamWaitEvent(handle_of(stream), w.event[e].handle, 0);
	end(rc, "cuStreamWaitEvent");
	w.event[e].busy = false;
	return true;
}

bool order_mem(int mem, int stream)
{
	unsigned bit = 1u << context_of_stream(stream);

	return order_mem_in(mem, stream, is_legacy(stream) ? bit : 0);
}

bool order_free(int mem)
{
	const struct mem *m = &w.mem[mem];
	int e, stream;

	if (m->home == NOWHERE || m->waits >> context_of_mem(mem) & 1 ||
	    behind_free(m))
		return true;
	stream = any_stream();
	hold_stream(stream);
	e = behind_use(m);
	if (e >= 0 && draw(2)) {
		begin(GPUSIM_WORKS);
		end(cuStreamWaitEvent(handle_of(stream), w.event[e].handle, 0),
		    "cuStreamWaitEvent");
	} else if (e >= 0) {
		begin(GPUSIM_WAITS);
		end(cuEventSynchronize(w.event[e].handle),
		    "cuEventSynchronize");
	}
	if (e >= 0)
		w.event[e].busy = false;
	let_stream(stream);
	return e >= 0;
}

void used_mem(int mem, int stream)
{
	unsigned bit = 1u << context_of_stream(stream);

	used_mem_in(mem, stream, bit, is_legacy(stream) ? bit : 0);
}

void used_mem_in(int mem, int stream, unsigned waits, unsigned defaults)
{
	struct mem *m = &w.mem[mem];

	m->home = stream;
	m->home_serial = w.stream[stream].serial;
	m->used = moment();
	m->waits = waits;
	m->defaults = defaults;
}

void look_at_pins(unsigned of, uint64_t until)
{
	for (int i = 0; i < MAX_PINS; i++) {
		struct pin *p = &w.pin[i];

		if (p->state == PIN_IDLE || p->busy || p->moment > until ||
		    !(p->waits >> of & 1))
			continue;
		if (p->state == PIN_TO_HOST)
			for (uint32_t j = 0; j < p->words; j++)
				if (p->at[j] != p->value)
					fail("the host sees %#x, not %#x, "
					     "that a copy brought",
					     p->at[j], p->value);
		/* A source is overwritten: who still reads it, reads that. */
		for (uint32_t j = 0; j < p->words; j++)
			p->at[j] = 0xbad0bad0u;
		p->state = PIN_IDLE;
	}
}

/* ---- beginning and end --------------------------------------------------------------------- */

static void need(CUresult rc, const char *what)
{
	if (rc)
		fail("%s returned %d at the start", what, (int)rc);
}

static CUfunction function(CUmodule module, const char *name)
{
	CUfunction f;

	need(cuModuleGetFunction(&f, module, name), name);
	return f;
}

static void start_events(unsigned of)
{
	for (unsigned i = 0; i < MAX_EVENTS; i++) {
		struct event *event = &w.event[of * MAX_EVENTS + i];

		need(cuEventCreate(&event->handle,
				   i % 2 ? CU_EVENT_DISABLE_TIMING
					 : CU_EVENT_DEFAULT),
		     "cuEventCreate");
		gpusim_own_event(event->handle);
	}
}

static void start_streams(unsigned of)
{
	struct stream *stream = &w.stream[of * STREAM_SLOTS];

	stream[LEGACY].alive = true;
	stream[LEGACY].blocking = true;
	for (unsigned i = 0; i < w.threads; i++)
		stream[PER_THREAD + i] =
			(struct stream){.alive = true, .blocking = true};
	for (unsigned i = 0; i < STREAM_SLOTS; i++)
		stream[i].serial = ++w.serials;
}

/* Whatever happens once only happens before threads take turns. */
static void start_pool(void)
{
	CUdeviceptr va;

	begin(GPUSIM_ALLOCATES);
	end(cuMemAlloc(&va, 4096), "cuMemAlloc");
	begin(GPUSIM_WORKS);
	end(launch_words(w.context[here()].fill, NULL, va, 1, 16),
	    "cuLaunchKernel");
	begin(w.own == 4 ? GPUSIM_FREES_OWN : GPUSIM_FREES);
	end(cuMemFree(va), "cuMemFree");
}

/* The same whatever the headers take the name for. */
extern CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags,
			       CUdevice device);

static void start_context(unsigned i)
{
	struct context *of = &w.context[i];
	CUmodule module;

	if (i && w.same_card)
		need(cuCtxCreate_v2(&of->handle, 0, 0), "cuCtxCreate");
	else
		need(cuDevicePrimaryCtxRetain(&of->handle, (CUdevice)i),
		     "cuDevicePrimaryCtxRetain");
	go_to(i);
	need(cuModuleLoadData(&module, "any"), "cuModuleLoadData");
	of->fill = function(module, "fill32");
	of->add = function(module, "add32");
	of->copy = function(module, "copy32");
	of->expect = function(module, "expect32");
}

static void start_pins(void)
{
	for (int i = 0; i < MAX_PINS; i++)
		need(cuMemHostAlloc((void **)&w.pin[i].at, 4 * PIN_WORDS,
				    CU_MEMHOSTALLOC_PORTABLE),
		     "cuMemHostAlloc");
	need(cuMemHostAlloc((void **)&w.flag, 4 * (FLAGS + 1),
			    CU_MEMHOSTALLOC_PORTABLE),
	     "cuMemHostAlloc");
}

void world_start(void)
{
	need(cuInit(0), "cuInit");
	for (unsigned i = 0; i < w.contexts; i++)
		start_context(i);
	go_to(0);
	start_pins();
	for (unsigned i = 0; i < w.contexts; i++) {
		if (i)
			go_to(i);
		start_events(i);
		start_pool();
		start_streams(i);
	}
	gpusim_on_wait(threads_yield);
}

static void sync_context(void)
{
	begin(GPUSIM_WAITS);
	end(cuCtxSynchronize(), "cuCtxSynchronize at the end");
}

void world_end(void)
{
	gpusim_on_wait(NULL);
	/* What one did in the other's memory, no free there need wait for. */
	for (unsigned i = w.contexts; i-- && w.contexts > 1;) {
		go_to(i);
		sync_context();
	}
	for (int i = 0; i < ALL_MEMS; i++) {
		if (!w.mem[i].va)
			continue;
		if (context_of_mem(i) != here())
			go_to(context_of_mem(i));
		w.mem[i].waits |= 1u << here();
		free_mem(i);
	}
	for (unsigned i = w.contexts; i--;) {
		go_to(i);
		sync_context();
		look_at_pins(i, UINT64_MAX);
	}
}
