/* Who used which physical memory last, and for whom; see oracle.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/gpusim.h"
#include "tests/sim/graph.h"
#include "tests/sim/oracle.h"

#define CELL      512u /* bytes; no allocation shares one with another */
#define CELL_KEEP 24u

struct sim_use_by {
	const struct sim_past *past;
	const struct sim_use *use;
};

/* The last uses of a cell, those that came before others of their strand and
 * tenant left out. */
struct sim_cell {
	unsigned n, room;
	struct sim_use_by *by;
};

/* The program's allocations. Guarded by sim.lock. */
static struct tenant {
	CUdeviceptr va;
	uint64_t bytes;
	uint32_t serial;
} * tenants;
static size_t num_tenants, room_tenants;
static uint32_t last_tenant;

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static const struct tenant *tenant_at(CUdeviceptr va)
{
	for (size_t i = 0; i < num_tenants; i++)
		if (va - tenants[i].va < tenants[i].bytes)
			return &tenants[i];
	return NULL;
}

/* ---- what work uses -------------------------------------------------------------- */

static void add(struct sim_uses *uses, CUdeviceptr va, uint64_t bytes,
		bool write)
{
	const struct tenant *tenant;

	if (!bytes)
		return;
	if (!sim_is_device_va(va))
		return;
	if (uses->n == uses->room) {
		uses->room = uses->room ? 2 * uses->room : 4;
		uses->at =
			must(realloc(uses->at, uses->room * sizeof(*uses->at)));
	}
	tenant = tenant_at(va);
	uses->at[uses->n++] = (struct sim_use){
		.va = va,
		.bytes = bytes,
		.tenant = tenant ? tenant->serial : 0,
		.write = write,
	};
}

static void add_kernel(struct sim_uses *uses, const struct sim_work *work)
{
	for (unsigned i = 0; i < SIM_ARGS_MAX; i++) {
		const struct sim_touch *touch = &work->kernel->touch[i];

		if (touch->access)
			add(uses, work->args[i],
			    touch->words < 0 ? 4 : 4 * work->args[touch->words],
			    touch->access == SIM_WRITES);
	}
}

void sim_oracle_uses(const struct sim_work *work, struct sim_uses *uses)
{
	switch (work->kind) {
	case SIM_W_COPY:
		/* A staged source was taken when the call was made. */
		if (!sim_is_device_va(work->dst.va) ||
		    (!sim_is_device_va(work->src.va) && !work->staging))
			uses->shows = true;
		add(uses, work->src.va, sim_box_extent(&work->src), false);
		add(uses, work->dst.va, sim_box_extent(&work->dst), true);
		break;
	case SIM_W_SET:
		add(uses, work->dst.va, sim_box_extent(&work->dst), true);
		break;
	case SIM_W_WRITE:
		uses->shows |= !sim_is_device_va(work->dst.va);
		add(uses, work->dst.va, work->bytes, true);
		break;
	case SIM_W_POLL:
		add(uses, work->dst.va, work->bytes, false);
		break;
	case SIM_W_KERNEL:
		add_kernel(uses, work);
		break;
	case SIM_W_HOST:
	case SIM_W_CALLBACK:
		uses->shows = true;
		break;
	case SIM_W_GRAPH:
		for (size_t i = 0; i < work->exec->count; i++)
			sim_oracle_uses(&work->exec->nodes[i]->work, uses);
		break;
	case SIM_W_MARK:
	case SIM_W_WAIT:
	case SIM_W_FREE:
	case SIM_W_NODE_ALLOC:
	case SIM_W_NODE_FREE:
		break;
	}
}

/* ---- cells --------------------------------------------------------------------------- */

static bool before(const struct sim_past *older, const struct sim_past *newer)
{
	return older->strand < newer->width &&
	       older->number <= newer->order[older->strand];
}

static void enter(struct sim_cell *cell, const struct sim_past *past,
		  const struct sim_use *use)
{
	unsigned left = 0;

	for (unsigned i = 0; i < cell->n; i++) {
		struct sim_use_by by = cell->by[i];

		if (by.use->tenant != use->tenant &&
		    (by.use->write || use->write) && !before(by.past, past))
			sim_oracle_object(by.past, past,
					  "two allocations, %u and %u, use one "
					  "place in memory without order",
					  by.use->tenant, use->tenant);
		if (by.use->tenant == use->tenant &&
		    by.past->strand == past->strand &&
		    by.use->write <= use->write)
			continue;
		if (cell->n > CELL_KEEP && sim_oracle_known(by.past))
			continue;
		cell->by[left++] = by;
	}
	cell->n = left;
	if (cell->n == cell->room) {
		cell->room = cell->room ? 2 * cell->room : 2;
		cell->by =
			must(realloc(cell->by, cell->room * sizeof(*cell->by)));
	}
	cell->by[cell->n++] = (struct sim_use_by){past, use};
}

/* The memory behind va, and as much of `bytes` as lies there in one piece. */
static struct sim_phys *behind(CUdeviceptr va, uint64_t *offset,
			       uint64_t *bytes)
{
	struct sim_region *region = sim_region_at(va);
	struct sim_map *map;
	uint64_t left;

	if (!region)
		return NULL;
	if (region->kind != SIM_RESERVED && region->kind != SIM_GRAPH) {
		*offset = va - region->va;
		left = region->span - *offset;
		*bytes = *bytes < left ? *bytes : left;
		return region->phys;
	}
	map = sim_map_at(va);
	if (!map)
		return NULL;
	*offset = va - map->va;
	left = map->bytes - *offset;
	*bytes = *bytes < left ? *bytes : left;
	return map->phys;
}

static void run(const struct sim_past *past, const struct sim_use *use)
{
	CUdeviceptr va = use->va;
	uint64_t left = use->bytes, offset, bytes;

	for (; left; va += bytes, left -= bytes) {
		struct sim_phys *phys;

		bytes = left;
		phys = behind(va, &offset, &bytes);
		if (!phys)
			sim_oracle_object(past, NULL,
					  "the memory of allocation %u is not "
					  "mapped where work uses it",
					  use->tenant);
		if (!phys->cells)
			phys->cells = must(calloc(phys->bytes / CELL + 1,
						  sizeof(*phys->cells)));
		for (uint64_t i = offset / CELL;
		     i <= (offset + bytes - 1) / CELL; i++)
			enter(&phys->cells[i], past, use);
	}
}

/* A pool has memory again once its free is reached: what comes before the free
 * is complete when another gets it, if nobody knew that before. */
static void came_back(struct sim_phys *phys, const struct sim_past *past)
{
	for (uint64_t i = 0; phys && phys->cells && i < phys->bytes / CELL;
	     i++) {
		struct sim_cell *cell = &phys->cells[i];
		unsigned left = 0;

		for (unsigned j = 0; j < cell->n; j++)
			if (!before(cell->by[j].past, past))
				cell->by[left++] = cell->by[j];
		cell->n = left;
	}
}

void sim_oracle_run(const struct sim_op *op)
{
	if (op->work.kind == SIM_W_FREE)
		came_back(op->work.region->phys, op->past);
	for (unsigned i = 0; i < op->past->num_uses; i++)
		run(op->past, &op->past->uses[i]);
}

void sim_oracle_failed(const struct sim_op *op, CUresult err)
{
	if (err == CUDA_ERROR_ASSERT)
		sim_oracle_object(op->past, NULL,
				  "memory does not hold what was put there");
	sim_oracle_object(op->past, NULL, "work failed with error %d",
			  (int)err);
}

/* ---- mappings ---------------------------------------------------------------------------- */

static bool meets(const struct sim_use *use, CUdeviceptr va, uint64_t bytes)
{
	return use->va < va + bytes && va < use->va + use->bytes;
}

static void check_queued(CUdeviceptr va, uint64_t bytes, const char *why)
{
	struct sim_list *l;

	for (l = sim.active.next; l != &sim.active; l = l->next) {
		struct sim_op *op =
			sim_entry(l, struct sim_stream, active)->head;

		for (; op; op = op->next)
			for (unsigned i = 0; i < op->past->num_uses; i++)
				if (meets(&op->past->uses[i], va, bytes))
					sim_oracle_object(op->past, NULL, "%s",
							  why);
	}
}

void sim_oracle_unmap(const struct sim_map *map)
{
	struct sim_phys *phys = map->phys;

	check_queued(map->va, map->bytes,
		     "memory is unmapped that work in a stream will use");
	for (uint64_t i = 0; phys->cells && i < phys->bytes / CELL; i++)
		for (unsigned j = 0; j < phys->cells[i].n; j++)
			if (!sim_oracle_known(phys->cells[i].by[j].past))
				sim_oracle_object(
					phys->cells[i].by[j].past, NULL,
					"memory is unmapped under work that "
					"is not known to be complete");
}

void sim_oracle_phys_free(struct sim_phys *phys)
{
	for (uint64_t i = 0; phys->cells && i < phys->bytes / CELL; i++)
		free(phys->cells[i].by);
	free(phys->cells);
	phys->cells = NULL;
}

/* ---- the program's allocations ---------------------------------------------------------------- */

#define GPUSIM_API __attribute__((visibility("default")))

static bool expect_idle;

GPUSIM_API void gpusim_expect_idle(void)
{
	expect_idle = true;
}

static void check_idle(const struct sim_use *use)
{
	CUdeviceptr va = use->va;
	uint64_t left = use->bytes, offset, bytes;

	check_queued(va, left,
		     "memory is handed out that work in a stream will use");
	for (; left; va += bytes, left -= bytes) {
		struct sim_phys *phys;

		bytes = left;
		phys = behind(va, &offset, &bytes);
		if (!phys)
			return;
		for (uint64_t i = offset / CELL;
		     phys->cells && i <= (offset + bytes - 1) / CELL; i++)
			for (unsigned j = 0; j < phys->cells[i].n; j++)
				if (!sim_oracle_known(
					    phys->cells[i].by[j].past))
					sim_oracle_object(
						phys->cells[i].by[j].past, NULL,
						"memory is handed out that is "
						"not known idle");
	}
}

GPUSIM_API unsigned gpusim_tenant_begin(uint64_t va, uint64_t bytes)
{
	struct sim_use use = {.va = va, .bytes = bytes};

	sim_lock();
	if (expect_idle)
		check_idle(&use);
	if (num_tenants == room_tenants) {
		room_tenants = room_tenants ? 2 * room_tenants : 64;
		tenants =
			must(realloc(tenants, room_tenants * sizeof(*tenants)));
	}
	use.tenant = ++last_tenant;
	tenants[num_tenants++] = (struct tenant){va, bytes, use.tenant};
	sim_oracle_log(SIM_E_ALLOC, NULL, SIM_NO_STRAND, &use);
	sim_unlock();
	return use.tenant;
}

GPUSIM_API void gpusim_tenant_end(uint64_t va)
{
	struct sim_use use = {.va = va};

	sim_lock();
	for (size_t i = 0; i < num_tenants; i++) {
		if (tenants[i].va != va)
			continue;
		use.bytes = tenants[i].bytes;
		use.tenant = tenants[i].serial;
		tenants[i] = tenants[--num_tenants];
		sim_oracle_log(SIM_E_FREE, NULL, SIM_NO_STRAND, &use);
		break;
	}
	sim_unlock();
}
