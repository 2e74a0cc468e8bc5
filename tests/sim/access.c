/*
 * From an address to the memory behind it, and who may use it.
 *
 * Copies reach any host memory and any card's cuMemAlloc memory; kernels
 * reach pinned and managed memory, their own card's, and a peer's when that
 * is enabled. Virtual memory wants access set for the device that works,
 * whatever the kind of work.
 */
#include "tests/sim/sim.h"

static bool may_reach_device(const struct sim_agent *agent,
			     const struct sim_region *region)
{
	if (!agent->kernel || !agent->ctx ||
	    region->device == agent->ctx->device)
		return true;
	return agent->ctx->peers >> region->device->ordinal & 1;
}

static bool may_use_map(const struct sim_agent *agent,
			const struct sim_map *map)
{
	unsigned char access = CU_MEM_ACCESS_FLAGS_PROT_NONE;

	if (!agent->ctx) { /* the driver's own look at a wait value */
		for (int i = 0; i < SIM_DEVICES_MAX; i++)
			access |= map->access[i];
	} else {
		access = map->access[agent->ctx->device->ordinal];
	}
	return access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
	       (access == CU_MEM_ACCESS_FLAGS_PROT_READ && !agent->write);
}

static void take(struct sim_piece *piece, struct sim_phys *phys,
		 uint64_t offset, uint64_t limit, uint64_t bytes)
{
	piece->at = phys->at + offset;
	piece->bytes = bytes < limit ? bytes : limit;
	piece->pinned = phys;
	sim_phys_ref(phys);
}

static bool reach_host(const struct sim_agent *agent, CUdeviceptr va,
		       uint64_t bytes, struct sim_piece *piece)
{
	struct sim_region *region = sim_region_at(va);

	piece->at = (char *)(uintptr_t)va;
	piece->bytes = bytes;
	piece->pinned = NULL;
	if (region) {
		uint64_t limit = region->va + region->bytes - va;

		if (region->phys) {
			take(piece, region->phys, va - region->va, limit,
			     bytes);
			return va < region->va + region->bytes;
		}
		if (limit < bytes)
			piece->bytes = limit;
		return true;
	}
	return va && (!agent->kernel || sim.settings.pageable);
}

/* As it is mapped now. What was asked for was checked when the work was
 * submitted: by now another node may have the addresses, for less. */
static bool reach_graph(const struct sim_agent *agent,
			const struct sim_region *region, CUdeviceptr va,
			uint64_t bytes, struct sim_piece *piece)
{
	uint64_t end = region->va + region->span;
	struct sim_map *map = sim_map_at(va);

	if (!map || va >= end || !may_reach_device(agent, region))
		return false;
	take(piece, map->phys, va - map->va, map->va + map->bytes - va,
	     bytes < end - va ? bytes : end - va);
	return true;
}

bool sim_reach(const struct sim_agent *agent, CUdeviceptr va, uint64_t bytes,
	       struct sim_piece *piece)
{
	struct sim_region *region;
	struct sim_map *map;

	if (!sim_is_device_va(va))
		return reach_host(agent, va, bytes, piece);
	region = sim_region_at(va);
	if (!region)
		return false;
	if (region->kind == SIM_RESERVED) {
		map = sim_map_at(va);
		if (!map || !may_use_map(agent, map))
			return false;
		take(piece, map->phys, va - map->va, map->va + map->bytes - va,
		     bytes);
		return true;
	}
	if (region->kind == SIM_GRAPH)
		return reach_graph(agent, region, va, bytes, piece);
	/* The driver checks a copy against what was asked for; hardware knows
	 * only what was taken. */
	if (va - region->va >= (agent->kernel ? region->span : region->bytes) ||
	    !may_reach_device(agent, region))
		return false;
	take(piece, region->phys, va - region->va,
	     (agent->kernel ? region->span : region->bytes) - (va - region->va),
	     bytes);
	return true;
}

void sim_piece_done(struct sim_piece *piece)
{
	if (piece->pinned)
		sim_phys_unref(piece->pinned);
	piece->pinned = NULL;
}

bool sim_reachable(const struct sim_agent *agent, CUdeviceptr va,
		   uint64_t bytes)
{
	while (bytes) {
		struct sim_region *region = sim_region_at(va);
		struct sim_piece piece;

		if (region && region->dying)
			return false;
		/* Perhaps it is mapped only later. */
		if (region && region->kind == SIM_GRAPH)
			return bytes <= region->va + region->bytes - va;
		if (!sim_reach(agent, va, bytes, &piece))
			return false;
		sim_piece_done(&piece);
		va += piece.bytes;
		bytes -= piece.bytes;
		/* One range of addresses, one allocation. */
		if (bytes && region && region->kind != SIM_RESERVED)
			return false;
	}
	return true;
}

bool sim_is_pageable(CUdeviceptr va)
{
	return !sim_is_device_va(va) && !sim_region_at(va);
}
