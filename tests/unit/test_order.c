/* Reuse in stream order, against streams as vector clocks. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "pool/order_impl.h"
#include "tests/support/order_model.h"
#include "tests/support/order_random.h"

struct fixture {
	struct om *om;
	struct gp_driver driver;
	struct gp_order order;
};

static void set_up(struct fixture *f)
{
	f->om = om_create(1, &f->driver);
	om_judge_all(f->om, true);
	om_thread(0);
	gp_order_init(&f->order, &f->driver, GP_BARRIER_AUTO, false);
}

static void tear_down(struct fixture *f)
{
	const char *error = om_error(f->om);

	if (error)
		fail_msg("%s", error);
	gp_order_exit(&f->order);
	om_destroy(f->om);
}

static void submit(struct fixture *f, uint64_t stream, unsigned range,
		   uint64_t tenant)
{
	struct gp_slot *slot = gp_order_slot(&f->order, stream);

	gp_order_begin(slot);
	om_submit(f->om, stream, range, tenant);
	gp_order_end(slot);
}

static uint64_t free_full(struct fixture *f)
{
	uint64_t stamp, waits;

	om_free_begins(f->om);
	assert_int_equal(gp_order_free(&f->order, GP_FREE_FULL, &stamp, &waits),
			 0);
	om_free_ended(f->om);
	return stamp;
}

static void test_one_stream_needs_no_wait(void **state)
{
	struct fixture f;
	uint64_t s;

	(void)state;
	set_up(&f);
	s = om_stream(f.om, false);
	for (uint64_t i = 1; i <= 100; i++) {
		submit(&f, s, 0, i);
		assert_true(gp_order_reissue(&f.order, free_full(&f)));
	}
	assert_int_equal(f.order.counters.stream_waits, 0);
	assert_int_equal(f.order.counters.marks, 99);
	tear_down(&f);
}

/* A mark that no free asked for could cover what no free is behind. */
static void test_a_look_makes_no_mark(void **state)
{
	struct fixture f;
	uint64_t s, stamp;

	(void)state;
	set_up(&f);
	s = om_stream(f.om, false);
	submit(&f, s, 0, 1);
	stamp = free_full(&f);
	submit(&f, s, 0, 2); /* makes the mark */
	assert_int_equal(gp_order_made(&f.order), stamp);
	assert_false(gp_order_idle(&f.order, stamp));
	gp_order_poll(&f.order);
	assert_false(gp_order_idle(&f.order, stamp));
	om_sync_all(f.om);
	{
		struct gp_proof proof;

		gp_order_expect_all(&f.order, &proof);
		gp_order_proven(&proof);
	}
	assert_true(gp_order_idle(&f.order, stamp));
	gp_order_poll(&f.order);
	assert_int_equal(gp_order_made(&f.order), stamp);
	assert_int_equal(f.order.counters.marks, 1);
	/* One that a free asks for is made. */
	stamp = free_full(&f);
	gp_order_poll(&f.order);
	assert_true(gp_order_idle(&f.order, stamp));
	tear_down(&f);
}

static void test_another_stream_waits_once(void **state)
{
	struct fixture f;
	uint64_t a, b, stamp;

	(void)state;
	set_up(&f);
	a = om_stream(f.om, false);
	b = om_stream(f.om, false);
	submit(&f, a, 0, 1);
	stamp = free_full(&f);
	assert_true(gp_order_reissue(&f.order, stamp));
	for (int i = 0; i < 5; i++)
		submit(&f, b, 0, 2);
	assert_int_equal(f.order.counters.stream_waits, 1);
	tear_down(&f);
}

/* Frees between two submissions share one mark. */
static void test_frees_share_a_mark(void **state)
{
	struct fixture f;
	uint64_t a, first;

	(void)state;
	set_up(&f);
	a = om_stream(f.om, false);
	submit(&f, a, 0, 1);
	first = free_full(&f);
	for (int i = 0; i < 10; i++)
		assert_int_equal(free_full(&f), first);
	submit(&f, a, 0, 1);
	assert_int_equal(f.order.counters.marks, 1);
	assert_int_equal(free_full(&f), first + 1);
	tear_down(&f);
}

/* A caller that orders its own streams orders nothing until the block is
 * handed out. */
static void test_own_callers_order_at_reissue(void **state)
{
	struct fixture f;
	uint64_t a, b, stamp, waits;

	(void)state;
	set_up(&f);
	a = om_stream(f.om, false);
	b = om_stream(f.om, false);
	submit(&f, a, 0, 1);
	om_free_own(f.om);
	gp_order_free(&f.order, GP_FREE_OWN, &stamp, &waits);
	submit(&f, b, 1, 7);
	assert_int_equal(f.order.counters.stream_waits, 0);
	assert_true(gp_order_reissue(&f.order, stamp));
	submit(&f, b, 0, 2);
	assert_int_equal(f.order.counters.stream_waits, 1);
	tear_down(&f);
}

/* The program's own wait makes everything idle, without a wait of ours. */
static void test_sync_makes_idle(void **state)
{
	struct fixture f;
	struct gp_proof proof;
	uint64_t a, stamp;

	(void)state;
	set_up(&f);
	a = om_stream(f.om, false);
	submit(&f, a, 0, 1);
	stamp = free_full(&f);
	assert_false(gp_order_idle(&f.order, stamp));
	gp_order_expect_stream(&f.order, a, &proof);
	om_sync_stream(f.om, a);
	gp_order_proven(&proof);
	assert_true(gp_order_idle(&f.order, stamp));
	assert_int_equal(f.order.counters.wait_memory, 0);
	/* and a free after that takes another stamp, for what comes now */
	submit(&f, a, 0, 1);
	assert_true(free_full(&f) > stamp);
	tear_down(&f);
}

static void test_wait_makes_idle(void **state)
{
	struct fixture f;
	uint64_t a, b, stamp;

	(void)state;
	set_up(&f);
	a = om_stream(f.om, false);
	b = om_stream(f.om, true);
	submit(&f, a, 0, 1);
	submit(&f, b, 0, 1);
	submit(&f, GP_STREAM_LEGACY, 0, 1);
	stamp = free_full(&f);
	assert_int_equal(gp_order_wait(&f.order), 0);
	assert_true(gp_order_idle(&f.order, stamp));
	om_unmap(f.om, 0);
	assert_int_equal(f.order.counters.wait_memory, 1);
	tear_down(&f);
}

/* Where all is found complete on the way to a wait, the mark that is pending is
 * one of nothing, and no other is made. */
static void test_nothing_left_to_wait_for(void **state)
{
	struct fixture f;
	uint64_t a, stamp;

	(void)state;
	set_up(&f);
	a = om_stream(f.om, false);
	submit(&f, a, 0, 1);
	free_full(&f);
	gp_order_touch(&f.order);
	om_sync_all(f.om);
	stamp = free_full(&f);
	assert_int_equal(gp_order_wait(&f.order), 0);
	assert_true(gp_order_idle(&f.order, stamp));
	assert_int_equal(gp_order_made(&f.order), stamp);
	tear_down(&f);
}

/* Not even a stream that is gone is forgotten, however many marks later. */
static void test_destroyed_stream_is_kept(void **state)
{
	struct fixture f;
	struct gp_stream *known;
	uint64_t a, b, c, stamp;

	(void)state;
	set_up(&f);
	a = om_stream(f.om, false);
	b = om_stream(f.om, false);
	c = om_stream(f.om, false);
	submit(&f, a, 0, 1);
	known = gp_order_known(&f.order, a);
	gp_order_set_off(&f.order, known);
	gp_order_forget(&f.order, known);
	om_stream_gone(f.om, a);
	for (int i = 0; i < 200; i++) {
		submit(&f, b, 1, 9);
		stamp = free_full(&f);
	}
	assert_true(gp_order_reissue(&f.order, stamp));
	submit(&f, c, 0, 2);
	tear_down(&f);
}

static void test_sync_mode_waits(void **state)
{
	struct fixture f;
	uint64_t stamp, waits, s;

	(void)state;
	set_up(&f);
	gp_order_give_up(&f.order);
	gp_order_free(&f.order, GP_FREE_FULL, &stamp, &waits);
	assert_int_equal(stamp, 0);
	assert_int_equal(waits, 1);
	/* What must not wait is set aside, and idle after a later wait. */
	s = om_stream(f.om, false);
	om_capture(f.om, s, true);
	gp_order_free(&f.order, GP_FREE_FULL, &stamp, &waits);
	assert_int_not_equal(stamp, 0);
	assert_false(gp_order_reissue(&f.order, stamp));
	assert_int_not_equal(gp_order_wait(&f.order), 0);
	om_capture(f.om, s, false);
	assert_int_equal(gp_order_wait(&f.order), 0);
	assert_true(gp_order_reissue(&f.order, stamp));
	tear_down(&f);
}

/* A switch to sync must not trust stamps that only later work is behind. */
static void test_giving_up_keeps_blocks_back(void **state)
{
	struct fixture f;
	uint64_t s, stamp;

	(void)state;
	set_up(&f);
	s = om_stream(f.om, false);
	submit(&f, s, 0, 1);
	stamp = free_full(&f);
	gp_order_give_up(&f.order);
	assert_false(gp_order_reissue(&f.order, stamp));
	assert_int_equal(gp_order_wait(&f.order), 0);
	assert_true(gp_order_reissue(&f.order, stamp));
	tear_down(&f);
}

static void test_results_are_waited_for(void **state)
{
	struct fixture f;
	struct gp_slot *slot;
	uint64_t s;

	(void)state;
	set_up(&f);
	s = om_stream(f.om, false);
	submit(&f, s, 0, 1);
	free_full(&f);
	assert_int_equal(f.order.counters.wait_results, 0);
	slot = gp_order_slot(&f.order, s);
	submit(&f, s, 1, 1);
	om_host_result(f.om, s);
	gp_order_shows(slot);
	free_full(&f);
	free_full(&f);
	assert_true(f.order.counters.wait_results <= 1);
	assert_int_equal(f.order.num_host, 0);
	tear_down(&f);
}

/* ---- results that no event is behind ---------------------------------------------- */

static struct {
	struct fixture f;
	struct gp_stream_ops streams, real;
	struct gp_driver_ops ops;
	int (*sync)(void *dev);
	bool create, record, event_sync, context; /* fail */
	unsigned syncs;
} faulty;

static int faulty_create(void *dev, uint64_t *event)
{
	return faulty.create ? -EIO : faulty.real.event_create(dev, event);
}

static int faulty_record(void *dev, uint64_t event, uint64_t stream)
{
	return faulty.record ? -EIO : faulty.real.record(dev, event, stream);
}

static int faulty_query(void *dev, uint64_t event)
{
	return faulty.event_sync ? -EAGAIN : faulty.real.query(dev, event);
}

static int faulty_event_sync(void *dev, uint64_t event)
{
	return faulty.event_sync ? -EIO : faulty.real.event_sync(dev, event);
}

static int faulty_sync(void *dev)
{
	faulty.syncs++;
	return faulty.context ? -EIO : faulty.sync(dev);
}

static uint64_t set_up_faulty(void)
{
	struct fixture *f = &faulty.f;

	set_up(f);
	faulty.create = faulty.record = false;
	faulty.event_sync = faulty.context = false;
	faulty.syncs = 0;
	faulty.real = faulty.streams = *f->driver.streams;
	faulty.streams.event_create = faulty_create;
	faulty.streams.record = faulty_record;
	faulty.streams.query = faulty_query;
	faulty.streams.event_sync = faulty_event_sync;
	f->driver.streams = &faulty.streams;
	faulty.ops = *f->driver.ops;
	faulty.sync = faulty.ops.sync;
	faulty.ops.sync = faulty_sync;
	f->driver.ops = &faulty.ops;
	return om_stream(f->om, false);
}

static void show(uint64_t stream)
{
	submit(&faulty.f, stream, 1, 1);
	om_host_result(faulty.f.om, stream);
	gp_order_shows(gp_order_slot(&faulty.f.order, stream));
}

/* A free waits for everything, once. */
static void one_waits(void)
{
	uint64_t waits = faulty.f.order.counters.wait_results;

	assert_int_equal(faulty.f.order.num_host, 1);
	free_full(&faulty.f);
	assert_int_equal(faulty.f.order.num_host, 0);
	assert_null(om_error(faulty.f.om));
	assert_int_equal(faulty.f.order.counters.wait_results, waits + 1);
	free_full(&faulty.f);
	assert_int_equal(faulty.f.order.counters.wait_results, waits + 1);
}

static void test_no_event_for_a_result(void **state)
{
	uint64_t s = set_up_faulty();

	(void)state;
	faulty.create = true;
	show(s);
	/* The part without an event leaves. */
	assert_int_equal(faulty.f.order.num_host, 2);
	faulty.create = false;
	free_full(&faulty.f);
	assert_null(om_error(faulty.f.om));
	assert_int_equal(faulty.f.order.num_host, 0);
	assert_int_equal(faulty.f.order.counters.wait_results, 1);
	tear_down(&faulty.f);
}

/* The event is behind an earlier result then, or behind nothing. */
static void test_no_record_for_a_result(void **state)
{
	uint64_t s = set_up_faulty();

	(void)state;
	show(s);
	om_sync_all(faulty.f.om);
	for (int i = 0; i < 2; i++) {
		faulty.record = true;
		show(s);
		show(s);
		faulty.record = false;
		free_full(&faulty.f);
		assert_null(om_error(faulty.f.om));
		assert_int_equal(faulty.f.order.num_host, 0);
	}
	tear_down(&faulty.f);
}

static void test_no_wait_for_a_result(void **state)
{
	uint64_t s = set_up_faulty();

	(void)state;
	show(s);
	faulty.event_sync = true;
	one_waits();
	assert_true(faulty.syncs >= 1);
	tear_down(&faulty.f);
}

/* The next free waits where this one could not. */
static void test_no_wait_at_all_for_a_result(void **state)
{
	uint64_t stamp, waits, s = set_up_faulty();

	(void)state;
	show(s);
	faulty.event_sync = faulty.context = true;
	gp_order_free(&faulty.f.order, GP_FREE_FULL, &stamp, &waits);
	assert_int_equal(waits, 0);
	assert_int_equal(faulty.f.order.num_host, 1);
	faulty.event_sync = faulty.context = false;
	one_waits();
	tear_down(&faulty.f);
}

static int given_to_fill(void *dev, uint64_t stream, uint64_t va,
			 uint64_t bytes, uint8_t value)
{
	(void)dev;
	(void)stream;
	(void)va;
	(void)bytes;
	(void)value;
	return 0;
}

/* Nobody gets the block before what was given to the device is over. */
static void test_no_event_for_a_fill(void **state)
{
	const struct gp_fill fill = {.va = 4096, .bytes = 512};

	(void)state;
	for (int sync = 0; sync < 2; sync++) {
		uint64_t stamp, s = set_up_faulty();
		struct gp_order *order = &faulty.f.order;

		faulty.streams.fill = given_to_fill;
		submit(&faulty.f, s, 0, 1);
		stamp = free_full(&faulty.f);
		assert_int_equal(gp_order_wait(order), 0);
		assert_true(gp_order_idle(order, stamp));
		if (sync)
			gp_order_give_up(order);
		faulty.record = true;
		assert_int_equal(gp_order_fill(order, &fill, 1, &stamp), -EIO);
		faulty.record = false;
		assert_false(gp_order_idle(order, stamp));
		assert_true(gp_stream_active(order->filler->stream));
		assert_int_equal(gp_order_reissue(order, stamp), !sync);
		assert_true(gp_order_await(order, stamp));
		if (!sync)
			assert_false(gp_stream_active(order->filler->stream));
		tear_down(&faulty.f);
	}
}

/* What the program had in its streams is over after a free of the driver's, too:
 * a mark of a later free leaves no more than an event of ours in them. */
static void test_the_driver_frees(void **state)
{
	struct fixture f;
	uint64_t a, b, first, stamp, waits;

	(void)state;
	set_up(&f);
	a = om_stream(f.om, false);
	b = om_stream(f.om, true);
	first = free_full(&f);
	submit(&f, b, 0, 1); /* joins that one */
	om_free_begins(f.om);
	om_sync_all(f.om);
	assert_int_equal(
		gp_order_free(&f.order, GP_FREE_WAITED, &stamp, &waits), 0);
	om_free_ended(f.om);
	assert_int_equal(waits, 0);
	assert_true(stamp > first);
	assert_int_equal(gp_order_last_free(&f.order), stamp);
	gp_order_complete(&f.order, stamp);
	assert_true(gp_order_idle(&f.order, stamp));
	om_free_own(f.om);
	gp_order_free(&f.order, GP_FREE_OWN, &first, &waits);
	submit(&f, a, 1, 2); /* makes the mark */
	assert_true(gp_order_untouched(&f.order, b, stamp));
	submit(&f, b, 0, 3);
	assert_false(gp_order_untouched(&f.order, b, stamp));
	tear_down(&f);
}

/* ---- random programs ---------------------------------------------------------- */

static void run_seeds(struct order_program program, uint64_t seeds)
{
	char why[300];

	for (program.seed = 1; program.seed <= seeds; program.seed++)
		if (!order_random(&program, why, sizeof(why)))
			fail_msg("%s", why);
}

static void test_random_in_turns(void **state)
{
	(void)state;
	run_seeds((struct order_program){.steps = 2000,
					 .threads = 3,
					 .turns = true},
		  40);
}

static void test_random_own_callers(void **state)
{
	(void)state;
	run_seeds((struct order_program){.steps = 2000,
					 .threads = 3,
					 .turns = true,
					 .own = true},
		  40);
}

static void test_random_threads(void **state)
{
	(void)state;
	run_seeds((struct order_program){.steps = 5000, .threads = 4}, 10);
	run_seeds((struct order_program){.steps = 5000,
					 .threads = 4,
					 .own = true},
		  10);
}

#ifdef GP_MUTATIONS
/* Without a clause, a random program must go wrong; with all, none does. */
static uint64_t seed_of(enum gp_rule rule, uint64_t most, char *why,
			size_t size)
{
	struct order_program program = {
		.steps = 2000, .threads = 3, .turns = true};

	gp_mutation = rule;
	for (program.seed = 1; program.seed <= most; program.seed++) {
		program.own = program.seed % 2;
		if (!order_random(&program, why, size))
			break;
	}
	gp_mutation = GP_RULE_NONE;
	return program.seed;
}

static void test_every_clause_is_needed(void **state)
{
	/* What a single pool cannot show, or only threads that race. */
	static const bool elsewhere[GP_NUM_RULES] = {
		[GP_RULE_MARK_EXCLUDES] = true,
		[GP_RULE_JOINED_TAKE_LATEST] = true,
		[GP_RULE_QUERY_AFTER_FREE] = true,
	};
	char why[300];
	unsigned missed = 0;

	(void)state;
	for (int i = GP_RULE_NONE + 1; i < GP_NUM_RULES; i++) {
		uint64_t seed = elsewhere[i] ? 0
					     : seed_of((enum gp_rule)i, 1000,
						       why, sizeof(why));

		if (seed > 1000) {
			missed++;
			printf("# %s: not noticed\n",
			       gp_rule_name((enum gp_rule)i));
		} else if (seed) {
			printf("# %s: %s\n", gp_rule_name((enum gp_rule)i),
			       why);
		}
	}
	assert_int_equal(missed, 0);
}
#endif

static struct {
	struct fixture f;
	struct gp_driver_ops ops;
	int (*sync)(void *dev);
	uint64_t stream;
	int rc;
} meanwhile;

static int follow_and_sync(void *dev)
{
	struct gp_order *order = &meanwhile.f.order;
	struct gp_slot *slot = gp_order_slot(order, meanwhile.stream);

	gp_lock(&order->lock);
	meanwhile.rc = gp_order_follow_newest(order, slot->stream);
	gp_unlock(&order->lock);
	return meanwhile.sync(dev);
}

/* The wait has taken the number of a mark that it makes needless, but is not
 * over: who wants to be behind it has to make one. */
static void test_behind_a_wait_that_goes_on(void **state)
{
	struct fixture *f = &meanwhile.f;

	(void)state;
	set_up(f);
	meanwhile.ops = *f->driver.ops;
	meanwhile.sync = meanwhile.ops.sync;
	meanwhile.ops.sync = follow_and_sync;
	f->driver.ops = &meanwhile.ops;
	meanwhile.stream = om_stream(f->om, false);
	submit(f, om_stream(f->om, false), 0, 1);
	free_full(f);
	meanwhile.rc = -1;
	assert_int_equal(gp_order_sync_context(&f->order), 0);
	assert_int_equal(meanwhile.rc, 0);
	assert_int_equal(f->order.counters.stream_waits, 1);
	tear_down(f);
}

/* ---- threads that end ----------------------------------------------------------- */

static pthread_key_t later;
static struct gp_slot *of_ending, *of_other;
static struct fixture *ending;
static uint64_t shared;

static void *take_slot(void *arg)
{
	om_thread(2);
	of_other = gp_order_slot(&ending->order, shared);
	return arg;
}

/* As a library's that gives back, at a thread's end, what it has there. */
static void at_end(void *arg)
{
	pthread_t other;

	(void)arg;
	pthread_create(&other, NULL, take_slot, NULL);
	pthread_join(other, NULL);
}

static void *end(void *arg)
{
	om_thread(1);
	of_ending = gp_order_slot(&ending->order, shared);
	pthread_setspecific(later, arg);
	return NULL;
}

/* What a thread runs at its end may submit, with the slot that it remembers: it
 * is nobody else's before. */
static void test_slot_until_the_end(void **state)
{
	struct gp_slot *before;
	struct fixture f;
	pthread_t thread;

	(void)state;
	set_up(&f);
	ending = &f;
	shared = om_stream(f.om, false);
	gp_order_slot(&f.order, shared); /* a key, before the other one */
	assert_int_equal(pthread_key_create(&later, at_end), 0);
	pthread_create(&thread, NULL, end, &f);
	pthread_join(thread, NULL);
	assert_ptr_not_equal(of_other, of_ending);
	/* Then it is given again. */
	before = of_other;
	pthread_create(&thread, NULL, take_slot, NULL);
	pthread_join(thread, NULL);
	assert_true(of_other == of_ending || of_other == before);
	pthread_key_delete(later);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_stream_needs_no_wait),
		cmocka_unit_test(test_a_look_makes_no_mark),
		cmocka_unit_test(test_another_stream_waits_once),
		cmocka_unit_test(test_frees_share_a_mark),
		cmocka_unit_test(test_own_callers_order_at_reissue),
		cmocka_unit_test(test_sync_makes_idle),
		cmocka_unit_test(test_wait_makes_idle),
		cmocka_unit_test(test_nothing_left_to_wait_for),
		cmocka_unit_test(test_behind_a_wait_that_goes_on),
		cmocka_unit_test(test_destroyed_stream_is_kept),
		cmocka_unit_test(test_sync_mode_waits),
		cmocka_unit_test(test_giving_up_keeps_blocks_back),
		cmocka_unit_test(test_results_are_waited_for),
		cmocka_unit_test(test_no_event_for_a_result),
		cmocka_unit_test(test_no_record_for_a_result),
		cmocka_unit_test(test_no_wait_for_a_result),
		cmocka_unit_test(test_no_wait_at_all_for_a_result),
		cmocka_unit_test(test_no_event_for_a_fill),
		cmocka_unit_test(test_the_driver_frees),
		cmocka_unit_test(test_slot_until_the_end),
		cmocka_unit_test(test_random_in_turns),
		cmocka_unit_test(test_random_own_callers),
		cmocka_unit_test(test_random_threads),
#ifdef GP_MUTATIONS
		cmocka_unit_test(test_every_clause_is_needed),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
