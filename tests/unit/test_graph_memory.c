/* What a limit holds of the memory of graphs, which the driver takes when one is
 * launched, whoever has how much by then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/graph_memory.c"

#define MIB (1ull << 20)

static struct {
	struct gp_limit limit;
	uint64_t reserved; /* by the driver, for graphs */
	uint64_t cached;   /* on the ledger, and nobody uses it */
	uint64_t asked;    /* to be given back, in all */
	unsigned refusals;
	void (*meanwhile)(void); /* while the driver is asked */
} world;

/* ---- in place of the driver and the rest of the shim -------------------------------- */

int gp_phase_now = GP_RUNNING;

static CUresult get_device(CUdevice *device)
{
	*device = 1;
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
	return CUDA_SUCCESS;
}

static const struct gp_real real = {
	.cuCtxGetDevice = get_device,
	.cuDeviceGetGraphMemAttribute = get_attribute,
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

int gp_room_reserve(CUdevice device, const struct gp_charge *charge,
		    CUcontext except)
{
	uint64_t outcomes;

	(void)device;
	(void)except;
	return gp_limit_reserve(&world.limit, charge, &outcomes);
}

uint64_t gp_room_make_idle(CUdevice device, uint64_t bytes)
{
	assert_int_equal(device, 1);
	world.asked += bytes;
	if (bytes > world.cached)
		bytes = world.cached;
	gp_limit_adjust(&world.limit, GP_PART_pool, world.cached,
			world.cached - bytes);
	world.cached -= bytes;
	return bytes;
}

void gp_take_refused(CUdevice device, uint64_t bytes, const char *call)
{
	(void)device;
	(void)bytes;
	(void)call;
	world.refusals++;
}

/* ---- the tests --------------------------------------------------------------------- */

static int set_up(void **state)
{
	(void)state;
	world.reserved = 0;
	gp_limit_init(&world.limit, 64 * MIB);
	charged[1] = 0;
	world.asked = 0;
	world.cached = 40 * MIB;
	gp_limit_adjust(&world.limit, GP_PART_pool, 0, world.cached);
	return 0;
}

static uint64_t held(void)
{
	struct gp_limit_stats stats;

	gp_limit_get(&world.limit, &stats);
	return stats.held;
}

static void launch(uint64_t reserved)
{
	world.reserved = reserved;
	gp_graph_launched(CUDA_SUCCESS);
}

static void test_asked_when_it_is_added(void **state)
{
	(void)state;
	assert_true(gp_graph_memory(1, 3 * MIB, "a call"));
	assert_int_equal(held(), 40 * MIB); /* none of it is taken yet */
	assert_false(gp_graph_memory(1, 30 * MIB, "a call"));
	assert_int_equal(world.refusals, 1);
}

static void test_makes_room_at_the_launch(void **state)
{
	(void)state;
	launch(20 * MIB);
	assert_int_equal(held(), 60 * MIB);
	assert_int_equal(world.asked, 0);
	launch(30 * MIB);
	assert_int_equal(world.asked, 6 * MIB);
	assert_int_equal(held(), 64 * MIB);
	launch(70 * MIB); /* as it is so already */
	assert_int_equal(held(), 70 * MIB);
	launch(0);
	assert_int_equal(held(), 0);
}

static void another(void)
{
	launch(8 * MIB);
}

/* Two threads launch: what one is told first it may tell last. */
static void test_the_newest_answer_counts(void **state)
{
	(void)state;
	world.meanwhile = another;
	launch(4 * MIB);
	assert_int_equal(held(), 48 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_asked_when_it_is_added, set_up),
		cmocka_unit_test_setup(test_makes_room_at_the_launch, set_up),
		cmocka_unit_test_setup(test_the_newest_answer_counts, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
