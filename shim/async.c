/*
 * The driver's own pools and what they reserve; see async.h.
 */
#include <stdlib.h>

#include "shim/async_impl.h"
#include "shim/devices.h"

pthread_mutex_t gp_async_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gp_async_pool *pools; /* guarded by it; never freed */

static struct gp_async_pool *find(CUmemoryPool handle)
{
	struct gp_async_pool *pool = pools;

	while (pool && (pool->handle != handle || pool->dying))
		pool = pool->next;
	return pool;
}

struct gp_async_pool *gp_async_learn(CUmemoryPool handle, CUdevice device,
				     enum gp_limit_part part)
{
	struct gp_limit *limit = gp_device_limit(device);
	struct gp_async_pool *pool, *made = NULL;

	pthread_mutex_lock(&gp_async_lock);
	pool = find(handle);
	if (!pool)
		made = calloc(1, sizeof(*made));
	if (made) {
		made->handle = handle;
		made->device = device;
		made->limit = limit;
		made->part = part;
		made->chunk = GP_LIMIT_PIECE;
		made->next = pools;
		pools = pool = made;
	}
	pthread_mutex_unlock(&gp_async_lock);
	return pool;
}

static void charge(struct gp_async_pool *pool, uint64_t bytes)
{
	gp_limit_adjust(pool->limit, pool->part, pool->charged, bytes);
	pool->charged = bytes;
	pool->version++;
}

/* It cannot be asked any more: the driver keeps what it has until nothing of it
 * is in use. Under the lock. */
static void dies(struct gp_async_pool *pool)
{
	pool->dying = true;
	if (gp_async_is_over(pool))
		charge(pool, 0);
}

/* One with the same handle is gone, whether that was told already or not. */
static struct gp_async_pool *made(CUmemoryPool handle, CUdevice device,
				  enum gp_limit_part part)
{
	struct gp_async_pool *before;

	pthread_mutex_lock(&gp_async_lock);
	before = find(handle);
	if (before)
		dies(before);
	pthread_mutex_unlock(&gp_async_lock);
	return gp_async_learn(handle, device, part);
}

void gp_async_created(CUmemoryPool handle, CUdevice device)
{
	made(handle, device, GP_PART_async);
}

struct gp_async_pool *gp_async_own(CUmemoryPool handle, CUdevice device)
{
	return made(handle, device, GP_PART_pool);
}

/* What the pool has without what nobody uses. False: it does not say. */
static bool ask_rest(const struct gp_async_pool *pool, uint64_t *bytes)
{
	gp_real()->cuMemPoolTrimTo(pool->handle, 0);
	return gp_async_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, bytes);
}

void gp_async_destroys(struct gp_async_rest *rest, CUmemoryPool handle)
{
	bool used;

	*rest = (struct gp_async_rest){0};
	pthread_mutex_lock(&gp_async_lock);
	rest->pool = find(handle);
	used = rest->pool && rest->pool->live;
	rest->version = rest->pool ? rest->pool->version : 0;
	pthread_mutex_unlock(&gp_async_lock);
	if (!rest->pool)
		return;
	if (used)
		rest->told = ask_rest(rest->pool, &rest->bytes);
	pthread_mutex_lock(&gp_async_lock);
	rest->pool->leaving = true;
	pthread_mutex_unlock(&gp_async_lock);
}

/* An allocation that began before the end may have been made from it, and its
 * memory is not in the answer, or not alone: then it counts as before. */
void gp_async_destroyed(const struct gp_async_rest *rest)
{
	struct gp_async_pool *pool = rest->pool;

	if (!pool)
		return;
	pthread_mutex_lock(&gp_async_lock);
	dies(pool);
	if (pool->live && !pool->takers && rest->told &&
	    rest->version == pool->version)
		charge(pool, rest->bytes);
	pthread_mutex_unlock(&gp_async_lock);
}

/* What it has is found when it is next asked. */
void gp_async_kept(const struct gp_async_rest *rest)
{
	if (!rest->pool)
		return;
	pthread_mutex_lock(&gp_async_lock);
	rest->pool->leaving = false;
	pthread_mutex_unlock(&gp_async_lock);
}

void gp_async_freed(const struct gp_foreign *entry)
{
	struct gp_async_pool *pool = entry->pool;

	if (!pool)
		return;
	pthread_mutex_lock(&gp_async_lock);
	pool->live -= entry->bytes;
	if (gp_async_is_over(pool))
		charge(pool, 0);
	pthread_mutex_unlock(&gp_async_lock);
}

/* ---- asking -------------------------------------------------------------------- */

bool gp_async_ask(const struct gp_async_pool *pool, CUmemPool_attribute which,
		  uint64_t *bytes)
{
	cuuint64_t value = 0;
	bool leaves;

	pthread_mutex_lock(&gp_async_lock);
	leaves = pool->leaving || pool->dying;
	pthread_mutex_unlock(&gp_async_lock);
	if (leaves || gp_real()->cuMemPoolGetAttribute(pool->handle, which,
						       &value) != CUDA_SUCCESS)
		return false;
	*bytes = value;
	return true;
}

uint64_t gp_async_version(const struct gp_async_pool *pool)
{
	uint64_t version;

	pthread_mutex_lock(&gp_async_lock);
	version = pool->version;
	pthread_mutex_unlock(&gp_async_lock);
	return version;
}

void gp_async_look(struct gp_async_pool *pool)
{
	for (int i = 0; i < GP_ASYNC_TRIES; i++) {
		uint64_t version = gp_async_version(pool), reserved;
		bool done;

		if (!gp_async_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
				  &reserved))
			return;
		pthread_mutex_lock(&gp_async_lock);
		/* One that grows just now has it on the ledger already. */
		done = pool->dying || pool->takers || pool->version == version;
		if (done && !pool->dying && !pool->takers &&
		    pool->charged != reserved)
			charge(pool, reserved);
		pthread_mutex_unlock(&gp_async_lock);
		if (done)
			return;
	}
}

/* The next pool of the device, or of any (-1), that can be asked. */
static struct gp_async_pool *next_of(CUdevice device,
				     struct gp_async_pool *pool)
{
	pthread_mutex_lock(&gp_async_lock);
	pool = pool ? pool->next : pools;
	while (pool && (pool->leaving || pool->dying ||
			(device >= 0 && pool->device != device)))
		pool = pool->next;
	pthread_mutex_unlock(&gp_async_lock);
	return pool;
}

/* The pools a device has without the program making any. */
static void learn_current(CUdevice device)
{
	CUmemoryPool handle;

	if (gp_real()->cuDeviceGetDefaultMemPool(&handle, device) ==
	    CUDA_SUCCESS)
		gp_async_learn(handle, device, GP_PART_async);
	if (gp_real()->cuDeviceGetMemPool(&handle, device) == CUDA_SUCCESS)
		gp_async_learn(handle, device, GP_PART_async);
}

void gp_async_refresh(CUdevice device)
{
	struct gp_async_pool *pool = NULL;

	learn_current(device);
	while ((pool = next_of(device, pool)))
		gp_async_look(pool);
}

uint64_t gp_async_reserved(const struct gp_async_pool *pool)
{
	uint64_t bytes;

	pthread_mutex_lock(&gp_async_lock);
	bytes = pool->charged;
	pthread_mutex_unlock(&gp_async_lock);
	return bytes;
}

uint64_t gp_async_spare(CUdevice device, bool own)
{
	struct gp_async_pool *pool = NULL;
	uint64_t spare = 0, used, reserved;

	gp_async_refresh(device);
	while ((pool = next_of(device, pool)))
		if ((!own || pool->part == GP_PART_pool) &&
		    gp_async_ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
				 &used) &&
		    gp_async_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
				 &reserved) &&
		    reserved > used)
			spare += reserved - used;
	return spare;
}

uint64_t gp_async_trim(CUdevice device)
{
	struct gp_async_pool *pool = NULL;
	uint64_t given = 0;

	while ((pool = next_of(device, pool))) {
		uint64_t before = gp_async_reserved(pool), now;

		if (!before)
			continue;
		gp_real()->cuMemPoolTrimTo(pool->handle, 0);
		gp_async_look(pool);
		now = gp_async_reserved(pool);
		given += before > now ? before - now : 0;
	}
	return given;
}
