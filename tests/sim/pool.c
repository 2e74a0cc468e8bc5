/*
 * Stream-ordered memory.
 *
 * A pool takes memory from the device when it must and keeps what comes back;
 * at a synchronisation it gives back what is above its release threshold. A
 * block's memory is in use from the call that allocates it until the free has
 * been reached in its stream. What is handed out again has its old contents
 * (CUDA C++ Programming Guide, "Stream Ordered Memory Allocator": only memory
 * that is new from the system is not another allocation's).
 */
#include "tests/sim/pool.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/engine.h"
#include "tests/sim/graph_memory.h"

static struct sim_list pools = {&pools, &pools};

struct sim_pool *sim_pool_new(struct sim_device *device)
{
	struct sim_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->reuse_event = pool->reuse_opportunistic = 1;
	pool->reuse_internal = 1;
	pool->access = 1u << device->ordinal;
	sim_list_init(&pool->kept);
	sim_list_add(&pools, &pool->link);
	sim_handle_add(SIM_K_POOL, pool);
	return pool;
}

void sim_pool_start(struct sim_device *device)
{
	device->default_pool = device->pool = sim_pool_new(device);
}

static void forget(struct sim_pool *pool, struct sim_kept *kept)
{
	pool->kept_bytes -= kept->span;
	sim_list_del(&kept->link);
	free(kept);
}

/* The oldest go first. */
static void keep_at_most(struct sim_pool *pool, uint64_t bytes)
{
	while (pool->kept_bytes > bytes) {
		struct sim_kept *kept =
			sim_entry(pool->kept.next, struct sim_kept, link);

		sim_va_give(kept->va, kept->span, kept->align);
		sim_phys_unref(kept->phys);
		forget(pool, kept);
	}
}

/* Whole granules, as it took them. */
bool sim_pool_give_back(struct sim_pool *pool, uint64_t keep)
{
	uint64_t target = keep > pool->used ? keep : pool->used;

	if (target > pool->reserved)
		return false;
	target = (target + SIM_GRANULE - 1) / SIM_GRANULE * SIM_GRANULE;
	if (pool->reserved <= target)
		return false;
	sim_uncharge(pool->device, pool->reserved - target);
	pool->reserved = target;
	keep_at_most(pool, pool->reserved - pool->used);
	return true;
}

void sim_pool_bury(struct sim_pool *pool)
{
	sim_pool_give_back(pool, 0);
	sim_list_del(&pool->link);
	free(pool);
}

bool sim_pool_returned(const struct sim_region *region)
{
	struct sim_pool *pool = region->pool;
	struct sim_kept *kept = NULL;

	pool->used -= region->span;
	if (!pool->dying && region->phys)
		kept = calloc(1, sizeof(*kept));
	if (kept) {
		kept->phys = region->phys;
		kept->va = region->va;
		kept->span = sim_region_span(region->bytes, &kept->align);
		pool->kept_bytes += kept->span;
		sim_list_add(&pool->kept, &kept->link);
		keep_at_most(pool, pool->reserved - pool->used);
	}
	if (pool->dying && !pool->used)
		sim_pool_bury(pool);
	return kept != NULL;
}

/* Memory that was kept for such an allocation. */
static bool again(struct sim_pool *pool, struct sim_ctx *ctx, uint64_t bytes,
		  struct sim_region **region)
{
	uint64_t align, span = sim_region_span(bytes, &align);
	struct sim_kept *kept;
	struct sim_list *l;

	for (l = pool->kept.prev; l != &pool->kept; l = l->prev) {
		kept = sim_entry(l, struct sim_kept, link);
		if (kept->span != span ||
		    sim_region_place(ctx, SIM_ASYNC, bytes, kept->phys,
				     kept->va, region))
			continue;
		forget(pool, kept);
		return true;
	}
	return false;
}

void sim_pools_settle(void)
{
	struct sim_list *l;

	for (l = pools.next; l != &pools; l = l->next) {
		struct sim_pool *pool = sim_entry(l, struct sim_pool, link);

		sim_pool_give_back(pool, pool->threshold);
	}
}

bool sim_pools_trim(struct sim_device *device)
{
	struct sim_list *l;
	bool some = false;

	for (l = pools.next; l != &pools; l = l->next) {
		struct sim_pool *pool = sim_entry(l, struct sim_pool, link);

		if (pool->device == device)
			some |= sim_pool_give_back(pool, 0);
	}
	return some;
}

/* ---- allocation ------------------------------------------------------------- */

/* Memory for `bytes` more, from what the pool has or from the device. */
static CUresult provide(struct sim_pool *pool, uint64_t bytes)
{
	uint64_t spare = pool->reserved - pool->used;
	CUresult err = CUDA_SUCCESS;

	if (bytes > spare) {
		uint64_t more = (bytes - spare + SIM_GRANULE - 1) /
				SIM_GRANULE * SIM_GRANULE;

		err = sim_charge(pool->device, more);
		if (!err)
			pool->reserved += more;
	}
	if (err)
		return err;
	pool->used += bytes;
	keep_at_most(pool, pool->reserved - pool->used);
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	return CUDA_SUCCESS;
}

static CUresult take(struct sim_pool *pool, struct sim_ctx *ctx, uint64_t bytes,
		     struct sim_region **region)
{
	CUresult err = CUDA_SUCCESS;

	if (!again(pool, ctx, bytes, region))
		err = sim_region_new(ctx, SIM_ASYNC, bytes, region);
	if (err)
		return err;
	(*region)->pool = pool;
	err = provide(pool, (*region)->span);
	if (err && sim_pools_trim(pool->device))
		err = provide(pool, (*region)->span);
	if (!err)
		return CUDA_SUCCESS;
	pool->used += (*region)->span; /* which destroying takes off again */
	sim_region_destroy(*region);
	return err;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, struct sim_pool *pool,
			 CUstream handle)
{
	struct sim_stream *stream = sim_stream_of(handle);
	struct sim_region *region;
	CUresult err;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pool)
		pool = stream->ctx->device->pool;
	if (stream->capture)
		return sim_capture_alloc(stream, pool->device, bytes, out);
	err = take(pool, stream->ctx, bytes, &region);
	if (err == CUDA_ERROR_OUT_OF_MEMORY) {
		/* Frees that have not been reached yet may help. */
		sim_drain(stream->ctx);
		err = take(pool, stream->ctx, bytes, &region);
	}
	if (!err)
		*out = region->va;
	return err;
}

CUresult sim_mem_alloc_async(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	CUresult err;

	if (!sim.settings.pools)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_capture_forbids_beside(stream);
	if (err)
		return err;
	sim_lock();
	err = allocate(out, bytes, NULL, stream);
	sim_unlock();
	return err;
}

CUresult sim_mem_alloc_from_pool(CUdeviceptr *out, size_t bytes,
				 CUmemoryPool handle, CUstream stream)
{
	struct sim_pool *pool = (struct sim_pool *)(void *)handle;
	CUresult err;

	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_capture_forbids_beside(stream);
	if (err)
		return err;
	err = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (sim_handle_is(SIM_K_POOL, pool))
		err = allocate(out, bytes, pool, stream);
	sim_unlock();
	return err;
}

/* Plain memory, too, and what a graph's launch left allocated. */
static bool may_free(struct sim_region *region)
{
	if (region->kind == SIM_GRAPH)
		return sim_graph_freed(region);
	return !region->dying &&
	       (region->kind == SIM_PLAIN || region->kind == SIM_ASYNC);
}

CUresult sim_mem_free_async(CUdeviceptr va, CUstream handle)
{
	struct sim_work work = {.kind = SIM_W_FREE};
	struct sim_stream *stream;
	struct sim_region *region;
	CUresult err;

	if (!va)
		return CUDA_ERROR_INVALID_VALUE;
	err = sim_capture_forbids_beside(handle);
	if (err)
		return err;
	err = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	stream = sim_stream_of(handle);
	region = sim_region_at(va);
	if (!stream) {
		err = CUDA_ERROR_INVALID_HANDLE;
	} else if (stream->capture) {
		err = sim_capture_free(stream, va);
	} else if (region && region->va == va && may_free(region)) {
		region->dying = true;
		work.region = region;
		err = sim_submit(stream, &work, NULL);
		if (err)
			region->dying = false;
	}
	sim_unlock();
	return err;
}
