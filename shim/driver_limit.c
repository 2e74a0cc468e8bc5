/*
 * The pool's memory on the ledger of its device: handles, segments and spares.
 * A pool of the driver's in its place is counted in async.c. Streams and events
 * of our own are not: what the driver takes for them it does not say.
 */
#include <pthread.h>

#include "shim/devices.h"
#include "shim/driver_impl.h"
#include "shim/room.h"

/* Whatever the pool takes is reserved on the device's ledger first. Cached
 * memory of other pools makes room; that of the pool itself is the pool's own
 * affair. */
int gp_cuda_take(const struct gp_cuda_driver *cuda, uint64_t bytes)
{
	const struct gp_charge charge = {GP_PART_pool, bytes, NULL};
	int rc = gp_room_reserve(cuda->device, &charge, cuda->context);

	return rc ? gp_cuda_errno(CUDA_ERROR_OUT_OF_MEMORY, "the limit") : 0;
}

void gp_cuda_taken(const struct gp_cuda_driver *cuda, uint64_t bytes, int rc)
{
	const struct gp_charge charge = {GP_PART_pool, bytes, NULL};

	if (rc)
		gp_limit_cancel(cuda->limit, &charge);
	else
		gp_limit_keep(cuda->limit);
}

void gp_cuda_gave(const struct gp_cuda_driver *cuda, uint64_t bytes)
{
	const struct gp_charge charge = {GP_PART_pool, bytes, NULL};

	gp_limit_give(cuda->limit, &charge);
}

/* The card had no room: true if the others could make some. */
bool gp_cuda_others_gave(const struct gp_cuda_driver *cuda, uint64_t bytes,
			 CUresult result)
{
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return false;
	gp_room_card_refused();
	return gp_room_make(cuda->device, bytes, cuda->context);
}

/* ---- spares ------------------------------------------------------------------ */

/* Rank: above the ledgers. Not held across a driver call. */
static pthread_mutex_t spares_lock = PTHREAD_MUTEX_INITIALIZER;

static bool take_spare(struct gp_cuda_driver *cuda, bool must)
{
	const struct gp_charge piece = {GP_PART_pool, GP_LIMIT_PIECE, NULL};
	uint64_t outcomes;
	bool taken;

	pthread_mutex_lock(&spares_lock);
	if (!cuda->spares_charged &&
	    !gp_limit_reserve(cuda->limit, &piece, &outcomes)) {
		gp_limit_keep(cuda->limit);
		cuda->spares_charged = true;
	}
	taken = cuda->spares_charged || must;
	cuda->spares += taken;
	pthread_mutex_unlock(&spares_lock);
	return taken;
}

bool gp_cuda_spare_take(struct gp_cuda_driver *cuda, bool must)
{
	return take_spare(cuda, false) ||
	       (gp_room_make_idle(cuda->device, GP_LIMIT_PIECE) &&
		take_spare(cuda, false)) ||
	       (must && take_spare(cuda, true));
}

void gp_cuda_spare_gave(struct gp_cuda_driver *cuda)
{
	const struct gp_charge piece = {GP_PART_pool, GP_LIMIT_PIECE, NULL};

	pthread_mutex_lock(&spares_lock);
	if (!--cuda->spares && cuda->spares_charged) {
		gp_limit_give(cuda->limit, &piece);
		cuda->spares_charged = false;
	}
	pthread_mutex_unlock(&spares_lock);
}
