/* Allocating and freeing. */
#include "shim/gpupool.h"
#include "tests/order/caller/caller.h"
#include "tests/order/world.h"

static uint64_t random_size(void)
{
	switch (draw(16)) {
	case 0:
		return 1 + draw(8u << 20);
	case 1:
		return 1 + draw(4u << 20);
	case 2:
	case 3:
		return 1 + draw(1u << 20);
	case 4:
	case 5:
	case 6:
		return 1 + draw(64u << 10);
	default: /* many of few sizes, so that they are soon used again */
		return 1024u << draw(5);
	}
}

static CUresult take(CUdeviceptr *va, uint64_t bytes)
{
	/* PyTorch's door leads to a card's primary context. */
	bool primary = !here() || !w.same_card;

	if (w.tight || !gpupool_loaded() || w.done % 2 || !primary)
		return cuMemAlloc(va, bytes);
	*va = (CUdeviceptr)gpupool_torch_alloc((ssize_t)bytes, (int)here(),
					       NULL);
	return *va ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void op_alloc(void)
{
	uint64_t bytes = (random_size() + 63) & ~(uint64_t)63;
	CUdeviceptr va;
	struct mem *m;
	CUresult rc;
	uint64_t before;
	bool captures;
	int i = (int)here() * MAX_MEMS, end_of = i + MAX_MEMS;

	while (i < end_of && (w.mem[i].va || w.mem[i].busy))
		i++;
	if (i == end_of || w.live + bytes > w.most) {
		op_free();
		return;
	}
	m = &w.mem[i];
	m->busy = true;
	w.live += bytes;
	before = moment();
	captures = w.captures;
	begin(GPUSIM_ALLOCATES);
	rc = take(&va, bytes);
	if (rc == CUDA_ERROR_OUT_OF_MEMORY && w.tight) {
		end(CUDA_SUCCESS, "cuMemAlloc");
		w.live -= bytes;
		m->busy = false;
		op_free();
		return;
	}
	end(rc, "cuMemAlloc");
	gpusim_tenant_begin(va, bytes);
	*m = (struct mem){.va = va, .bytes = bytes, .home = NOWHERE};
	m->drivers = captures || w.captures || w.captured > before;
	if (!w.zero)
		return;
	m->filled = true; /* with zeros */
	m->at = va;
	m->words = bytes / 4;
}

/* As PyTorch frees: for the stream that the memory was taken for, others may
 * have used it since. */
static CUresult door_free(const struct mem *m)
{
	bool known = m->home != NOWHERE && context_of_stream(m->home) == here();
	CUstream stream = known ? w.stream[m->home].handle : NULL;

	gpupool_torch_free((void *)m->va, (ssize_t)m->bytes,
			   w.same_card ? 0 : (int)here(), stream);
	return CUDA_SUCCESS;
}

static CUresult own_free(const struct mem *m)
{
	return gpupool_loaded() && w.done % 2 ? door_free(m)
					      : caller_free(m->va);
}

void free_mem(int mem)
{
	struct mem *m = &w.mem[mem];
	bool own = draw(4) < w.own;
	int self = threads_self();
	uint64_t before;
	CUresult rc;

	m->busy = true;
	w.frees++;
	if (!drop_execs_of(mem) || !order_free(mem)) {
		w.frees--;
		m->busy = false;
		return;
	}
	before = moment();
	begin(own ? GPUSIM_FREES_OWN : GPUSIM_FREES);
	gpusim_tenant_end(m->va);
	rc = own ? own_free(m) : cuMemFree(m->va);
	end(rc, "cuMemFree");
	w.frees--;
	w.live -= m->bytes;
	*m = (struct mem){0};
	if (own)
		return;
	if (before > w.barrier[here()])
		w.barrier[here()] = before;
	if (self >= 0)
		w.own_free[here()][self] = before;
	look_at_pins(here(), before);
}

/* In a stream's order: no barrier, not even for the memory's other streams. */
void op_free_async(void)
{
	int mem = any_mem(false), stream = any_stream();
	struct mem *m;

	/* A peer does not know of the stream's order. */
	if (mem < 0 || w.want_peers)
		return;
	m = &w.mem[mem];
	m->busy = true;
	w.frees++;
	hold_stream(stream);
	if (drop_execs_of(mem) && order_mem(mem, stream)) {
		begin(GPUSIM_FREES_OWN);
		gpusim_tenant_end(m->va);
		end(cuMemFreeAsync(m->va, handle_of(stream)), "cuMemFreeAsync");
		w.live -= m->bytes;
		*m = (struct mem){0};
	}
	m->busy = false;
	let_stream(stream);
	w.frees--;
}

void op_free(void)
{
	int mem = any_mem(false);

	if (mem >= 0)
		free_mem(mem);
}
