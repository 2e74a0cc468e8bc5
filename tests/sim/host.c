/*
 * Host memory the driver knows: pinned, registered, managed. Their device
 * addresses are their host addresses.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/sim/bodies.h"
#include "tests/sim/engine.h"

#define PAGE 4096u

static struct sim_region *region_new(enum sim_region_kind kind, uint64_t bytes,
				     unsigned flags)
{
	struct sim_region *region = calloc(1, sizeof(*region));

	if (!region)
		return NULL;
	region->kind = kind;
	region->bytes = bytes;
	region->span = (bytes + PAGE - 1) / PAGE * PAGE;
	region->flags = flags;
	region->ctx = sim_current();
	region->device = region->ctx->device;
	return region;
}

/* Make a region known. locked. */
static CUresult add(struct sim_region *region, CUresult overlap)
{
	region->id = ++sim.next_id;
	if (!sim_region_add(region))
		return overlap;
	sim_list_add(&region->ctx->regions, &region->link);
	return CUDA_SUCCESS;
}

/* Host memory that the driver itself provides. */
static CUresult provide(enum sim_region_kind kind, size_t bytes, unsigned flags,
			void **out)
{
	struct sim_region *region;
	CUresult err;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	region = region_new(kind, bytes, flags);
	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	/* Not charged: it is the host's. */
	err = sim_phys_create(NULL, region->span, false, false, &region->phys);
	if (!err) {
		region->va = (CUdeviceptr)(uintptr_t)region->phys->at;
		err = add(region, CUDA_ERROR_OUT_OF_MEMORY);
		if (err)
			sim_phys_unref(region->phys);
	}
	sim_unlock();
	if (err)
		free(region);
	else
		*out = (void *)(uintptr_t)region->va;
	return err;
}

CUresult sim_mem_host_alloc(void **out, size_t bytes, unsigned flags)
{
	if (!out || flags & ~7u)
		return CUDA_ERROR_INVALID_VALUE;
	return provide(SIM_PINNED, bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP,
		       out);
}

CUresult sim_mem_alloc_host(void **out, size_t bytes)
{
	return sim_mem_host_alloc(out, bytes, 0);
}

CUresult sim_mem_alloc_managed(CUdeviceptr *out, size_t bytes, unsigned flags)
{
	void *at;
	CUresult err;

	if (!out ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	err = provide(SIM_MANAGED, bytes, flags, &at);
	if (!err)
		*out = (CUdeviceptr)(uintptr_t)at;
	return err;
}

/* The region of that kind that starts at p, else NULL. locked. */
static struct sim_region *starting_at(void *p, enum sim_region_kind kind)
{
	CUdeviceptr va = (CUdeviceptr)(uintptr_t)p;
	struct sim_region *region = va ? sim_region_at(va) : NULL;

	return region && region->va == va && region->kind == kind &&
			       !region->dying
		       ? region
		       : NULL;
}

/* Wait for the context's work, then forget the region. locked. */
static CUresult forget(struct sim_region *region)
{
	struct sim_ctx *ctx = region->ctx;
	CUdeviceptr va = region->va;
	uint64_t id = region->id;

	region->dying = true;
	sim_barrier_begin(ctx);
	region = sim_region_at(va);
	if (region && region->id == id)
		sim_region_destroy(region);
	sim_barrier_end(ctx);
	return ctx->sticky;
}

CUresult sim_mem_free_host(void *p)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;
	struct sim_region *region;

	sim_lock();
	region = starting_at(p, SIM_PINNED);
	if (region)
		err = forget(region);
	sim_unlock();
	return err;
}

CUresult sim_mem_host_register(void *p, size_t bytes, unsigned flags)
{
	struct sim_region *region;
	CUresult err;

	if (!p || !bytes || flags & ~15u)
		return CUDA_ERROR_INVALID_VALUE;
	region = region_new(SIM_REGISTERED, bytes,
			    flags | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region->va = (CUdeviceptr)(uintptr_t)p;
	region->span = bytes;
	sim_lock();
	err = sim_is_device_va(region->va)
		      ? CUDA_ERROR_INVALID_VALUE
		      : add(region, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	sim_unlock();
	if (err)
		free(region);
	return err;
}

CUresult sim_mem_host_unregister(void *p)
{
	CUresult err = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	struct sim_region *region;

	sim_lock();
	region = starting_at(p, SIM_REGISTERED);
	if (region)
		err = forget(region);
	else if (sim_is_device_va((CUdeviceptr)(uintptr_t)p))
		err = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return err;
}

static struct sim_region *host_region(void *p)
{
	struct sim_region *region = sim_region_at((CUdeviceptr)(uintptr_t)p);

	return region && (region->kind == SIM_PINNED ||
			  region->kind == SIM_REGISTERED)
		       ? region
		       : NULL;
}

CUresult sim_mem_host_pointer(CUdeviceptr *out, void *p, unsigned flags)
{
	struct sim_region *region;

	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	region = host_region(p);
	sim_unlock();
	if (!region)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUdeviceptr)(uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult sim_mem_host_flags(unsigned *flags, void *p)
{
	struct sim_region *region;

	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	region = host_region(p);
	if (!region) {
		/* It takes virtual memory for the host's (measured, 580). */
		region = sim_region_at((CUdeviceptr)(uintptr_t)p);
		if (region && region->kind != SIM_RESERVED)
			region = NULL;
	}
	if (region)
		*flags = region->flags;
	sim_unlock();
	return region ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
