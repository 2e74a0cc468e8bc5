#include "tests/sim/graph_memory.h"

#include <stdlib.h>

#include "tests/sim/engine.h"
#include "tests/sim/pool.h"

/* ---- what a graph has ---------------------------------------------------------------- */

static uint64_t up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static struct sim_slot *new_slot(struct sim_graph *graph,
				 struct sim_device *device, uint64_t bytes)
{
	void *more = realloc(graph->slots,
			     (graph->num_slots + 1) * sizeof(*graph->slots));
	struct sim_slot *slot;

	if (!more)
		return NULL;
	graph->slots = more;
	slot = sim_slot_new(device, bytes);
	if (slot)
		graph->slots[graph->num_slots++] = slot;
	return slot;
}

/* One with room for a small allocation, else a new one. */
static struct sim_slot *slot_for(struct sim_graph *graph,
				 struct sim_device *device, uint64_t bytes)
{
	uint64_t align, span = sim_region_span(bytes, &align);

	for (size_t i = 0; bytes <= SIM_SMALL && i < graph->num_slots; i++) {
		struct sim_slot *slot = graph->slots[i];

		if (slot->device == device && slot->filled &&
		    up(slot->filled, align) + span <= slot->bytes)
			return slot;
	}
	return new_slot(graph, device, up(span, SIM_GRANULE));
}

/* Of the graph's i-th allocation; a reset may have freed it, and another have
 * the address. */
static struct sim_region *region_at(const struct sim_graph *graph, size_t i)
{
	const struct sim_graph_part *part = &graph->memory[i];
	struct sim_region *region = sim_region_at(part->va);

	return region && region->id == part->id ? region : NULL;
}

/* One that was freed before, and has the same span. */
static struct sim_region *again(struct sim_graph *graph,
				struct sim_device *device, uint64_t bytes,
				struct sim_node *const *deps, size_t dep_count)
{
	uint64_t align, span = sim_region_span(bytes, &align);

	for (size_t i = 0; i < graph->memory_count; i++) {
		struct sim_node *by = graph->memory[i].freed_by;
		struct sim_region *region = region_at(graph, i);

		if (!by || !region || region->span != span ||
		    region->device != device ||
		    !sim_node_before(by, deps, dep_count))
			continue;
		graph->memory[i].freed_by = NULL;
		region->bytes = bytes;
		return region;
	}
	return NULL;
}

static bool keep(struct sim_graph *graph, const struct sim_region *region)
{
	size_t n = graph->memory_count;
	void *more = realloc(graph->memory, (n + 1) * sizeof(*graph->memory));

	if (!more)
		return false;
	graph->memory = more;
	graph->memory[n] = (struct sim_graph_part){
		.va = region->va,
		.id = region->id,
	};
	graph->memory_count++;
	return true;
}

CUresult sim_graph_take(struct sim_graph *graph, struct sim_ctx *ctx,
			struct sim_device *device, uint64_t bytes,
			struct sim_node *const *deps, size_t dep_count,
			struct sim_region **out)
{
	struct sim_slot *slot;
	uint64_t align, at;
	CUresult err;

	if (bytes > device->total)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = again(graph, device, bytes, deps, dep_count);
	if (*out)
		return CUDA_SUCCESS;
	slot = slot_for(graph, device, bytes);
	if (!slot)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_region_span(bytes, &align);
	at = up(slot->filled, align);
	err = sim_region_place(ctx, SIM_GRAPH, bytes, NULL, slot->va + at, out);
	if (err)
		return err;
	(*out)->device = device;
	(*out)->slot = slot;
	slot->refs++;
	slot->filled = at + (*out)->span;
	if (keep(graph, *out))
		return CUDA_SUCCESS;
	sim_region_destroy(*out);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* NULL: it is another graph's; its launch says whether it may be freed. */
static struct sim_graph_part *part_of(const struct sim_graph *graph,
				      const struct sim_region *region)
{
	for (size_t i = 0; i < graph->memory_count; i++)
		if (region_at(graph, i) == region)
			return &graph->memory[i];
	return NULL;
}

bool sim_graph_may_free(const struct sim_graph *graph,
			const struct sim_region *region)
{
	const struct sim_graph_part *part = part_of(graph, region);

	return !part || !part->freed_by;
}

void sim_graph_frees(struct sim_graph *graph, const struct sim_region *region,
		     struct sim_node *node)
{
	struct sim_graph_part *part = part_of(graph, region);

	if (part)
		part->freed_by = node;
}

void sim_graph_region_gone(struct sim_region *region)
{
	if (region->held)
		sim_slot_hold(region->slot, -1);
	sim_slot_unref(region->slot);
}

void sim_graph_memory_drop(struct sim_graph *graph)
{
	for (size_t i = 0; i < graph->memory_count; i++) {
		struct sim_region *region = region_at(graph, i);

		if (region && !region->held)
			sim_region_destroy(region);
		else if (region)
			region->orphan = true;
	}
	for (size_t i = 0; i < graph->num_slots; i++)
		sim_slot_unref(graph->slots[i]);
	if (graph->run)
		sim_run_unref(graph->run);
	free(graph->memory);
	free(graph->slots);
}

/* ---- launches ---------------------------------------------------------------------------- */

static bool choose_all(struct sim_graph *graph, uint64_t stream)
{
	uint64_t search = ++sim.next_id;
	bool good = true;

	for (size_t i = 0; i < graph->num_slots; i++)
		if (sim_slot_is_mapped(graph->slots[i], stream))
			sim_slot_claim(graph->slots[i], search);
	for (size_t i = 0; i < graph->num_slots && good; i++)
		if (!sim_slot_is_mapped(graph->slots[i], stream))
			good = sim_slot_choose(graph->slots[i], stream, search);
	for (size_t i = 0; i < graph->num_slots && !good; i++)
		sim_slot_forgo(graph->slots[i]);
	return good;
}

/* Is all of it mapped for this stream, and none of it held by others? */
static bool is_mapped(struct sim_graph *graph, uint64_t stream)
{
	for (size_t i = 0; i < graph->num_slots; i++)
		if (!sim_slot_is_mapped(graph->slots[i], stream))
			return false;
	return true;
}

/* What nobody uses is given up before a launch goes without. */
static bool make_room(const struct sim_graph *graph)
{
	bool some = false;

	for (size_t i = 0; i < graph->num_slots; i++) {
		some |= sim_graphs_trim(graph->slots[i]->device);
		some |= sim_pools_trim(graph->slots[i]->device);
	}
	return some;
}

static void use_all(struct sim_graph *graph, struct sim_run *run)
{
	for (size_t i = 0; i < graph->num_slots; i++)
		sim_slot_use(graph->slots[i], run);
}

/* A launch that is not done keeps what it has until there is more. */
static void let_go(struct sim_graph *graph, uint64_t stream)
{
	if (graph->run && !graph->run->done)
		return;
	for (size_t i = 0; i < graph->num_slots; i++)
		if (!sim_slot_is_mapped(graph->slots[i], stream))
			sim_slot_unmap(graph->slots[i]);
}

CUresult sim_graph_map(struct sim_graph *graph, const struct sim_stream *stream)
{
	bool good = true;

	if (is_mapped(graph, stream->id))
		return CUDA_SUCCESS;
	let_go(graph, stream->id);
	if (!choose_all(graph, stream->id) &&
	    (!make_room(graph) || !choose_all(graph, stream->id))) {
		make_room(graph); /* what it could have of the device */
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; i < graph->num_slots; i++)
		if (graph->slots[i]->chosen)
			good &= sim_slot_map(graph->slots[i], stream->id);
	if (graph->run) /* whose work is done there now, if it is not done yet */
		use_all(graph, graph->run);
	return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Nodes that free what another graph's launch left allocated. */
static void free_others(struct sim_graph *graph, struct sim_run *run)
{
	for (size_t i = 0; i < graph->count; i++) {
		const struct sim_work *work = &graph->nodes[i]->work;
		struct sim_region *region;

		if (work->kind != SIM_W_NODE_FREE)
			continue;
		region = sim_region_at(work->dst.va);
		if (!region || region->id != work->value ||
		    !sim_graph_freed(region))
			continue;
		sim_slot_use(region->slot, run);
		sim_graph_reached(region);
	}
}

static bool is_left(const struct sim_graph *graph)
{
	for (size_t i = 0; i < graph->memory_count; i++) {
		const struct sim_region *region = region_at(graph, i);

		if (region && region->held && !region->dying)
			return true;
	}
	return false;
}

/* What no node of its own frees is held from now on. */
static void hold_left(struct sim_graph *graph)
{
	for (size_t i = 0; i < graph->memory_count; i++) {
		struct sim_region *region = region_at(graph, i);

		if (!region || graph->memory[i].freed_by)
			continue;
		region->dying = false;
		if (!region->held++)
			sim_slot_hold(region->slot, 1);
	}
}

void sim_graph_cancel(struct sim_graph *graph)
{
	for (size_t i = 0; i < graph->memory_count; i++) {
		struct sim_region *region = region_at(graph, i);

		if (region && sim_graph_freed(region))
			sim_graph_reached(region);
	}
}

CUresult sim_graph_begin(struct sim_graph *graph,
			 const struct sim_stream *stream, bool auto_free,
			 struct sim_run **out)
{
	struct sim_run *run;
	CUresult err;

	*out = NULL;
	if (!graph->has_memory)
		return CUDA_SUCCESS;
	if (stream->capture)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (is_left(graph) && !auto_free)
		return CUDA_ERROR_INVALID_VALUE;
	run = calloc(1, sizeof(*run));
	if (!run)
		return CUDA_ERROR_OUT_OF_MEMORY;
	run->refs = 1;
	if (is_left(graph))
		sim_graph_cancel(graph);
	err = sim_graph_map(graph, stream);
	if (err) {
		sim_run_unref(run);
		return err;
	}
	use_all(graph, run);
	if (graph->run)
		sim_run_unref(graph->run);
	graph->run = run;
	run->refs++;
	free_others(graph, run);
	hold_left(graph);
	*out = run;
	return CUDA_SUCCESS;
}

/* ---- frees of what a launch left allocated ------------------------------------------------- */

bool sim_graph_freed(struct sim_region *region)
{
	if (!region->held || region->dying)
		return false;
	region->dying = true;
	return true;
}

void sim_graph_reached(struct sim_region *region)
{
	if (!region->held || --region->held)
		return; /* launched again before the free was reached */
	sim_slot_hold(region->slot, -1);
	if (region->orphan)
		sim_region_destroy(region);
}
