/*
 * Plain device memory: cuMemAlloc and its like.
 *
 * Measured: 512 B aligned, from 4 KiB on 2 KiB, above 1 MiB whole granules of
 * 2 MiB. Small ones of a context share granules, which is how they are
 * charged. An allocation does not wait for work; a free waits for all of its
 * context's, at every size, and meanwhile nothing new is submitted there.
 */
#include <stdlib.h>

#include "tests/sim/bodies.h"
#include "tests/sim/engine.h"
#include "tests/sim/graph_memory.h"
#include "tests/sim/pool.h"
#include "tests/sim/share.h"

static uint64_t alignment(uint64_t bytes)
{
	if (bytes > SIM_SMALL)
		return SIM_GRANULE;
	return bytes >= 4096 ? 2048 : 512;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* What of `small` bytes in small allocations the device is charged for. */
static CUresult charge_small(struct sim_ctx *ctx, uint64_t small)
{
	uint64_t want = round_up(small, SIM_GRANULE);
	CUresult err = CUDA_SUCCESS;

	if (want > ctx->small_charged)
		err = sim_charge(ctx->device, want - ctx->small_charged);
	else
		sim_uncharge(ctx->device, ctx->small_charged - want);
	if (err)
		return err;
	ctx->small_bytes = small;
	ctx->small_charged = want;
	return CUDA_SUCCESS;
}

uint64_t sim_region_span(uint64_t bytes, uint64_t *align)
{
	*align = alignment(bytes);
	return round_up(bytes, *align);
}

CUresult sim_region_place(struct sim_ctx *ctx, enum sim_region_kind kind,
			  uint64_t bytes, struct sim_phys *phys, CUdeviceptr va,
			  struct sim_region **out)
{
	struct sim_region *region = calloc(1, sizeof(*region));
	uint64_t align;

	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region->bytes = bytes;
	region->span = sim_region_span(bytes, &align);
	region->kind = kind;
	region->ctx = ctx;
	region->device = ctx->device;
	region->id = ++sim.next_id;
	region->phys = phys;
	region->va = va;
	if (!va || !sim_region_add(region)) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_list_add(&ctx->regions, &region->link);
	*out = region;
	return CUDA_SUCCESS;
}

CUresult sim_region_new(struct sim_ctx *ctx, enum sim_region_kind kind,
			uint64_t bytes, struct sim_region **out)
{
	uint64_t align, span = sim_region_span(bytes, &align);
	bool small = kind == SIM_PLAIN && bytes <= SIM_SMALL;
	struct sim_phys *phys;
	CUresult err;

	if (bytes > ctx->device->total ||
	    (small && charge_small(ctx, ctx->small_bytes + span)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = sim_phys_create(ctx->device, span, false,
			      !small && kind != SIM_ASYNC, &phys);
	if (err)
		goto no_phys;
	err = sim_region_place(ctx, kind, bytes, phys, sim_va_take(span, align),
			       out);
	if (!err)
		return CUDA_SUCCESS;
	sim_phys_unref(phys);
no_phys:
	if (small)
		charge_small(ctx, ctx->small_bytes - span);
	return err;
}

void sim_region_destroy(struct sim_region *region)
{
	sim_region_remove(region);
	sim_list_del(&region->link);
	if (region->kind == SIM_PLAIN && region->bytes <= SIM_SMALL)
		charge_small(region->ctx,
			     region->ctx->small_bytes - region->span);
	if (region->kind == SIM_GRAPH)
		sim_graph_region_gone(region);
	if (region->kind == SIM_ASYNC && sim_pool_returned(region)) {
		free(region); /* its memory is the pool's */
		return;
	}
	if (region->kind == SIM_PLAIN || region->kind == SIM_ASYNC ||
	    region->kind == SIM_ARRAY)
		sim_va_give(region->va, region->span, alignment(region->bytes));
	if (region->phys)
		sim_phys_unref(region->phys);
	free(region);
}

CUresult sim_mem_info(size_t *free_bytes, size_t *total)
{
	struct sim_device *device = sim_current()->device;

	sim_lock();
	if (free_bytes)
		*free_bytes = device->total - device->used -
			      device->context_used -
			      sim_share_others(device->ordinal);
	if (total)
		*total = device->total;
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *out, uint64_t bytes)
{
	struct sim_ctx *ctx = sim_current();
	struct sim_region *region;
	CUresult err;

	sim_delay(sim.settings.alloc_us);
	sim_lock();
	err = sim_region_new(ctx, SIM_PLAIN, bytes, &region);
	/* What the pools keep unused is given up before anyone goes without. */
	if (err == CUDA_ERROR_OUT_OF_MEMORY && sim_pools_trim(ctx->device))
		err = sim_region_new(ctx, SIM_PLAIN, bytes, &region);
	if (!err)
		*out = region->va;
	sim_unlock();
	return err;
}

CUresult sim_mem_alloc(CUdeviceptr *out, size_t bytes)
{
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return allocate(out, bytes);
}

CUresult sim_mem_alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width,
			     size_t height, unsigned element)
{
	uint64_t row;

	if (!out || !pitch || !width || !height ||
	    (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (width > 1ull << 48 || height > 1ull << 48)
		return CUDA_ERROR_OUT_OF_MEMORY;
	row = round_up(width, 512);
	if (row > UINT64_MAX / height)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pitch = row;
	return allocate(out, row * height);
}

/* The program's allocation that starts at va, else NULL. locked. */
static struct sim_region *owned(CUdeviceptr va)
{
	struct sim_region *region = sim_region_at(va);

	if (!region || region->va != va || region->dying)
		return NULL;
	return region->kind == SIM_PLAIN || region->kind == SIM_ASYNC ||
			       region->kind == SIM_MANAGED ||
			       region->kind == SIM_GRAPH
		       ? region
		       : NULL;
}

/* Asynchronous memory, and what a graph left allocated, is given up when what
 * its context has now is done; nobody waits for that. locked. */
static CUresult free_later(struct sim_region *region)
{
	struct sim_work work = {.kind = SIM_W_FREE, .region = region};

	if (region->kind == SIM_GRAPH && !sim_graph_freed(region))
		return CUDA_ERROR_INVALID_VALUE;
	region->dying = true;
	if (sim_idle(region->ctx)) {
		if (region->kind == SIM_GRAPH)
			sim_graph_reached(region);
		else
			sim_region_destroy(region);
		return CUDA_SUCCESS;
	}
	return sim_submit_last(region->ctx, &work, NULL);
}

CUresult sim_mem_free(CUdeviceptr va)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_region *region;
	struct sim_ctx *ctx;

	if (!va)
		return CUDA_SUCCESS;
	sim_delay(sim.settings.free_us);
	sim_lock();
	region = owned(va);
	if (region &&
	    (region->kind == SIM_ASYNC || region->kind == SIM_GRAPH)) {
		err = free_later(region);
	} else if (region) {
		/* Nobody else may free it while this waits; but the context
		 * may be reset. */
		uint64_t id = region->id;

		region->dying = true;
		ctx = region->ctx;
		sim_barrier_begin(ctx);
		err = ctx->sticky;
		region = sim_region_at(va);
		if (region && region->id == id)
			sim_region_destroy(region);
		sim_barrier_end(ctx);
	}
	sim_unlock();
	return err;
}
