/*
 * When the pool waits on the host for memory that the device still works on:
 * only where it helps.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/order_impl.h"
#include "pool/state.h"
#include "tests/support/pool_rig.h"

/* One stream whose work is done when the test says so, or is waited for. */
#define STREAM     7
#define MAX_EVENTS 1000

static struct {
	uint64_t submitted, done;
	uint64_t events[MAX_EVENTS + 1]; /* behind so many submissions */
	uint64_t num_events, num_queries;
} device;

static int event_create(void *dev, uint64_t *event)
{
	(void)dev;
	assert_true(device.num_events < MAX_EVENTS);
	*event = ++device.num_events;
	return 0;
}

static int record(void *dev, uint64_t event, uint64_t stream)
{
	(void)dev;
	(void)stream;
	device.events[event] = device.submitted;
	return 0;
}

static int wait_event(void *dev, uint64_t stream, uint64_t event)
{
	(void)dev;
	(void)stream;
	(void)event;
	return 0;
}

static int query(void *dev, uint64_t event)
{
	(void)dev;
	device.num_queries++;
	return device.events[event] <= device.done ? 0 : -EAGAIN;
}

static int event_sync(void *dev, uint64_t event)
{
	(void)dev;
	if (device.done < device.events[event])
		device.done = device.events[event];
	return 0;
}

static bool no(void *dev, uint64_t stream)
{
	(void)dev;
	(void)stream;
	return false;
}

static const struct gp_stream_ops streams = {
	.event_create = event_create,
	.record = record,
	.wait = wait_event,
	.query = query,
	.event_sync = event_sync,
	.is_capturing = no,
	.is_blocking = no,
};

static struct pool_rig rig;

static int open_kind(void **state, bool no_vmm)
{
	*state = &rig;
	device.submitted = device.done = 0;
	device.num_events = device.num_queries = 0;
	rig = pool_rig_new(4 * GIB, no_vmm);
	rig.config.cache_policy = GP_CACHE_KEEP;
	rig.config.sync = false;
	rig.driver.streams = &streams;
	return pool_rig_open(&rig);
}

static int open_rig(void **state)
{
	return open_kind(state, false);
}

static int open_segments(void **state)
{
	return open_kind(state, true);
}

static void submit(void)
{
	struct gp_slot *slot = gp_order_slot(&rig.pool->order, STREAM);

	gp_order_begin(slot);
	device.submitted++;
	gp_order_end(slot);
}

/* Freed behind work; a mark covers it. */
static void free_behind_work(uint64_t va)
{
	submit();
	assert_int_equal(gp_pool_free_own(rig.pool, va), 0);
	submit();
}

static uint64_t waits(void)
{
	return pool_rig_stats(&rig).num_memory_waits;
}

/* A little memory for small blocks is not worth a wait, and large handles would
 * not go there. */
static void small_blocks_do_not_wait(void **state)
{
	uint64_t used;

	(void)state;
	pool_rig_alloc(&rig, 500 * KIB);
	free_behind_work(pool_rig_alloc(&rig, 640 * MIB));
	/* Out of the thread's cache with it. */
	assert_int_not_equal(pool_rig_alloc(&rig, 2 * MIB), 0);
	used = model_used(rig.model);
	for (int i = 0; i < 40; i++)
		assert_int_not_equal(pool_rig_alloc(&rig, 500 * KIB), 0);
	assert_int_equal(waits(), 0);
	assert_true(model_used(rig.model) > used);
}

/* Three ranges of 64, 64 and 32 MiB between live blocks; the last two are one
 * range, and the device still works on the last, which was free before. */
struct layout {
	uint64_t busy, held;
};

static struct layout lay_out(void)
{
	double slack = rig.pool->config.overlap_slack;
	struct layout l;
	uint64_t first = pool_rig_alloc(&rig, 64 * MIB);
	uint64_t second;

	assert_int_not_equal(pool_rig_alloc(&rig, 4 * MIB), 0);
	second = pool_rig_alloc(&rig, 64 * MIB);
	l.busy = pool_rig_alloc(&rig, 32 * MIB);
	assert_int_equal(l.busy, second + 64 * MIB);
	assert_int_not_equal(pool_rig_alloc(&rig, 4 * MIB), 0);
	free_behind_work(l.busy);
	/* Out of the thread's cache with it, without a wait. */
	rig.pool->config.overlap_slack = 1.0;
	assert_int_not_equal(pool_rig_alloc(&rig, 33 * MIB), 0);
	rig.pool->config.overlap_slack = slack;
	device.done = device.submitted;
	assert_int_equal(pool_rig_alloc(&rig, 32 * MIB), l.busy);
	free_behind_work(first);
	free_behind_work(second);
	device.done = device.submitted;
	free_behind_work(l.busy);
	l.held = model_used(rig.model);
	return l;
}

/* What is done moves, although its neighbour is not. */
static void what_is_done_moves_at_once(void **state)
{
	struct layout l = lay_out();

	(void)state;
	assert_int_not_equal(pool_rig_alloc(&rig, 110 * MIB), 0);
	assert_int_equal(waits(), 0);
	assert_int_equal(model_used(rig.model), l.held);
	assert_true(device.done < device.submitted);
	assert_true(model_accessible(rig.model, l.busy, 32 * MIB));
}

/* Where that is not enough the rest is waited for. */
static void what_is_not_done_is_waited_for(void **state)
{
	struct layout l = lay_out();

	(void)state;
	assert_int_not_equal(pool_rig_alloc(&rig, 150 * MIB), 0);
	assert_int_equal(waits(), 1);
	assert_int_equal(model_used(rig.model), l.held);
	assert_false(model_accessible(rig.model, l.busy, 32 * MIB));
}

/* Two ranges of 64 MiB that the device still works on, and nothing else. */
static uint64_t keep_busy(void)
{
	uint64_t first = pool_rig_alloc(&rig, 64 * MIB);
	uint64_t second;

	assert_int_not_equal(pool_rig_alloc(&rig, 4 * MIB), 0);
	second = pool_rig_alloc(&rig, 64 * MIB);
	assert_int_not_equal(pool_rig_alloc(&rig, 4 * MIB), 0);
	free_behind_work(first);
	free_behind_work(second);
	return model_used(rig.model);
}

/* Not enough for the request, be it most of it or less: else both would be
 * held. */
static void most_of_it_is_worth_a_wait(void **state)
{
	uint64_t held = keep_busy();

	(void)state;
	assert_int_not_equal(pool_rig_alloc(&rig, 200 * MIB), 0);
	assert_int_equal(waits(), 1);
	assert_true(model_used(rig.model) <= held + 80 * MIB);
}

static void a_part_of_it_is_worth_a_wait(void **state)
{
	uint64_t held = keep_busy();

	(void)state;
	assert_int_not_equal(pool_rig_alloc(&rig, 600 * MIB), 0);
	assert_int_equal(waits(), 1);
	assert_true(model_used(rig.model) <= held + 480 * MIB);
}

/* The option says how much of it may be held beyond what is live, here 136 MiB
 * at most of 608. */
static void what_the_slack_covers_is_not(void **state)
{
	uint64_t held = keep_busy();

	(void)state;
	rig.pool->config.overlap_slack = 0.25;
	assert_int_not_equal(pool_rig_alloc(&rig, 600 * MIB), 0);
	assert_int_equal(waits(), 0);
	assert_true(model_used(rig.model) >= held + 600 * MIB);
	assert_true(device.done < device.submitted);
}

/* Nothing is gained by a wait where nothing would be moved: with segments, and
 * where moves have taken more time than they may. */
static void what_cannot_move_is_not_waited_for(void **state)
{
	uint64_t held = keep_busy();

	(void)state;
	rig.pool->move_ns = UINT64_MAX / 2;
	assert_int_not_equal(pool_rig_alloc(&rig, 200 * MIB), 0);
	assert_int_equal(waits(), 0);
	assert_true(model_used(rig.model) >= held + 200 * MIB);
	assert_true(device.done < device.submitted);
}

static void segments_are_not_waited_for(void **state)
{
	(void)state;
	free_behind_work(pool_rig_alloc(&rig, 64 * MIB));
	assert_int_not_equal(pool_rig_alloc(&rig, 200 * MIB), 0);
	assert_int_equal(waits(), 0);
	assert_true(device.done < device.submitted);
}

/* Memory is not done with while a part of it is not. */
static void a_handle_is_done_when_all_of_it_is(void **state)
{
	uint64_t a[16], used;

	(void)state;
	/* Several blocks share a handle; the one in the middle is busy. */
	pool_rig_alloc(&rig, 640 * MIB);
	for (int i = 0; i < 16; i++)
		a[i] = pool_rig_alloc(&rig, 1 * MIB);
	assert_int_not_equal(pool_rig_alloc(&rig, 20 * MIB), 0);
	for (int i = 0; i < 16; i++)
		if (i != 5)
			free_behind_work(a[i]);
	device.done = device.submitted;
	free_behind_work(a[5]);
	used = model_used(rig.model);
	rig.pool->config.overlap_slack = 1.0; /* rather grow */
	assert_int_not_equal(pool_rig_alloc(&rig, 40 * MIB), 0);
	assert_true(model_used(rig.model) > used);
	assert_true(model_accessible(rig.model, a[5], 1 * MIB));
	assert_true(device.done < device.submitted);
}

/* The device is some submissions behind, all the time. One question in four
 * marks, or fewer, keeps the events from piling up. */
static void few_marks_are_asked_for(void **state)
{
	struct gp_order *order = &rig.pool->order;
	uint64_t marks;

	(void)state;
	for (int i = 0; i < 800; i++) {
		free_behind_work(pool_rig_alloc(&rig, 64 * KIB));
		device.done = device.submitted - 7;
	}
	marks = gp_order_word(order) >> GP_ORDER_SHIFT;
	assert_true(marks >= 800);
	assert_true(device.num_queries <= marks / 4);
	assert_true(device.num_events <= 32);
}

/* Who asks what is done is told of each mark. */
static void what_is_asked_for_is_exact(void **state)
{
	struct gp_order *order = &rig.pool->order;

	(void)state;
	for (uint64_t done = 0; done <= 20; done++) {
		uint64_t made = gp_order_word(order) >> GP_ORDER_SHIFT;

		for (int i = 0; i < 20; i++)
			free_behind_work(pool_rig_alloc(&rig, 64 * KIB));
		/* Each mark is behind the first of its two submissions. */
		device.done = device.submitted - 40 + 2 * done;
		gp_order_poll(order);
		assert_int_equal(order->done, made + done);
		device.done = device.submitted;
		gp_order_poll(order);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, open_rig, pool_rig_end)
	const struct CMUnitTest tests[] = {
		T(small_blocks_do_not_wait),
		T(what_is_done_moves_at_once),
		T(what_is_not_done_is_waited_for),
		T(most_of_it_is_worth_a_wait),
		T(a_part_of_it_is_worth_a_wait),
		T(what_the_slack_covers_is_not),
		T(what_cannot_move_is_not_waited_for),
		cmocka_unit_test_setup_teardown(segments_are_not_waited_for,
						open_segments, pool_rig_end),
		T(a_handle_is_done_when_all_of_it_is),
		T(few_marks_are_asked_for),
		T(what_is_asked_for_is_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
