/* Kernels, copies, sets. */
#include "tests/order/world.h"

/* What programs built for default streams of threads call. */
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy,
			     unsigned gz, unsigned bx, unsigned by, unsigned bz,
			     unsigned shared, CUstream stream, void **params,
			     void **extra);

CUresult launch_words(CUfunction f, CUstream stream, CUdeviceptr at,
		      uint32_t value, uint64_t words)
{
	void *args[] = {&at, &value, &words};

	if (stream == CU_STREAM_PER_THREAD && draw(2))
		return cuLaunchKernel_ptsz(f, 1, 1, 1, 32, 1, 1, 0, NULL, args,
					   NULL);
	return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL);
}

void choose_words(const struct mem *mem, CUdeviceptr *at, uint64_t *words)
{
	uint64_t all = mem->bytes / 4, n = 1 + draw(512);

	if (draw(64) == 0 || n > all)
		n = all;
	*words = n;
	switch (draw(4)) {
	case 0: /* the last ones */
		*at = mem->va + 4 * (all - n);
		break;
	case 1:
		*at = mem->va + 4 * (uint64_t)draw((uint32_t)(all - n + 1));
		break;
	default:
		*at = mem->va;
	}
}

/* It was not used after all. */
static void leave(int mem, int stream)
{
	w.mem[mem].busy = false;
	let_stream(stream);
}

/* Memory and a stream for it, in order; both are held. */
static bool take(bool filled, int *mem, int *stream)
{
	*mem = any_mem(filled);
	*stream = any_stream();
	if (*mem < 0)
		return false;
	w.mem[*mem].busy = true;
	hold_stream(*stream);
	if (order_mem(*mem, *stream))
		return true;
	leave(*mem, *stream);
	return false;
}

static void give(int mem, int stream)
{
	used_mem(mem, stream);
	leave(mem, stream);
}

void filled_with(struct mem *m, CUdeviceptr at, uint64_t words, uint32_t value)
{
	m->filled = true;
	m->at = at;
	m->words = words;
	m->value = value;
}

void op_fill(void)
{
	uint32_t value = draw(UINT32_MAX);
	int mem, stream;
	CUdeviceptr at;
	uint64_t words;

	if (!take(false, &mem, &stream))
		return;
	choose_words(&w.mem[mem], &at, &words);
	begin(GPUSIM_WORKS);
	end(launch_words(w.context[here()].fill, handle_of(stream), at, value,
			 words),
	    "cuLaunchKernel");
	filled_with(&w.mem[mem], at, words, value);
	give(mem, stream);
}

void op_set(void)
{
	uint32_t value = draw(UINT32_MAX);
	int mem, stream;
	CUdeviceptr at;
	uint64_t words;
	CUresult rc;

	if (!take(false, &mem, &stream))
		return;
	choose_words(&w.mem[mem], &at, &words);
	begin(GPUSIM_WORKS);
	if (is_legacy(stream) && draw(2))
		rc = cuMemsetD32(at, value, words);
	else
		rc = cuMemsetD32Async(at, value, words, handle_of(stream));
	end(rc, "cuMemsetD32");
	filled_with(&w.mem[mem], at, words, value);
	give(mem, stream);
}

void op_expect(void)
{
	int mem, stream;
	struct mem *m;

	if (!take(true, &mem, &stream))
		return;
	m = &w.mem[mem];
	begin(GPUSIM_WORKS);
	end(launch_words(w.context[here()].expect, handle_of(stream), m->at,
			 m->value, m->words),
	    "cuLaunchKernel");
	give(mem, stream);
}

void op_add(void)
{
	uint32_t value = draw(UINT32_MAX);
	int mem, stream;
	struct mem *m;

	if (!take(true, &mem, &stream))
		return;
	m = &w.mem[mem];
	begin(GPUSIM_WORKS);
	end(launch_words(w.context[here()].add, handle_of(stream), m->at, value,
			 m->words),
	    "cuLaunchKernel");
	m->value += value;
	give(mem, stream);
}

/* From one allocation to another: a kernel or a copy does it. */
void op_copy(void)
{
	int from, to = any_mem(false), stream;
	CUdeviceptr at, src;
	uint64_t words;
	CUresult rc;

	if (to < 0)
		return;
	w.mem[to].busy = true;
	if (!take(true, &from, &stream)) {
		w.mem[to].busy = false;
		return;
	}
	if (!order_mem(to, stream)) {
		w.mem[to].busy = false;
		leave(from, stream);
		return;
	}
	choose_words(&w.mem[to], &at, &words);
	if (words > w.mem[from].words)
		words = w.mem[from].words;
	src = w.mem[from].at;
	begin(GPUSIM_WORKS);
	if (draw(2)) {
		void *args[] = {&at, &src, &words};

		rc = cuLaunchKernel(w.context[here()].copy, 1, 1, 1, 1, 1, 1, 0,
				    handle_of(stream), args, NULL);
	} else {
		rc = cuMemcpyDtoDAsync(at, src, 4 * words, handle_of(stream));
	}
	end(rc, "a copy in the device");
	filled_with(&w.mem[to], at, words, w.mem[from].value);
	used_mem(to, stream);
	w.mem[to].busy = false;
	give(from, stream);
}

/* ---- to and from the host ------------------------------------------------------------ */

void op_to_device(void)
{
	uint32_t value = draw(UINT32_MAX);
	int mem, stream, pin = any_pin();
	CUdeviceptr at;
	uint64_t words;
	struct pin *p;

	if (pin < 0 || !take(false, &mem, &stream))
		return;
	p = &w.pin[pin];
	if (p->busy || p->state != PIN_IDLE) { /* gone meanwhile */
		leave(mem, stream);
		return;
	}
	p->busy = true;
	choose_words(&w.mem[mem], &at, &words);
	if (words > PIN_WORDS)
		words = PIN_WORDS;
	for (uint64_t i = 0; i < words; i++)
		p->at[i] = value;
	begin(GPUSIM_WORKS);
	end(cuMemcpyHtoDAsync(at, p->at, 4 * words, handle_of(stream)),
	    "cuMemcpyHtoDAsync");
	p->state = PIN_TO_DEVICE;
	p->words = (uint32_t)words;
	p->moment = moment();
	p->waits = 1u << here();
	p->busy = false;
	filled_with(&w.mem[mem], at, words, value);
	give(mem, stream);
}

void op_to_host(void)
{
	int mem, stream, pin = any_pin();
	struct mem *m;
	struct pin *p;

	if (pin < 0 || !take(true, &mem, &stream))
		return;
	p = &w.pin[pin];
	m = &w.mem[mem];
	if (p->busy || p->state != PIN_IDLE) {
		leave(mem, stream);
		return;
	}
	p->busy = true;
	p->words = m->words > PIN_WORDS ? PIN_WORDS : (uint32_t)m->words;
	p->value = m->value;
	begin(GPUSIM_WORKS);
	end(cuMemcpyDtoHAsync(p->at, m->at, 4 * (size_t)p->words,
			      handle_of(stream)),
	    "cuMemcpyDtoHAsync");
	p->state = PIN_TO_HOST;
	p->moment = moment();
	p->waits = 1u << here();
	p->busy = false;
	give(mem, stream);
}

/* Copies that wait, in the default stream. */
void op_sync_copy(void)
{
	uint32_t host[64];
	int mem = any_mem(true), legacy = legacy_of(here());
	uint64_t words;
	struct mem *m;

	if (mem < 0 || w.blocking_captures)
		return;
	m = &w.mem[mem];
	m->busy = true;
	hold_stream(legacy);
	if (!order_mem(mem, legacy)) {
		let_stream(legacy);
		m->busy = false;
		return;
	}
	words = m->words < 64 ? m->words : 64;
	begin(GPUSIM_WAITS);
	if (draw(2)) {
		end(cuMemcpyDtoH(host, m->at, 4 * words), "cuMemcpyDtoH");
		for (uint64_t i = 0; i < words; i++)
			if (host[i] != m->value)
				fail("a copy brings %#x, not %#x", host[i],
				     m->value);
	} else {
		m->value = draw(UINT32_MAX);
		m->words = words;
		for (uint64_t i = 0; i < words; i++)
			host[i] = m->value;
		end(cuMemcpyHtoD(m->at, host, 4 * words), "cuMemcpyHtoD");
	}
	give(mem, legacy);
}
