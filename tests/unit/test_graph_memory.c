/* What a limit holds of the memory of graphs, which the driver takes when one is
 * launched, whoever has how much by then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/graph_execs.c"
#define lock lock_of_memory
#include "shim/graph_memory.c"
#undef lock
#include "shim/graph_need.c"

#define MIB       (1ull << 20)
#define STREAM    ((CUstream)(uintptr_t)0x100)
#define OTHER     ((CUstream)(uintptr_t)0x200)
#define EXEC      ((CUgraphExec)(uintptr_t)0x300)
#define EXEC_2    ((CUgraphExec)(uintptr_t)0x400)
#define MAX_NODES 8

struct node {
	CUgraphNodeType type;
	CUdeviceptr at;
	size_t bytes;
	CUdevice device;
	struct graph *child;
};

struct graph {
	struct node nodes[MAX_NODES];
	size_t num;
};

static struct {
	struct gp_limit limit;
	uint64_t reserved; /* by the driver, for graphs */
	uint64_t in_use;   /* of that: a trim leaves it */
	uint64_t cached;   /* on the ledger, and nobody uses it */
	unsigned refusals, trims;
	bool silent;             /* the driver does not answer */
	void (*meanwhile)(void); /* while the driver is asked */
} world;

/* ---- in place of the driver and the rest of the shim -------------------------------- */

int gp_phase_now = GP_RUNNING;

static CUresult get_device(CUdevice *device)
{
	*device = 1;
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
	*context = NULL;
	return CUDA_SUCCESS;
}

static CUresult get_attribute(CUdevice device, CUgraphMem_attribute attribute,
			      void *value)
{
	void (*meanwhile)(void) = world.meanwhile;

	assert_int_equal(device, 1);
	assert_int_equal(attribute, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
	*(cuuint64_t *)value = world.reserved;
	world.meanwhile = NULL;
	if (meanwhile)
		meanwhile();
	return world.silent ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult trim(CUdevice device)
{
	assert_int_equal(device, 1);
	world.reserved = world.in_use;
	world.trims++;
	return CUDA_SUCCESS;
}

static CUresult get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *num)
{
	struct graph *graph = (struct graph *)(void *)handle;

	if (world.silent)
		return CUDA_ERROR_UNKNOWN;
	for (size_t i = 0; nodes && i < *num; i++)
		nodes[i] = (CUgraphNode)(void *)&graph->nodes[i];
	*num = graph->num;
	return CUDA_SUCCESS;
}

static CUresult get_type(CUgraphNode node, CUgraphNodeType *type)
{
	*type = ((struct node *)(void *)node)->type;
	return CUDA_SUCCESS;
}

static CUresult alloc_params(CUgraphNode handle,
			     CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	const struct node *node = (struct node *)(void *)handle;

	params->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params->poolProps.location.id = node->device;
	params->bytesize = node->bytes;
	params->dptr = node->at;
	return CUDA_SUCCESS;
}

static CUresult free_params(CUgraphNode node, CUdeviceptr *at)
{
	*at = ((struct node *)(void *)node)->at;
	return CUDA_SUCCESS;
}

static CUresult child_of(CUgraphNode node, CUgraph *child)
{
	*child = (CUgraph)(void *)((struct node *)(void *)node)->child;
	return CUDA_SUCCESS;
}

static const struct gp_real real = {
	.cuCtxGetDevice = get_device,
	.cuCtxGetCurrent = get_current,
	.cuDeviceGetGraphMemAttribute = get_attribute,
	.cuDeviceGraphMemTrim = trim,
	.cuGraphGetNodes = get_nodes,
	.cuGraphNodeGetType = get_type,
	.cuGraphMemAllocNodeGetParams = alloc_params,
	.cuGraphMemFreeNodeGetParams = free_params,
	.cuGraphChildGraphNodeGetGraph = child_of,
};
const struct gp_real *gp_real_table = &real;

const struct gp_real *gp_real_find(void)
{
	return &real;
}

struct gp_limit *gp_device_limit(CUdevice device)
{
	assert_int_equal(device, 1);
	return &world.limit;
}

bool gp_device_capped(CUdevice device)
{
	assert_int_equal(device, 1);
	return true;
}

uint64_t gp_room_make_idle(CUdevice device, uint64_t bytes)
{
	uint64_t given = bytes < world.cached ? bytes : world.cached;

	gp_limit_adjust(&world.limit, GP_PART_pool, world.cached,
			world.cached - given);
	world.cached -= given;
	return given ? given : gp_graph_trim(device);
}

int gp_room_reserve(CUdevice device, const struct gp_charge *charge,
		    CUcontext except)
{
	uint64_t outcomes;

	(void)device;
	(void)except;
	return gp_limit_reserve(&world.limit, charge, &outcomes);
}

void gp_take_refused(CUdevice device, uint64_t bytes, const char *call)
{
	(void)device;
	(void)bytes;
	(void)call;
	world.refusals++;
}

/* ---- the tests --------------------------------------------------------------------- */

static int start(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	memset(&devices[1], 0, sizeof(devices[1]));
	gp_graph_exec_goes(EXEC);
	gp_graph_exec_goes(EXEC_2);
	gp_limit_init(&world.limit, 64 * MIB);
	world.cached = 40 * MIB;
	gp_limit_adjust(&world.limit, GP_PART_pool, 0, world.cached);
	gp_graphs_allocate = true;
	return 0;
}

static uint64_t held(void)
{
	struct gp_limit_stats stats;

	gp_limit_get(&world.limit, &stats);
	return stats.held;
}

static uint64_t peak(void)
{
	struct gp_limit_stats stats;

	gp_limit_get(&world.limit, &stats);
	return stats.peak;
}

static void add_node(struct graph *graph, CUgraphNodeType type, CUdeviceptr at,
		     size_t bytes)
{
	graph->nodes[graph->num++] = (struct node){type, at, bytes, 1, NULL};
}

/* It allocates so much, and frees it unless `leaves`. */
static void make(CUgraphExec exec, size_t bytes, bool leaves)
{
	struct graph graph = {.num = 0};

	add_node(&graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, 64 * MIB, bytes);
	if (!leaves)
		add_node(&graph, CU_GRAPH_NODE_TYPE_MEM_FREE, 64 * MIB, 0);
	gp_graph_instantiated(exec, (CUgraph)(void *)&graph);
}

/* What was reserved for it; the driver has `reserved` afterwards. */
static uint64_t launch(CUgraphExec exec, CUstream stream, uint64_t reserved)
{
	struct gp_graph_launch launch;
	uint64_t taken;

	assert_true(gp_graph_begin(&launch, exec, stream, "a call"));
	taken = launch.num ? launch.on[0].taken : 0;
	world.reserved = reserved;
	gp_graph_end(&launch, CUDA_SUCCESS);
	return taken;
}

static void test_asked_when_it_is_added(void **state)
{
	(void)state;
	assert_true(gp_graph_memory(1, 3 * MIB, "a call"));
	assert_int_equal(held(), 40 * MIB); /* none of it is taken yet */
	assert_false(gp_graph_memory(1, 30 * MIB, "a call"));
	assert_int_equal(world.refusals, 1);
}

static struct gp_graph_need need_of(struct graph *graph)
{
	struct gp_graph_need need;

	gp_graph_ask((CUgraph)(void *)graph, &need);
	assert_true(need.told);
	assert_true(need.num <= 1);
	return need;
}

/* As much as its addresses span, in pieces of 2 MiB. */
static void test_what_a_graph_needs(void **state)
{
	struct graph child = {.num = 0}, graph = {.num = 0};

	(void)state;
	assert_int_equal(need_of(&graph).num, 0);
	add_node(&graph, CU_GRAPH_NODE_TYPE_KERNEL, 0, 0);
	add_node(&graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, 16 * MIB, 3 * MIB);
	assert_int_equal(need_of(&graph).on[0].bytes, 4 * MIB);
	assert_true(need_of(&graph).leaves);
	add_node(&graph, CU_GRAPH_NODE_TYPE_MEM_FREE, 16 * MIB, 0);
	assert_false(need_of(&graph).leaves);
	/* The same addresses again. */
	add_node(&graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, 16 * MIB, 2 * MIB);
	assert_int_equal(need_of(&graph).on[0].bytes, 4 * MIB);
	assert_true(need_of(&graph).leaves);
	add_node(&graph, CU_GRAPH_NODE_TYPE_MEM_FREE, 16 * MIB, 0);
	assert_false(need_of(&graph).leaves);
	/* Small ones in one piece; one that ends in the next. */
	add_node(&child, CU_GRAPH_NODE_TYPE_MEM_ALLOC, 32 * MIB, 1000);
	add_node(&child, CU_GRAPH_NODE_TYPE_MEM_ALLOC, 33 * MIB, 1000);
	add_node(&graph, CU_GRAPH_NODE_TYPE_GRAPH, 0, 0);
	graph.nodes[graph.num - 1].child = &child;
	assert_int_equal(need_of(&graph).on[0].bytes, 6 * MIB);
	add_node(&child, CU_GRAPH_NODE_TYPE_MEM_ALLOC, 33 * MIB + 1024,
		 1 * MIB);
	assert_int_equal(need_of(&graph).on[0].bytes, 8 * MIB);
	assert_true(need_of(&graph).leaves);
}

static void test_reserved_before_the_launch(void **state)
{
	struct gp_graph_launch l;

	(void)state;
	make(EXEC, 19 * MIB, false);
	assert_true(gp_graph_begin(&l, EXEC, STREAM, "a call"));
	assert_int_equal(held(), 60 * MIB);
	world.reserved = 16 * MIB; /* less is enough */
	gp_graph_end(&l, CUDA_SUCCESS);
	assert_int_equal(held(), 56 * MIB);
	assert_int_equal(peak(), 56 * MIB);
	/* What is cached makes way. */
	make(EXEC_2, 40 * MIB, false);
	assert_true(gp_graph_begin(&l, EXEC_2, STREAM, "a call"));
	assert_true(world.cached <= 8 * MIB);
	world.reserved = 56 * MIB;
	gp_graph_end(&l, CUDA_SUCCESS);
	assert_true(held() <= 64 * MIB);
	/* So does what the driver has for graphs and no graph uses. */
	gp_graph_exec_goes(EXEC_2);
	make(EXEC_2, 64 * MIB, false);
	assert_true(gp_graph_begin(&l, EXEC_2, STREAM, "a call"));
	assert_int_equal(world.trims, 1);
	gp_graph_end(&l, CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(held(), 0);
	assert_int_equal(world.refusals, 0);
	assert_true(peak() <= 64 * MIB);
}

static void test_refused_without_room(void **state)
{
	struct gp_graph_launch l;

	(void)state;
	make(EXEC, 30 * MIB, true);
	launch(EXEC, STREAM, 30 * MIB);
	world.in_use = 30 * MIB;
	make(EXEC_2, 36 * MIB, false);
	assert_false(gp_graph_begin(&l, EXEC_2, STREAM, "a call"));
	assert_int_equal(world.refusals, 1);
	assert_int_equal(held(), 30 * MIB); /* nothing was of use */
	make(EXEC_2, 34 * MIB, false);
	assert_int_equal(launch(EXEC_2, STREAM, 64 * MIB), 34 * MIB);
}

/* Where the graph surely has it already nothing is reserved again. */
static void test_leans_on_what_it_has(void **state)
{
	(void)state;
	make(EXEC, 4 * MIB, false);
	make(EXEC_2, 2 * MIB, true);
	assert_int_equal(launch(EXEC, STREAM, 4 * MIB), 4 * MIB);
	assert_int_equal(launch(EXEC, STREAM, 4 * MIB), 0);
	assert_int_equal(launch(EXEC, OTHER, 4 * MIB), 4 * MIB);
	assert_int_equal(launch(EXEC, OTHER, 4 * MIB), 0);
	assert_int_equal(gp_graph_trim(1), 4 * MIB);
	assert_int_equal(launch(EXEC, OTHER, 4 * MIB), 4 * MIB);
	/* It may have left memory where the other has its own. */
	assert_int_equal(launch(EXEC_2, OTHER, 6 * MIB), 2 * MIB);
	assert_int_equal(launch(EXEC, OTHER, 6 * MIB), 4 * MIB);
	assert_int_equal(launch(EXEC, OTHER, 6 * MIB), 0);
	/* Handles that may be another's by now. */
	gp_graph_stream_goes(OTHER);
	assert_int_equal(launch(EXEC, OTHER, 6 * MIB), 4 * MIB);
	gp_graph_context_gone();
	assert_int_equal(launch(EXEC, OTHER, 6 * MIB), 4 * MIB);
	gp_graph_exec_goes(EXEC);
	make(EXEC, 2 * MIB, false);
	assert_int_equal(launch(EXEC, OTHER, 6 * MIB), 2 * MIB);
	for (int i = 0; i < 2; i++)
		assert_int_equal(launch(EXEC, CU_STREAM_PER_THREAD, 6 * MIB),
				 2 * MIB);
	assert_true(gp_graph_trim_begin(1));
	assert_int_equal(launch(EXEC, OTHER, 6 * MIB), 2 * MIB);
	gp_graph_trim_end(1);
	assert_int_equal(launch(EXEC, OTHER, 6 * MIB), 2 * MIB);
	assert_int_equal(launch(EXEC, OTHER, 6 * MIB), 0);
	assert_int_equal(held(), 46 * MIB);
}

static void *trim_now(void *arg)
{
	(void)arg;
	gp_graph_trim(1);
	return NULL;
}

/* A trim would take from under it what nothing was reserved for. */
static void test_a_trim_waits_for_who_leans(void **state)
{
	struct timespec nap = {.tv_nsec = 50000000};
	struct gp_graph_launch l;
	pthread_t thread;

	(void)state;
	make(EXEC, 4 * MIB, false);
	launch(EXEC, STREAM, 4 * MIB);
	assert_true(gp_graph_begin(&l, EXEC, STREAM, "a call"));
	assert_int_equal(gp_graph_trim(1), 0); /* nor for himself */
	assert_int_equal(pthread_create(&thread, NULL, trim_now, NULL), 0);
	nanosleep(&nap, NULL);
	assert_int_equal(__atomic_load_n(&world.trims, __ATOMIC_RELAXED), 0);
	gp_graph_end(&l, CUDA_SUCCESS);
	pthread_join(thread, NULL);
	assert_int_equal(world.trims, 1);
	assert_int_equal(launch(EXEC, STREAM, 4 * MIB), 4 * MIB);
}

/* It cannot be refused any more, but what is cached goes. */
static void test_more_than_was_reserved(void **state)
{
	(void)state;
	make(EXEC, 2 * MIB, false);
	assert_int_equal(launch(EXEC, STREAM, 32 * MIB), 2 * MIB);
	assert_int_equal(held(), 64 * MIB);
	/* It grows in such steps, then. */
	assert_int_equal(launch(EXEC, OTHER, 32 * MIB), 32 * MIB);
}

static void test_where_the_driver_does_not_say(void **state)
{
	(void)state;
	world.silent = true;
	make(EXEC, 4 * MIB, false);
	world.silent = false;
	assert_int_equal(launch(EXEC, STREAM, 10 * MIB), 0);
	assert_int_equal(held(), 50 * MIB); /* counted all the same */
	make(EXEC, 4 * MIB, false);
	world.silent = true;
	assert_int_equal(launch(EXEC, STREAM, 10 * MIB), 4 * MIB);
	assert_int_equal(held(), 54 * MIB);
	world.silent = false;
	gp_graph_refresh(1);
	assert_int_equal(held(), 50 * MIB);
}

static void another(void)
{
	launch(EXEC_2, OTHER, 12 * MIB);
}

/* Two threads launch: what one is told first it may tell last. */
static void test_the_newest_answer_counts(void **state)
{
	(void)state;
	make(EXEC, 4 * MIB, false);
	make(EXEC_2, 8 * MIB, false);
	world.meanwhile = another;
	launch(EXEC, STREAM, 4 * MIB);
	assert_int_equal(held(), 52 * MIB);
	assert_int_equal(peak(), 52 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_asked_when_it_is_added, start),
		cmocka_unit_test_setup(test_what_a_graph_needs, start),
		cmocka_unit_test_setup(test_reserved_before_the_launch, start),
		cmocka_unit_test_setup(test_refused_without_room, start),
		cmocka_unit_test_setup(test_leans_on_what_it_has, start),
		cmocka_unit_test_setup(test_a_trim_waits_for_who_leans, start),
		cmocka_unit_test_setup(test_more_than_was_reserved, start),
		cmocka_unit_test_setup(test_where_the_driver_does_not_say,
				       start),
		cmocka_unit_test_setup(test_the_newest_answer_counts, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
