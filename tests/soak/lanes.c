/* Contexts, all of them made before a round and gone after it. */
#include <string.h>

#include "tests/soak/soak.h"

CUresult create_context(CUcontext *out, int device)
{
#if CUDA_VERSION >= 13000
	return cuCtxCreate(out, NULL, 0, device);
#else
	return cuCtxCreate(out, 0, device);
#endif
}

bool enter_lane(struct thread *t, struct lane *lane)
{
	GOOD(t, cuCtxSetCurrent(lane->context));
	if (!GOT(t, cuModuleLoadData(&lane->module, "any image will do")))
		return false;
	GOOD(t, cuModuleGetFunction(&lane->fill, lane->module, "fill32"));
	GOOD(t, cuModuleGetFunction(&lane->add, lane->module, "add32"));
	return true;
}

/* There is always room for the primary contexts, as neighbours make room. */
void open_lanes(struct thread *t)
{
	soak.num_lanes = 0;
	for (unsigned i = 0; i < 2 * soak.devices; i++) {
		struct lane *lane = &soak.lanes[soak.num_lanes];
		CUresult rc;

		memset(lane, 0, sizeof(*lane));
		lane->device = (int)(i % soak.devices);
		lane->primary = i < soak.devices;
		beat(t, OP_quiet);
		rc = lane->primary
			     ? cuDevicePrimaryCtxRetain(&lane->context,
							lane->device)
			     : create_context(&lane->context, lane->device);
		if (!got(t, rc, "a context"))
			continue;
		soak.num_lanes++;
		if (!enter_lane(t, lane))
			wrong(t, "no memory for a module");
	}
}

static void empty_lane(struct thread *t, struct lane *lane)
{
	GOOD(t, cuCtxSetCurrent(lane->context));
	t->lane = lane;
	streams_begin(t);
	for (unsigned i = 0; i < SHARED; i++) {
		struct block *b = __atomic_exchange_n(&lane->shared[i], NULL,
						      __ATOMIC_ACQ_REL);

		if (!b)
			continue;
		verify(t, b);
		free_block(t, b);
	}
	streams_end(t);
	GOOD(t, cuModuleUnload(lane->module));
}

void close_lanes(struct thread *t)
{
	for (unsigned i = soak.num_lanes; i--;) {
		struct lane *lane = &soak.lanes[i];
		bool full = !below(t, 3);

		beat(t, OP_quiet);
		if (!full)
			empty_lane(t, lane);
		GOOD(t, cuCtxSetCurrent(lane->context));
		GOOD(t, cuCtxSynchronize());
		if (!lane->primary)
			GOOD(t, cuCtxDestroy(lane->context));
		else if (full)
			GOOD(t, cuDevicePrimaryCtxReset(lane->device));
		if (lane->primary)
			GOOD(t, cuDevicePrimaryCtxRelease(lane->device));
		drop_shared(lane);
	}
	soak.num_lanes = 0;
	GOOD(t, cuCtxSetCurrent(NULL));
}
