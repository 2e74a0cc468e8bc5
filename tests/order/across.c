/*
 * What reaches the memory of the other context: copies, which are work of both,
 * and where that is a peer's, kernels and sets, which are not (tests/sim/visit.c
 * has the facts).
 */
#include "tests/order/world.h"

/* Asked for only where a free in the destination's context waits for what
 * writes there. */
static bool reaches(unsigned to)
{
	return w.same_card || to == here() || w.began >> here() & 1;
}

/* Contexts whose frees wait for a copy in the stream, a bit each. NOWHERE is
 * the host. */
static unsigned waiting(int stream, int to, int from)
{
	unsigned self = context_of_stream(stream), bits = 1u << self;

	if (from != NOWHERE)
		bits |= 1u << context_of_mem(from);
	if (to != NOWHERE &&
	    (is_legacy(stream) || from == NOWHERE ||
	     context_of_mem(from) != self || !reaches(context_of_mem(to))))
		bits |= 1u << context_of_mem(to);
	return bits;
}

/* Contexts in whose legacy streams it is. */
static unsigned defaults(int stream, int to, int from)
{
	unsigned bits = 1u << context_of_stream(stream);

	if (!is_legacy(stream))
		return 0;
	if (from != NOWHERE)
		bits |= 1u << context_of_mem(from);
	if (to != NOWHERE)
		bits |= 1u << context_of_mem(to);
	return bits;
}

/* Memory of any context, marked busy; -1: none. Copies of what the driver serves
 * are not known to the pools. */
static int take_mem(unsigned context, bool filled)
{
	int mem = any_mem_of(context, filled);

	if (mem >= 0 && w.mem[mem].drivers)
		return -1;
	if (mem >= 0)
		w.mem[mem].busy = true;
	return mem;
}

static void let_mem(int mem)
{
	w.mem[mem].busy = false;
}

static CUresult put(CUdeviceptr at, int to, CUdeviceptr src, int from,
		    size_t bytes, int stream)
{
	CUcontext there = w.context[context_of_mem(to)].handle;
	CUcontext origin = w.context[context_of_mem(from)].handle;

	switch (draw(is_legacy(stream) ? 5 : 3)) {
	case 0:
		return cuMemcpyDtoDAsync(at, src, bytes, handle_of(stream));
	case 1:
		return cuMemcpyAsync(at, src, bytes, handle_of(stream));
	case 2:
		return cuMemcpyPeerAsync(at, there, src, origin, bytes,
					 handle_of(stream));
	case 3:
		return cuMemcpyDtoD(at, src, bytes);
	default:
		return cuMemcpyPeer(at, there, src, origin, bytes);
	}
}

static void copy(int to, int from, int stream)
{
	unsigned in = defaults(stream, to, from);
	const struct mem *m = &w.mem[from];
	CUdeviceptr at;
	uint64_t words;

	if (!order_mem_in(from, stream, in) || !order_mem_in(to, stream, in))
		return;
	choose_words(&w.mem[to], &at, &words);
	if (words > m->words)
		words = m->words;
	begin(GPUSIM_WORKS);
	end(put(at, to, m->at, from, 4 * words, stream),
	    "a copy between contexts");
	filled_with(&w.mem[to], at, words, m->value);
	used_mem_in(to, stream, waiting(stream, to, from), in);
	used_mem_in(from, stream, waiting(stream, to, from), in);
}

/* Between the contexts, or in the other one. */
void op_across(void)
{
	unsigned other = 1 - here();
	unsigned source = draw(2) ? other : here();
	unsigned target = source == other && draw(4) ? here() : other;
	int stream = any_stream(), from, to;

	/* Before peer access or after: the oracle asks for one of the two. */
	if (w.enabling)
		return;
	from = take_mem(source, true);
	if (from < 0)
		return;
	w.crossing++;
	to = take_mem(target, false);
	if (to >= 0) {
		hold_stream(stream);
		copy(to, from, stream);
		let_stream(stream);
		let_mem(to);
	}
	w.crossing--;
	let_mem(from);
}

/* ---- the host and the other's memory -------------------------------------------------- */

static void to_host(struct pin *p, int mem, int stream)
{
	struct mem *m = &w.mem[mem];

	p->words = m->words > PIN_WORDS ? PIN_WORDS : (uint32_t)m->words;
	p->value = m->value;
	begin(GPUSIM_WORKS);
	end(cuMemcpyDtoHAsync(p->at, m->at, 4 * (size_t)p->words,
			      handle_of(stream)),
	    "cuMemcpyDtoHAsync");
	p->state = PIN_TO_HOST;
	p->waits = waiting(stream, NOWHERE, mem);
	used_mem_in(mem, stream, p->waits, defaults(stream, NOWHERE, mem));
}

static void from_host(struct pin *p, int mem, int stream)
{
	struct mem *m = &w.mem[mem];
	uint32_t value = draw(UINT32_MAX);
	CUdeviceptr at;
	uint64_t words;

	choose_words(m, &at, &words);
	if (words > PIN_WORDS)
		words = PIN_WORDS;
	for (uint64_t i = 0; i < words; i++)
		p->at[i] = value;
	begin(GPUSIM_WORKS);
	end(cuMemcpyHtoDAsync(at, p->at, 4 * words, handle_of(stream)),
	    "cuMemcpyHtoDAsync");
	p->state = PIN_TO_DEVICE;
	p->words = (uint32_t)words;
	p->waits = waiting(stream, mem, NOWHERE);
	filled_with(m, at, words, value);
	used_mem_in(mem, stream, p->waits, defaults(stream, mem, NOWHERE));
}

void op_across_host(void)
{
	bool reads = draw(2);
	int mem = take_mem(1 - here(), reads), stream = any_stream(), pin;

	if (mem < 0)
		return;
	pin = any_pin();
	if (pin >= 0)
		w.pin[pin].busy = true;
	hold_stream(stream);
	if (pin >= 0 &&
	    order_mem_in(mem, stream, defaults(stream, mem, NOWHERE))) {
		(reads ? to_host : from_host)(&w.pin[pin], mem, stream);
		w.pin[pin].moment = moment();
	}
	if (pin >= 0)
		w.pin[pin].busy = false;
	let_stream(stream);
	let_mem(mem);
}

/* ---- peers ------------------------------------------------------------------------------ */

/* Kernels and sets in the memory of a peer: only this context's streams, waits
 * and frees know of them. */
void op_peer(void)
{
	int stream = any_stream(), mem;
	struct mem *m;

	if (!(w.reach >> here() & 1))
		return;
	mem = take_mem(1 - here(), true);
	if (mem < 0)
		return;
	m = &w.mem[mem];
	hold_stream(stream);
	if (order_mem(mem, stream)) {
		uint32_t value = draw(UINT32_MAX);
		bool looks = draw(2);

		begin(GPUSIM_WORKS);
		if (looks)
			end(launch_words(w.context[here()].expect,
					 handle_of(stream), m->at, m->value,
					 m->words),
			    "a peer's kernel");
		else if (draw(2))
			end(launch_words(w.context[here()].fill,
					 handle_of(stream), m->at, value,
					 m->words),
			    "a peer's kernel");
		else
			end(cuMemsetD32Async(m->at, value, m->words,
					     handle_of(stream)),
			    "a peer's set");
		if (!looks)
			m->value = value;
		used_mem(mem, stream);
	}
	let_stream(stream);
	let_mem(mem);
}

/* Just behind a free, whose order a peer is to know as well. */
void enable_peers(void)
{
	unsigned from = here();

	w.peers_asked = w.enabling = true;
	for (unsigned i = 0; i < w.want_peers; i++) {
		go_to(1 - i);
		op_free();
		go_to(i);
		w.began |= 1u << i;
		begin(GPUSIM_WORKS);
		end(cuCtxEnablePeerAccess(w.context[1 - i].handle, 0),
		    "cuCtxEnablePeerAccess");
		w.reach |= 1u << i;
		for (int n = 0; n < 4; n++)
			op_peer();
	}
	w.enabling = false;
	go_to(from);
}
