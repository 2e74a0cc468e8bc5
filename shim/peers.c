/*
 * Peer access: a context lets its device reach the memory of another card's
 * context. The driver sees to the plain allocations; the pool's memory is told
 * of here, what is mapped and what will be.
 */
#include <pthread.h>

#include "pool/order.h"
#include "pool/pool.h"
#include "shim/context.h"
#include "shim/hooks.h"
#include "shim/room.h"
#include "shim/state.h"

/* Guards gp_cuda_driver.peer_users. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* One context of `device` more, or less. True: that changes what the device may
 * reach. */
static bool count(struct gp_cuda_driver *cuda, CUdevice device, bool more)
{
	unsigned *users = &cuda->peer_users[device];
	uint64_t bit = 1ull << device;
	bool changed = false;

	pthread_mutex_lock(&lock);
	if (more) {
		changed = !(*users)++;
		if (changed)
			__atomic_or_fetch(&cuda->peers, bit, __ATOMIC_SEQ_CST);
		__atomic_or_fetch(&cuda->told, bit, __ATOMIC_SEQ_CST);
	} else if (*users) {
		changed = !--*users;
		if (changed)
			__atomic_and_fetch(&cuda->peers, ~bit,
					   __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&lock);
	return changed;
}

/* The current context's device, and the pool of `peer`. NULL: nothing of ours
 * is concerned. */
static struct gp_context *concerned(CUcontext peer, CUdevice *device)
{
	struct gp_context *context;

	if (!gp_active() || gp_real()->cuCtxGetDevice(device) != CUDA_SUCCESS ||
	    *device < 0 || *device >= GP_MAX_PEERS)
		return NULL;
	context = gp_context_known(peer);
	return context && (context->pool || context->driver_pool) &&
			       context->cuda.device != *device
		       ? context
		       : NULL;
}

static int regrant(const struct gp_context *context)
{
	return context->pool ? gp_pool_regrant(context->pool)
			     : gp_driver_pool_regrant(context->driver_pool);
}

/* Of either side: work in one's memory is the other's, whose frees wait for it,
 * and after those anybody uses that memory. */
static void lend(const struct gp_context *context)
{
	if (context && context->pool)
		gp_order_lend(gp_pool_order(context->pool));
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	const struct gp_real *real = gp_real();
	CUresult rc = real->cuCtxEnablePeerAccess(peer, flags);
	struct gp_context *context;
	CUdevice device;

	if (gp_room_made(rc))
		rc = real->cuCtxEnablePeerAccess(peer, flags);
	if (rc != CUDA_SUCCESS)
		return rc;
	context = concerned(peer, &device);
	if (context && context->pool) {
		lend(context);
		if (GP_HOLDS(BORROWER_WAITS))
			lend(gp_context_current());
	}
	if (!context || !count(&context->cuda, device, true) ||
	    !regrant(context))
		return rc;
	rc = gp_cuda_last_error();
	count(&context->cuda, device, false);
	real->cuCtxDisablePeerAccess(peer);
	return rc;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CUresult rc = gp_real()->cuCtxDisablePeerAccess(peer);
	struct gp_context *context;
	CUdevice device;

	if (rc != CUDA_SUCCESS)
		return rc;
	context = concerned(peer, &device);
	if (context && count(&context->cuda, device, false))
		regrant(context);
	return rc;
}
