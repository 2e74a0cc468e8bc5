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

int any_mem(bool filled)
{
	unsigned from = draw(MAX_MEMS);

	for (unsigned i = 0; i < MAX_MEMS; i++) {
		unsigned at = (from + i) % MAX_MEMS;
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
	if (i >= PER_THREAD)
		return i - PER_THREAD == threads_self();
	/* The default stream would break the capture of a blocking one. */
	return i != LEGACY || !w.blocking_captures;
}

int any_stream(void)
{
	unsigned from = draw(STREAM_SLOTS);
	int own = PER_THREAD + threads_self();

	if (draw(8) == 0 && usable(LEGACY))
		return LEGACY;
	if (draw(8) == 0 && usable(own))
		return own;
	for (unsigned i = 0; i < STREAM_SLOTS; i++) {
		int at = (int)((from + i) % STREAM_SLOTS);

		if (at < LEGACY && usable(at))
			return at;
	}
	return own;
}

int any_event(bool recorded)
{
	unsigned from = draw(MAX_EVENTS);

	for (unsigned i = 0; i < MAX_EVENTS; i++) {
		unsigned at = (from + i) % MAX_EVENTS;

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
	if (stream >= PER_THREAD)
		return CU_STREAM_PER_THREAD;
	if (stream == LEGACY)
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
	return stream >= PER_THREAD || w.stream[stream].blocking;
}

static bool ordered_by_rules(int from, int to)
{
	return (from == LEGACY && goes_with_legacy(to)) ||
	       (to == LEGACY && goes_with_legacy(from));
}

static bool in_order(const struct mem *m, int stream)
{
	if (m->home == NOWHERE)
		return true;
	if (m->home == stream && m->home_serial == w.stream[stream].serial)
		return true;
	if (m->used <= w.barrier)
		return true;
	return w.stream[m->home].serial == m->home_serial &&
	       ordered_by_rules(m->home, stream);
}

bool order_mem(int mem, int stream)
{
	struct mem *m = &w.mem[mem];
	int home = m->home, e;
	CUresult rc;

	if (in_order(m, stream))
		return true;
	if (w.stream[home].serial != m->home_serial || !usable(home))
		return false; /* it cannot be named any more, or not here */
	e = any_event(false);
	if (e < 0)
		return false;
	w.event[e].busy = true;
	hold_stream(home);
	begin(GPUSIM_WORKS);
	rc = cuEventRecord(w.event[e].handle, handle_of(home));
	end(rc, "cuEventRecord");
	let_stream(home);
	w.event[e].recorded = true;
	w.event[e].moment = moment();
	begin(GPUSIM_WORKS);
	rc = cuStreamWaitEvent(handle_of(stream), w.event[e].handle, 0);
	end(rc, "cuStreamWaitEvent");
	w.event[e].busy = false;
	return true;
}

void used_mem(int mem, int stream)
{
	struct mem *m = &w.mem[mem];

	m->home = stream;
	m->home_serial = w.stream[stream].serial;
	m->used = moment();
}

void look_at_pins(uint64_t until)
{
	for (int i = 0; i < MAX_PINS; i++) {
		struct pin *p = &w.pin[i];

		if (p->state == PIN_IDLE || p->busy || p->moment > until)
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

static void start_events(void)
{
	for (int i = 0; i < MAX_EVENTS; i++) {
		need(cuEventCreate(&w.event[i].handle,
				   i % 2 ? CU_EVENT_DISABLE_TIMING
					 : CU_EVENT_DEFAULT),
		     "cuEventCreate");
		gpusim_own_event(w.event[i].handle);
	}
}

void world_start(void)
{
	CUmodule module;
	CUdeviceptr va;

	need(cuInit(0), "cuInit");
	need(cuDevicePrimaryCtxRetain(&w.ctx, 0), "cuDevicePrimaryCtxRetain");
	need(cuCtxSetCurrent(w.ctx), "cuCtxSetCurrent");
	need(cuModuleLoadData(&module, "any"), "cuModuleLoadData");
	w.fill = function(module, "fill32");
	w.add = function(module, "add32");
	w.copy = function(module, "copy32");
	w.expect = function(module, "expect32");
	for (int i = 0; i < MAX_PINS; i++)
		need(cuMemHostAlloc((void **)&w.pin[i].at, 4 * PIN_WORDS, 0),
		     "cuMemHostAlloc");
	need(cuMemHostAlloc((void **)&w.flag, 4 * (FLAGS + 1), 0),
	     "cuMemHostAlloc");
	start_events();
	/* Whatever happens once only happens before threads take turns. */
	begin(GPUSIM_ALLOCATES);
	end(cuMemAlloc(&va, 4096), "cuMemAlloc");
	begin(GPUSIM_WORKS);
	end(launch_words(w.fill, NULL, va, 1, 16), "cuLaunchKernel");
	begin(w.own == 4 ? GPUSIM_FREES_OWN : GPUSIM_FREES);
	end(cuMemFree(va), "cuMemFree");
	w.stream[LEGACY].alive = true;
	w.stream[LEGACY].blocking = true;
	for (unsigned i = 0; i < w.threads; i++)
		w.stream[PER_THREAD + i] =
			(struct stream){.alive = true, .blocking = true};
	for (unsigned i = 0; i < STREAM_SLOTS; i++)
		w.stream[i].serial = ++w.serials;
	gpusim_on_wait(threads_yield);
}

void world_end(void)
{
	gpusim_on_wait(NULL);
	for (int i = 0; i < MAX_MEMS; i++)
		if (w.mem[i].va)
			free_mem(i);
	begin(GPUSIM_WAITS);
	end(cuCtxSynchronize(), "cuCtxSynchronize at the end");
	look_at_pins(UINT64_MAX);
}
