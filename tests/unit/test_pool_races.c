/*
 * What other threads do while a growth is outside the lock.
 *
 * A growth is let run up to each of its driver calls in turn. There another
 * thread frees, grows or gives back, and from there, or from a later call, the
 * driver refuses one call or several in a row, so that rolling back fails too.
 * After every step the books are in order, no live block has lost what it
 * holds, and in the end everything goes back to the driver.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/state.h"
#include "tests/support/pool_rig.h"

#define BLOCKS    10
#define FILLING   200 /* at most, small blocks that fill the slabs */
#define BLOCK     (4 * MIB)
#define SMALL     (500 * KIB)
#define MAX_CALLS 64

struct block {
	uint64_t va, bytes;
};

/* What is done at the chosen call. The free ones make ranges beside the place
 * of the growth, up to some that are larger than the request. */
enum act {
	FREE_LAST,
	FREE_MANY,
	FREE_AND_TAKE,
	GROW,
	TRIM,
	FREE_AND_TRIM,
	NUM_ACTS,
};

/* The request, and what the growth may do. */
struct kind {
	const char *name;
	uint64_t bytes;
	double factor;
	bool moved_enough; /* the first attempt moves nothing */
};

static const struct kind kinds[] = {
	{"plain", 9 * MIB, 1.0, false},
	{"with more than is missing", 9 * MIB, 1.5, false},
	{"without moving", 9 * MIB, 1.0, true},
	{"twice of little", 5 * MIB, 2.0, true},
	{"slabs", SMALL, 1.0, false},
};

/* One case. */
static struct {
	const struct kind *kind;
	enum act act;
	unsigned act_at, fail_at, fails; /* calls of the growth, from 1 */
	int error;
} now;

static struct pool_rig rig;
static struct block blocks[BLOCKS], filling[FILLING], theirs[4];
static pthread_t victim;
static bool watching;
static unsigned calls, filled;

static void check(const char *when)
{
	const char *why = pool_rig_check(&rig);

	if (why)
		fail_msg("%s, act %d at call %u, %u calls from %u on fail with "
			 "%d; %s: %s",
			 now.kind->name, (int)now.act, now.act_at, now.fails,
			 now.fail_at, now.error, when, why);
}

static void take(struct block *b, uint64_t bytes)
{
	b->bytes = bytes;
	b->va = pool_rig_alloc(&rig, bytes);
	if (b->va)
		model_write(rig.model, b->va, bytes, b->va);
}

static void give(struct block *b)
{
	if (!b->va)
		return;
	assert_true(model_read(rig.model, b->va, b->bytes, b->va));
	assert_int_equal(gp_pool_free(rig.pool, b->va), 0);
	b->va = 0;
}

/* ---- the other thread --------------------------------------------------------- */

/* What it frees is in no cache any more once it has ended. */
static void *other(void *arg)
{
	unsigned small = 20;

	(void)arg;
	switch (now.act) {
	case FREE_LAST:
		give(&blocks[BLOCKS - 1]);
		small = 5;
		break;
	case FREE_MANY:
	case FREE_AND_TRIM:
		for (int i = BLOCKS - 4; i < BLOCKS; i++)
			give(&blocks[i]);
		break;
	case FREE_AND_TAKE:
		for (int i = BLOCKS - 4; i < BLOCKS; i++)
			give(&blocks[i]);
		take(&theirs[0], 13 * MIB);
		take(&theirs[1], 600 * KIB);
		break;
	case GROW:
		take(&theirs[2], 6 * MIB);
		take(&theirs[3], 2 * MIB);
		small = 0;
		break;
	default:
		small = 0;
		break;
	}
	for (unsigned i = 1; i <= small && i <= filled; i++)
		give(&filling[filled - i]);
	if (now.act == TRIM)
		gp_pool_trim(rig.pool, UINT64_MAX);
	if (now.act == FREE_AND_TRIM)
		gp_pool_trim(rig.pool, 2 * MIB);
	check("after the other thread's steps");
	return NULL;
}

/* Every call of the growth comes by here first, with no lock held. */
static void hook(void *arg, enum model_call call)
{
	pthread_t thread;

	(void)arg;
	(void)call;
	if (!watching || !pthread_equal(pthread_self(), victim))
		return;
	if (++calls == now.act_at) {
		assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0);
		pthread_join(thread, NULL);
	}
	check("inside the growth");
	if (calls >= now.fail_at && calls < now.fail_at + now.fails)
		model_fail(rig.model, MODEL_NUM_CALLS, 1, now.error);
}

/* ---- one case ----------------------------------------------------------------- */

static void open_rig(void)
{
	const struct model_config config = {
		.total_bytes = GIB,
		.tags = true,
	};

	rig = pool_rig_new(GIB, false);
	model_destroy(rig.model);
	rig.model = model_create(&config);
	rig.driver = model_driver(rig.model);
	rig.config.growth_factor = now.kind->factor;
	assert_int_equal(pool_rig_open(&rig), 0);
}

/* No slab has room for one more, and there are enough of them to grow by more
 * than one. */
static bool slabs_full(void)
{
	return filled > 80 && filled % (2 * MIB / SMALL) == 0 &&
	       rig.pool->regions[GP_REGION_SLABS].ranges.summary == 0;
}

/* Blocks without a gap, the third and the sixth idle; slabs without a free
 * piece of the size that is asked for. */
static void lay_out(void)
{
	for (int i = 0; i < BLOCKS; i++)
		take(&blocks[i], BLOCK);
	filled = 0;
	while (now.kind->bytes == SMALL && !slabs_full()) {
		assert_in_range(filled, 0, FILLING - 1);
		take(&filling[filled++], SMALL);
	}
	give(&blocks[2]);
	give(&blocks[5]);
	gp_lock(&rig.pool->lock);
	gp_cache_flush_all(rig.pool, NULL, GP_CACHE_PART_ALL);
	gp_unlock(&rig.pool->lock);
	if (now.kind->moved_enough)
		rig.pool->move_ns = UINT64_MAX / 2;
}

/* Calls that the growth made. */
static unsigned run(void)
{
	struct block wanted = {0};

	open_rig();
	lay_out();
	check("before the growth");
	calls = 0;
	victim = pthread_self();
	watching = true;
	model_set_hook(rig.model, hook, NULL);
	take(&wanted, now.kind->bytes);
	watching = false;
	model_set_hook(rig.model, NULL, NULL);
	model_fail(rig.model, MODEL_NUM_CALLS, 0, 0);
	check("after the growth");
	/* A refusal has left nothing that hinders what comes next. */
	give(&wanted);
	take(&wanted, 12 * MIB);
	assert_int_not_equal(wanted.va, 0);
	check("after the next request");
	give(&wanted);
	for (int i = 0; i < BLOCKS; i++)
		give(&blocks[i]);
	for (int i = 0; i < FILLING; i++)
		give(&filling[i]);
	for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
		give(&theirs[i]);
	gp_pool_trim(rig.pool, UINT64_MAX);
	gp_pool_trim(rig.pool, UINT64_MAX);
	check("at the end");
	assert_int_equal(model_used(rig.model), 0);
	assert_null(pool_rig_close(&rig));
	return calls;
}

/* Sanitizers are slow: one call in so many fails. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define THIN 5
#else
#define THIN 1
#endif

/* Every position, but only the first and the last before several failures. */
static unsigned step(unsigned fails, unsigned last)
{
	return (fails == 1 && THIN == 1) || last == 1 ? 1 : last - 1;
}

static void every_position(const struct kind *kind, enum act act, int error)
{
	unsigned most = 0;

	now.kind = kind;
	now.act = act;
	now.error = error;
	for (now.fails = 1; now.fails <= 4; now.fails += 3)
		for (now.fail_at = 1; now.fail_at < MAX_CALLS;
		     now.fail_at += THIN) {
			unsigned made = 0;

			for (now.act_at = 1; now.act_at <= now.fail_at;
			     now.act_at += step(now.fails, now.fail_at))
				made = run();
			if (made > most)
				most = made;
			if (now.fail_at > made)
				break; /* there is no such call any more */
		}
	assert_in_range(most, 3, MAX_CALLS - 1);
}

static void all(int error)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (int act = 0; act < NUM_ACTS; act++)
			every_position(&kinds[i], (enum act)act, error);
}

static void the_driver_has_no_memory(void **state)
{
	(void)state;
	all(-ENOMEM);
}

static void the_driver_fails(void **state)
{
	(void)state;
	all(-EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_driver_has_no_memory),
		cmocka_unit_test(the_driver_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
