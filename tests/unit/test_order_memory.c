/* Host memory that is lacking for what the order knows of its own streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "pool/order_impl.h"
#include "tests/support/order_model.h"

/* Of such records not one fits into the address space. */
#define TOO_LARGE ((size_t)1 << 58)

static struct {
	struct om *om;
	struct gp_driver driver;
	struct gp_order order;
	struct gp_stream_ops streams, real;
	struct gp_driver_ops ops;
	int (*sync)(void *dev);
	uint64_t made, gone; /* streams of the order's own */
	unsigned waits;      /* on the host */
} world;

static int make_stream(void *dev, bool blocking, uint64_t *stream)
{
	int rc = world.real.stream_create(dev, blocking, stream);

	world.made = *stream;
	return rc;
}

static void destroy_stream(void *dev, uint64_t stream)
{
	world.gone = stream;
	world.real.stream_destroy(dev, stream);
}

static int sync_context(void *dev)
{
	world.waits++;
	return world.sync(dev);
}

static int sync_event(void *dev, uint64_t event)
{
	world.waits++;
	return world.real.event_sync(dev, event);
}

static int set_up(void **state)
{
	(void)state;
	world.om = om_create(1, &world.driver);
	om_thread(0);
	world.real = world.streams = *world.driver.streams;
	world.streams.stream_create = make_stream;
	world.streams.stream_destroy = destroy_stream;
	world.streams.event_sync = sync_event;
	world.driver.streams = &world.streams;
	world.ops = *world.driver.ops;
	world.sync = world.ops.sync;
	world.ops.sync = sync_context;
	world.driver.ops = &world.ops;
	world.made = world.gone = world.waits = 0;
	gp_order_init(&world.order, &world.driver, GP_BARRIER_AUTO, false);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	gp_order_exit(&world.order);
	om_destroy(world.om);
	return 0;
}

/* A stream of the program with work in it. */
static struct gp_stream *busy_stream(void)
{
	uint64_t key = om_stream(world.om, false);
	struct gp_slot *slot = gp_order_slot(&world.order, key);

	gp_order_begin(slot);
	om_submit(world.om, key, 0, 1);
	gp_order_end(slot);
	return slot->stream;
}

/* The stream goes meanwhile: its work is waited for, as no stream of the order's
 * own can hold it. */
static void goes_without(struct gp_objects *lacking)
{
	struct gp_stream *stream = busy_stream();
	struct gp_objects enough = *lacking;
	uint64_t count = world.order.streams.count;

	lacking->spare = 0;
	lacking->size = TOO_LARGE;
	gp_order_set_off(&world.order, stream);
	assert_true(world.made);
	assert_int_equal(world.gone, world.made);
	assert_int_equal(world.waits, 1);
	assert_null(world.order.anchor);
	assert_int_equal(world.order.streams.count, count);
	assert_null(gp_order_known(&world.order, world.made));
	lacking->spare += enough.spare;
	lacking->size = enough.size;
}

/* One of the program's with the handle is what it is, and has the work that it
 * was given; and the order gets another. */
static void goes_on(void)
{
	uint64_t handle = world.made;
	struct gp_slot *slot = gp_order_slot(&world.order, handle);

	assert_non_null(slot);
	assert_true(slot->owner == gp_thread_self());
	assert_null(slot->next);
	gp_order_set_off(&world.order, busy_stream());
	assert_non_null(world.order.anchor);
	assert_true(world.made != handle);
	assert_int_equal(world.waits, 1);
	assert_null(om_error(world.om));
}

static void test_no_slot(void **state)
{
	(void)state;
	goes_without(&world.order.streams.slots);
	goes_on();
}

static void test_no_entry(void **state)
{
	(void)state;
	goes_without(&world.order.streams.streams);
	goes_on();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_slot, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_no_entry, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
