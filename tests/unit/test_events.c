/* What a wait for an event proves, where the event is recorded again meanwhile:
 * the driver's answer lies between gp_follow_wait_begins() and _ended(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shim/events.c"
#include "shim/follow_waits.c"
#include "tests/support/order_model.h"

static struct {
	struct om *om;
	struct gp_driver driver;
	struct gp_order order;
	struct gp_slot *slot[2];
} world;

#define LEGACY CU_STREAM_LEGACY

/* ---- in place of the rest of the shim ---------------------------------------------- */

static unsigned generation = 1;
static bool leaving;

unsigned gp_context_generation(void)
{
	return generation;
}

bool gp_context_is_leaving(CUcontext handle)
{
	(void)handle;
	return leaving;
}

/* For a green one the primary one stands. */
#define PRIMARY ((CUcontext)0x100)
#define GREEN   ((CUcontext)0x200)

static struct gp_context primary = {.cuda.context = PRIMARY};

struct gp_context *gp_context_known(CUcontext handle)
{
	return handle ? &primary : NULL;
}

struct gp_context *gp_context_current(void)
{
	return NULL;
}

void gp_context_each(void (*fn)(struct gp_context *, void *), void *arg)
{
	fn(&primary, arg);
}

struct gp_order *gp_follow_order(const struct gp_context *context)
{
	return context ? &world.order : NULL;
}

struct gp_slot *gp_follow_slot(CUstream stream)
{
	return stream == LEGACY ? world.slot[0] : NULL;
}

void gp_follow_expire(void)
{
}

/* ---- the tests --------------------------------------------------------------------- */

#define EVENT ((CUevent)0x1000)
#define OTHER ((CUevent)0x2000)

static const struct gp_work_row waits[] = {
	{"cuEventSynchronize", GP_WORK_EVENT_SYNC, NULL, 0},
	{"cuEventQuery", GP_WORK_EVENT_QUERY, NULL, 0},
	{"cuEventElapsedTime", GP_WORK_EVENT_ELAPSED, NULL, 0},
};

static int set_up(void **state)
{
	(void)state;
	world.om = om_create(1, &world.driver);
	om_thread(0);
	gp_order_init(&world.order, &world.driver, GP_BARRIER_AUTO, false);
	for (int i = 0; i < 2; i++)
		world.slot[i] =
			gp_order_slot(&world.order, om_stream(world.om, false));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	gp_event_forget(EVENT);
	gp_event_forget(OTHER);
	gp_order_exit(&world.order);
	om_destroy(world.om);
	return 0;
}

static void record_begins(struct gp_work *work, CUevent event,
			  struct gp_slot *slot)
{
	*work = (struct gp_work){.event = event, .slot = slot};
	gp_order_begin(slot);
	gp_follow_records(work);
}

static void record_ended(struct gp_work *work)
{
	gp_follow_recorded(work, CUDA_SUCCESS);
	gp_order_end(work->slot);
}

/* A launch, and the event behind it. */
static void launch(CUevent event, struct gp_slot *slot)
{
	struct gp_work work;

	gp_order_begin(slot);
	gp_order_end(slot);
	record_begins(&work, event, slot);
	record_ended(&work);
}

static struct gp_work wait_begins(const struct gp_work_row *row)
{
	struct gp_work work = {.event = EVENT};

	if (row->class == GP_WORK_EVENT_ELAPSED) {
		work.event = OTHER;
		work.object = EVENT;
	}
	gp_follow_wait_begins(&work, row);
	return work;
}

static void wait_ended(struct gp_work *work, const struct gp_work_row *row)
{
	gp_follow_wait_ended(work, row, CUDA_SUCCESS);
}

static bool active(unsigned slot)
{
	return gp_stream_active(world.slot[slot]->stream);
}

static void test_proves_its_place(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct gp_work wait;

		launch(EVENT, world.slot[0]);
		wait = wait_begins(&waits[i]);
		assert_true(active(0));
		wait_ended(&wait, &waits[i]);
		assert_false(active(0));
	}
}

/* Between the driver's answer and ours: it answered for the earlier record. */
static void test_recorded_after_the_answer(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct gp_work wait;

		launch(EVENT, world.slot[0]);
		wait = wait_begins(&waits[i]);
		launch(EVENT, world.slot[1]);
		wait_ended(&wait, &waits[i]);
		assert_true(active(1));
	}
}

/* The driver may have answered for the later record, or for the earlier. */
static void test_recorded_around_the_answer(void **state)
{
	struct gp_work wait, record;

	(void)state;
	launch(EVENT, world.slot[0]);
	wait = wait_begins(&waits[0]);
	record_begins(&record, EVENT, world.slot[1]);
	wait_ended(&wait, &waits[0]);
	assert_true(active(0));

	wait = wait_begins(&waits[0]);
	record_ended(&record);
	wait_ended(&wait, &waits[0]);
	assert_true(active(0));
	assert_true(active(1));

	/* It is known again. */
	wait = wait_begins(&waits[0]);
	wait_ended(&wait, &waits[0]);
	assert_true(active(0));
	assert_false(active(1));
}

/* Nobody knows in which order the driver took two records at once. */
static void test_records_overlap(void **state)
{
	struct gp_work wait, record[2];

	(void)state;
	for (unsigned first = 0; first < 2; first++) {
		for (unsigned i = 0; i < 2; i++)
			record_begins(&record[i], EVENT, world.slot[i]);
		record_ended(&record[first]);
		record_ended(&record[!first]);
		wait = wait_begins(&waits[0]);
		wait_ended(&wait, &waits[0]);
		assert_true(active(0));
		assert_true(active(1));
	}
	launch(EVENT, world.slot[0]);
	wait = wait_begins(&waits[0]);
	wait_ended(&wait, &waits[0]);
	assert_false(active(0));
}

/* Behind a whole context, a failure, a capture: the earlier place is no more. */
static void test_recorded_elsewhere(void **state)
{
	static const struct gp_work_row all = {"cuCtxRecordEvent",
					       GP_WORK_CTX_RECORD, NULL, 0};
	struct gp_work wait, record;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		launch(EVENT, world.slot[0]);
		record = (struct gp_work){.event = EVENT};
		if (i == 0) {
			gp_follow_wait_begins(&record, &all);
			gp_follow_wait_ended(&record, &all, CUDA_SUCCESS);
		} else {
			gp_follow_records(&record);
			gp_follow_recorded(&record,
					   i == 1 ? CUDA_SUCCESS
						  : CUDA_ERROR_UNKNOWN);
		}
		wait = wait_begins(&waits[0]);
		wait_ended(&wait, &waits[0]);
		assert_true(active(0));
	}
}

/* By a launch with that attribute, or by who is not seen at all: no place is
 * known any more, but the context is. Until it is another event. */
static void test_recorded_unseen(void **state)
{
	static const struct gp_work_row opens = {"cuIpcOpenEventHandle",
						 GP_WORK_CREATE, NULL, 0};
	CUlaunchAttribute attributes[2] = {
		{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY},
		{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT},
	};
	CUlaunchConfig config = {.attrs = attributes, .numAttrs = 2};
	CUevent event = EVENT;
	struct gp_work wait, opened = {.id = GP_WORK_ID_cuIpcOpenEventHandle,
				       .object = &event};
	struct gp_recorded where;

	(void)state;
	attributes[1].value.programmaticEvent.event = EVENT;
	for (unsigned i = 0; i < 5; i++) {
		launch(EVENT, world.slot[0]);
		if (i == 0) {
			gp_event_loosen(EVENT, NULL);
		} else if (i == 1) {
			gp_follow_launch(&config, world.slot[1]);
		} else if (i == 2) {
			gp_follow_wait_begins(&opened, &opens);
			gp_follow_wait_ended(&opened, &opens, CUDA_SUCCESS);
			launch(EVENT, world.slot[0]);
		} else if (i == 3) { /* behind no place: other events */
			attributes[1].value.programmaticEvent.event = OTHER;
			gp_follow_launch(&config, world.slot[1]);
			assert_true(gp_event_look(OTHER, &where));
			assert_ptr_equal(where.order, &world.order);
			assert_int_equal(where.record, 0);
		}
		wait = wait_begins(&waits[0]);
		wait_ended(&wait, &waits[0]);
		assert_int_equal(active(0), i < 3);
		gp_event_forget(EVENT);
	}
}

static void test_waits_for_contexts(void **state)
{
	static const struct gp_work_row row = {"cuCtxSynchronize_v2",
					       GP_WORK_CTX_SYNC, NULL, 0};
	struct gp_work wait = {.object = GREEN};

	(void)state;
	launch(EVENT, world.slot[0]);
	gp_follow_wait_begins(&wait, &row);
	gp_follow_wait_ended(&wait, &row, CUDA_SUCCESS);
	assert_true(active(0));
	wait = (struct gp_work){.object = PRIMARY};
	gp_follow_wait_begins(&wait, &row);
	gp_follow_wait_ended(&wait, &row, CUDA_SUCCESS);
	assert_false(active(0));
}

/* Copies to the host wait for their stream; to managed memory they may not. */
static void test_copies_to_the_host(void **state)
{
	static const struct gp_work_row row = {
		"cuMemcpyDtoH_v2", GP_WORK_SYNC_COPY, LEGACY, GP_WORK_DRAINS};

	(void)state;
	for (int managed = 1; managed >= 0; managed--) {
		struct gp_work copy = {.stream = LEGACY, .slot = world.slot[0]};

		gp_order_host_sees_all(&world.order, managed);
		gp_order_begin(world.slot[0]);
		gp_follow_wait_begins(&copy, &row);
		gp_order_end(world.slot[0]);
		gp_follow_wait_ended(&copy, &row, CUDA_SUCCESS);
		assert_int_equal(active(0), managed);
	}
}

/* What comes behind a free is marked before a whole context waits: the mark
 * would be behind what it waits for. Whichever context is current. */
static void test_marks_before_a_context_waits(void **state)
{
	static const struct gp_work_row rows[] = {
		{"cuCtxWaitEvent", GP_WORK_CTX_WAIT, NULL, 0},
		{"cuGreenCtxWaitEvent", GP_WORK_GREEN_WAIT, NULL, 0},
	};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct gp_work wait = {.object = PRIMARY, .event = OTHER};
		uint64_t stamp, waited;

		launch(EVENT, world.slot[0]);
		gp_order_free(&world.order, GP_FREE_FULL, &stamp, &waited);
		assert_true(gp_order_made(&world.order) < stamp);
		gp_follow_wait_begins(&wait, &rows[i]);
		assert_int_equal(gp_order_made(&world.order), stamp);
	}
}

/* That another context has gone takes nothing from an event; that its own one goes
 * or is another one by now, everything. */
static void test_a_context_has_gone(void **state)
{
	struct gp_work wait;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		launch(EVENT, world.slot[0]);
		generation++;
		leaving = i == 0;
		world.order.serial += i == 1;
		wait = wait_begins(&waits[0]);
		wait_ended(&wait, &waits[0]);
		assert_int_equal(active(0), i < 2);
	}
}

/* Among many events, with records under way while the table grows. */
static void test_many(void **state)
{
	struct gp_work record, wait;

	(void)state;
	launch(EVENT, world.slot[0]);
	wait = wait_begins(&waits[0]);
	record_begins(&record, OTHER, world.slot[1]);
	for (uintptr_t i = 1; i <= 20000; i++)
		launch((CUevent)(0x100000 + i * 64), world.slot[1]);
	wait_ended(&wait, &waits[0]);
	assert_false(active(0));
	record_ended(&record);
	wait = (struct gp_work){.event = OTHER};
	gp_follow_wait_begins(&wait, &waits[0]);
	wait_ended(&wait, &waits[0]);
	assert_false(active(1));
	for (uintptr_t i = 1; i <= 20000; i++)
		gp_event_forget((CUevent)(0x100000 + i * 64));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_proves_its_place),
		TEST(test_recorded_after_the_answer),
		TEST(test_recorded_around_the_answer),
		TEST(test_records_overlap),
		TEST(test_recorded_elsewhere),
		TEST(test_recorded_unseen),
		TEST(test_waits_for_contexts),
		TEST(test_marks_before_a_context_waits),
		TEST(test_copies_to_the_host),
		TEST(test_a_context_has_gone),
		TEST(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
