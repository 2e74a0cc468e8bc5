/*
 * The graphs that were instantiated and allocate; see graphs.h.
 */
#include <pthread.h>
#include <stdlib.h>

#include "shim/graphs.h"
#include "shim/state.h"

#define BUCKETS 256u

/* Guarded by lock. */
struct exec {
	struct exec *next; /* of the bucket */
	CUgraphExec handle;
	struct gp_graph_need need;
	uintptr_t stream; /* of the last launch */
	uint64_t era;     /* of the device, then */
};

/* Rank: leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct exec *buckets[BUCKETS]; /* guarded by lock */

static struct exec **link_of(CUgraphExec handle)
{
	uint64_t key = (uintptr_t)handle * 0x9e3779b97f4a7c15ull;
	struct exec **link = &buckets[key >> 56];

	while (*link && (*link)->handle != handle)
		link = &(*link)->next;
	return link;
}

static struct exec *take_out(CUgraphExec handle)
{
	struct exec **link = link_of(handle), *exec = *link;

	if (exec)
		*link = exec->next;
	return exec;
}

void gp_graph_exec_goes(CUgraphExec handle)
{
	struct exec *exec;

	if (!gp_running() || !gp_graphs_may_allocate())
		return;
	pthread_mutex_lock(&lock);
	exec = take_out(handle);
	pthread_mutex_unlock(&lock);
	free(exec);
}

void gp_graph_instantiated(CUgraphExec handle, CUgraph graph)
{
	struct exec *exec = NULL, *before, **link;
	struct gp_graph_need need;

	if (!gp_running() || !gp_graphs_may_allocate())
		return;
	gp_graph_ask(graph, &need);
	if (!need.told || need.num)
		exec = calloc(1, sizeof(*exec));
	if (exec) {
		exec->handle = handle;
		exec->need = need;
	}
	pthread_mutex_lock(&lock);
	before = take_out(handle); /* destroyed unseen */
	if (exec) {
		link = link_of(handle);
		exec->next = *link;
		*link = exec;
	}
	pthread_mutex_unlock(&lock);
	free(before);
}

void gp_graph_stream_goes(CUstream stream)
{
	if (!gp_running() || !gp_graphs_may_allocate())
		return;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct exec *e = buckets[i]; e; e = e->next)
			if (e->stream == (uintptr_t)stream)
				e->stream = 0;
	pthread_mutex_unlock(&lock);
}

bool gp_graph_exec_find(CUgraphExec handle, uintptr_t stream,
			struct gp_graph_need *need, uint64_t *era)
{
	const struct exec *exec;

	pthread_mutex_lock(&lock);
	exec = *link_of(handle);
	if (exec) {
		*need = exec->need;
		*era = stream && exec->stream == stream ? exec->era : 0;
	}
	pthread_mutex_unlock(&lock);
	return exec;
}

void gp_graph_exec_has(CUgraphExec handle, uintptr_t stream, uint64_t era)
{
	struct exec *exec;

	pthread_mutex_lock(&lock);
	exec = *link_of(handle);
	if (exec) {
		exec->stream = stream;
		exec->era = era;
	}
	pthread_mutex_unlock(&lock);
}
