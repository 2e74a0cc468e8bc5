/* Memory of other devices and other processes. */
#include <string.h>
#include <unistd.h>

#include "tests/soak/soak.h"

/* Copies need no access. */
static void change_peer(struct thread *t, const struct lane *other)
{
	CUresult rc;

	switch (soak.peers ? below(t, 4) : 3) {
	case 0:
		rc = cuCtxEnablePeerAccess(other->context, 0);
		if (rc != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
			got(t, rc, "cuCtxEnablePeerAccess");
		break;
	case 1:
		rc = cuCtxDisablePeerAccess(other->context);
		if (rc != CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
			good(t, rc, "cuCtxDisablePeerAccess");
		break;
	default:
		break;
	}
}

/* A block of another device's lane, copied here; it stays that lane's. */
void op_peer(struct thread *t)
{
	struct lane *other = &soak.lanes[below(t, soak.num_lanes)];
	struct block **place = &other->shared[below(t, SHARED)];
	struct block **to = draw_block(t), *from;
	CUstream s = t->streams[0];

	if (!to || (*to)->fixed || other->device == t->lane->device)
		return;
	change_peer(t, other);
	from = __atomic_exchange_n(place, NULL, __ATOMIC_ACQ_REL);
	if (!from)
		return;
	if (from->bytes >= (*to)->bytes && from->kind == PLAIN &&
	    (*to)->kind == PLAIN) {
		order(t, *to, s);
		GOOD(t, cuStreamWaitEvent(s, from->event, 0));
		if (below(t, 2))
			GOOD(t, cuMemcpyPeerAsync((*to)->at, t->lane->context,
						  from->at, other->context,
						  (*to)->bytes, s));
		else
			GOOD(t, cuMemcpyAsync((*to)->at, from->at, (*to)->bytes,
					      s));
		(*to)->word = from->word;
		GOOD(t, cuStreamSynchronize(s));
	}
	/* Somebody may have put another one there. */
	while (from) {
		from = __atomic_exchange_n(place, from, __ATOMIC_ACQ_REL);
		place = &other->shared[below(t, SHARED)];
		beat(t, OP_peer);
	}
}

/* ---- to other processes -------------------------------------------------------- */

static struct board_export *slot_of(unsigned i)
{
	return &soak.board->exports[i];
}

static void offer(struct board_export *e, const struct board_export *what)
{
	uint32_t version = __atomic_load_n(&e->version, __ATOMIC_RELAXED) | 1;

	__atomic_store_n(&e->version, version, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	e->device = what->device;
	e->bytes = what->bytes;
	e->word = what->word;
	e->pid = what->pid;
	memcpy(e->handle, what->handle, sizeof(e->handle));
	__atomic_store_n(&e->version, version + 1, __ATOMIC_RELEASE);
}

static bool see(const struct board_export *e, struct board_export *out)
{
	uint32_t version = __atomic_load_n(&e->version, __ATOMIC_ACQUIRE);

	memcpy(out, e, sizeof(*out));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return version && !(version & 1) && out->bytes &&
	       version == __atomic_load_n(&e->version, __ATOMIC_RELAXED);
}

void withdraw(void)
{
	static const struct board_export none;

	for (unsigned i = 0; i < BOARD_EXPORTS; i++)
		offer(slot_of(i), &none);
}

/* Each thread has a place on the board. Its word stays from now on. */
void op_export(struct thread *t)
{
	struct board_export e = {.device = t->lane->device, .pid = getpid()};
	struct block **b = draw_block(t);
	CUipcMemHandle handle;
	CUresult rc;

	if (!b || (*b)->kind != PLAIN || !t->lane->primary ||
	    (*b)->bytes > 4 * MIB)
		return;
	verify(t, *b); /* and with it wait for what fills it */
	rc = cuIpcGetMemHandle(&handle, (*b)->at + below(t, (*b)->bytes));
	if (rc == CUDA_ERROR_NOT_SUPPORTED || rc == CUDA_ERROR_INVALID_VALUE)
		return; /* a part of a segment; or nothing is pooled */
	if (!got(t, rc, "cuIpcGetMemHandle"))
		return;
	(*b)->fixed = true;
	e.bytes = (*b)->bytes;
	e.word = (*b)->word;
	memcpy(e.handle, &handle, sizeof(e.handle));
	if (t->slot - 1 < BOARD_EXPORTS)
		offer(slot_of(t->slot - 1), &e);
}

/* ---- from other processes ------------------------------------------------------ */

static void in_context(struct thread *t, int device, struct lane **before)
{
	*before = t->lane;
	for (unsigned i = 0; i < soak.num_lanes; i++)
		if (soak.lanes[i].primary && soak.lanes[i].device == device)
			GOOD(t, cuCtxSetCurrent(soak.lanes[i].context));
}

static void verify_opened(struct thread *t, const struct opened *o)
{
	size_t n = o->bytes < HOST_BYTES ? o->bytes : HOST_BYTES;

	GOOD(t, cuMemcpyDtoH(t->host, o->at + o->bytes - n, n));
	for (size_t w = 0; w < n / 4; w++)
		if (t->host[w] != o->word)
			wrong(t, "%zu bytes of another process: %08x, not %08x",
			      o->bytes, t->host[w], o->word);
}

void op_import(struct thread *t)
{
	const struct board_worker *from =
		&soak.all->workers[below(t, BOARD_WORKERS)];
	struct opened *o = &t->opened[below(t, 4)];
	struct board_export e;
	CUipcMemHandle handle;
	struct lane *before;
	CUresult rc;

	if (o->at || !see(&from->exports[below(t, BOARD_EXPORTS)], &e) ||
	    e.pid == getpid() || e.device >= (int)soak.devices)
		return;
	memcpy(&handle, e.handle, sizeof(handle));
	in_context(t, e.device, &before);
	rc = cuIpcOpenMemHandle(&o->at, handle,
				CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	o->bytes = e.bytes;
	o->word = e.word;
	o->device = e.device;
	o->left = (unsigned)below(t, 60);
	if (rc == CUDA_SUCCESS)
		verify_opened(t, o);
	else
		o->at = 0;
	GOOD(t, cuCtxSetCurrent(before->context));
	/* The owner may have freed it, or be gone, or not answer. */
	if (rc && rc != CUDA_ERROR_INVALID_VALUE &&
	    rc != CUDA_ERROR_INVALID_HANDLE && rc != CUDA_ERROR_OUT_OF_MEMORY &&
	    rc != CUDA_ERROR_MAP_FAILED && rc != CUDA_ERROR_NOT_SUPPORTED)
		wrong(t, "cuIpcOpenMemHandle: %d", (int)rc);
}

void close_opened(struct thread *t, bool all)
{
	struct lane *before;

	for (int i = 0; i < 4; i++) {
		struct opened *o = &t->opened[i];

		if (!o->at || (!all && o->left && o->left--))
			continue;
		in_context(t, o->device, &before);
		verify_opened(t, o);
		GOOD(t, cuIpcCloseMemHandle(o->at));
		o->at = 0;
		GOOD(t, cuCtxSetCurrent(before->context));
	}
}
