/*
 * How much memory a graph can need: as much as the addresses of its allocations
 * span. A graph has memory that it freed again under the same addresses.
 */
#include <stdlib.h>

#include "pool/limit.h"
#include "shim/graphs.h"

/* Children of children are the last that are looked at. */
#define MAX_DEPTH 8

struct range {
	CUdevice device;
	CUdeviceptr at;    /* as the node has it */
	uint64_t from, to; /* of whole pieces */
};

struct list {
	struct range *at; /* owned */
	size_t num, room;
};

static bool add(struct list *list, const struct range *range)
{
	size_t room = list->room ? 2 * list->room : 16;
	struct range *more;

	if (list->num == list->room) {
		more = realloc(list->at, room * sizeof(*more));
		if (!more)
			return false;
		list->at = more;
		list->room = room;
	}
	list->at[list->num++] = *range;
	return true;
}

static bool add_alloc(struct list *allocs, CUgraphNode node)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
	struct range range;

	if (gp_real()->cuGraphMemAllocNodeGetParams(node, &params) !=
	    CUDA_SUCCESS)
		return false;
	if (params.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return true; /* host memory */
	range.device = params.poolProps.location.id;
	range.at = params.dptr;
	range.from = params.dptr / GP_LIMIT_PIECE * GP_LIMIT_PIECE;
	range.to = (params.dptr + params.bytesize + GP_LIMIT_PIECE - 1) /
		   GP_LIMIT_PIECE * GP_LIMIT_PIECE;
	return add(allocs, &range);
}

static bool add_free(struct list *frees, CUgraphNode node)
{
	struct range range = {0};

	return gp_real()->cuGraphMemFreeNodeGetParams(node, &range.at) ==
		       CUDA_SUCCESS &&
	       add(frees, &range);
}

static bool look(CUgraph graph, struct list *allocs, struct list *frees,
		 int depth);

static bool look_at(CUgraphNode node, struct list *allocs, struct list *frees,
		    int depth)
{
	const struct gp_real *real = gp_real();
	CUgraphNodeType type;
	CUgraph child;

	if (real->cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		return false;
	switch ((int)type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return add_alloc(allocs, node);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return add_free(frees, node);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return depth < MAX_DEPTH &&
		       real->cuGraphChildGraphNodeGetGraph(node, &child) ==
			       CUDA_SUCCESS &&
		       look(child, allocs, frees, depth + 1);
	default:
		return true;
	}
}

static bool look(CUgraph graph, struct list *allocs, struct list *frees,
		 int depth)
{
	CUgraphNode *nodes;
	size_t num = 0;
	bool good;

	if (gp_real()->cuGraphGetNodes(graph, NULL, &num) != CUDA_SUCCESS)
		return false;
	nodes = calloc(num + 1, sizeof(CUgraphNode));
	good = nodes &&
	       gp_real()->cuGraphGetNodes(graph, nodes, &num) == CUDA_SUCCESS;
	for (size_t i = 0; i < num && good; i++)
		good = look_at(nodes[i], allocs, frees, depth);
	free(nodes);
	return good;
}

static int compare(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

/* Is any of the allocations not freed? Both are in order of their addresses, an
 * address as often as it was allocated, or freed. */
static bool any_left(const struct list *allocs, const struct list *frees)
{
	size_t f = 0;

	for (size_t i = 0; i < allocs->num; i++) {
		while (f < frees->num && frees->at[f].at < allocs->at[i].at)
			f++;
		if (f == frees->num || frees->at[f].at != allocs->at[i].at)
			return true;
		f++;
	}
	return false;
}

static bool charge(struct gp_graph_need *need, CUdevice device, uint64_t bytes)
{
	unsigned i = 0;

	while (i < need->num && need->on[i].device != device)
		i++;
	if (i == GP_GRAPH_DEVICES)
		return false;
	if (i == need->num) {
		need->on[i].device = device;
		need->on[i].bytes = 0;
		need->num++;
	}
	need->on[i].bytes += bytes;
	return true;
}

static bool sum(struct gp_graph_need *need, const struct list *allocs)
{
	uint64_t end = 0;
	bool good = true;

	for (size_t i = 0; i < allocs->num && good; i++) {
		const struct range *r = &allocs->at[i];
		uint64_t from = r->from;

		if (i && r->device == r[-1].device && from < end)
			from = end;
		if (!i || r->device != r[-1].device || r->to > end)
			end = r->to;
		good = charge(need, r->device, from < r->to ? r->to - from : 0);
	}
	return good;
}

static void sort(struct list *list)
{
	if (list->num)
		qsort(list->at, list->num, sizeof(*list->at), compare);
}

void gp_graph_ask(CUgraph graph, struct gp_graph_need *need)
{
	struct list allocs = {0}, frees = {0};
	bool good = look(graph, &allocs, &frees, 0);

	*need = (struct gp_graph_need){0};
	sort(&allocs);
	sort(&frees);
	need->told = good && sum(need, &allocs);
	if (!need->told)
		need->num = 0;
	/* Addresses of several devices are not in one order: to be sure. */
	need->leaves =
		!need->told || need->num > 1 || any_left(&allocs, &frees);
	free(allocs.at);
	free(frees.at);
}
