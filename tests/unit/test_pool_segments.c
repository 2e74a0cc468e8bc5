/*
 * Plain segments under PyTorch's classic rules: for devices without virtual
 * memory, and for expandable_segments:False.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "pool/backing.h"
#include "pool/registry.h"
#include "tests/support/pool_rig.h"

static struct pool_rig rig;

static int new_rig(void **state)
{
	*state = &rig;
	rig = pool_rig_new(4 * GIB, true);
	rig.config.cache_policy = GP_CACHE_KEEP;
	return 0;
}

static uint64_t used_by(uint64_t bytes)
{
	uint64_t before = model_used(rig.model);

	assert_int_not_equal(pool_rig_alloc(&rig, bytes), 0);
	return model_used(rig.model) - before;
}

static void segments_have_the_classic_sizes(void **state)
{
	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	assert_int_equal(used_by(1), 2 * MIB);
	assert_int_equal(used_by(900 * KIB), 0); /* of the same segment */
	assert_int_equal(used_by(2 * MIB), 20 * MIB);
	assert_int_equal(used_by(9 * MIB), 0);
	assert_int_equal(used_by(9 * MIB), 0);
	assert_int_equal(used_by(MIB + 1), 20 * MIB);
	assert_int_equal(used_by(25 * MIB + 1), 26 * MIB);
	assert_int_equal(model_calls(rig.model, MODEL_RESERVE), 0);
	assert_int_equal(model_calls(rig.model, MODEL_CREATE), 0);
}

static void virtual_memory_can_be_switched_off(void **state)
{
	struct pool_rig other = pool_rig_new(GIB, false);

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	other.config.expandable_segments = false;
	other.config.large_segment_size = 32 * MIB;
	assert_int_equal(pool_rig_open(&other), 0);
	assert_int_not_equal(pool_rig_alloc(&other, 5 * MIB), 0);
	assert_int_equal(model_used(other.model), 32 * MIB);
	assert_int_equal(model_calls(other.model, MODEL_SEGMENT_ALLOC), 1);
	assert_null(pool_rig_close(&other));
}

static void lookups_know_segments(void **state)
{
	uint64_t a, base, bytes;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 30 * MIB);
	assert_ptr_equal(gp_pool_of(a + 7 * MIB), rig.pool);
	assert_int_equal(gp_pool_find(rig.pool, a + 7 * MIB, &base, &bytes), 0);
	assert_int_equal(base, a);
	assert_int_equal(bytes, 30 * MIB);
	assert_null(gp_pool_of(a - 1));
	assert_null(gp_pool_of(a + 40 * GIB));
	assert_int_equal(gp_pool_free(rig.pool, a + 64 * KIB), -ENOENT);
	assert_int_equal(gp_pool_free(rig.pool, a), 0);
	gp_pool_trim(rig.pool, UINT64_MAX);
	assert_null(gp_pool_of(a));
	assert_int_equal(gp_pool_free(rig.pool, a), -ENOENT);
}

/* A rest of 1 MiB or less is not split off; neighbours join again. */
static void large_blocks_split_and_join(void **state)
{
	uint64_t a, b;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 19 * MIB);
	assert_int_equal(pool_rig_stats(&rig).allocated_bytes.current,
			 20 * MIB);
	gp_pool_free(rig.pool, a);
	a = pool_rig_alloc(&rig, 8 * MIB);
	b = pool_rig_alloc(&rig, 12 * MIB);
	assert_int_equal(b, a + 8 * MIB);
	assert_int_equal(model_used(rig.model), 20 * MIB);
	gp_pool_free(rig.pool, a);
	gp_pool_free(rig.pool, b);
	assert_int_equal(pool_rig_alloc(&rig, 20 * MIB), a);
	assert_int_equal(model_used(rig.model), 20 * MIB);
}

/* Segments never join, even when the driver puts them side by side. */
static void segments_stay_apart(void **state)
{
	uint64_t a, b;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 20 * MIB);
	b = pool_rig_alloc(&rig, 20 * MIB);
	gp_pool_free(rig.pool, a);
	gp_pool_free(rig.pool, b);
	assert_int_not_equal(pool_rig_alloc(&rig, 40 * MIB), 0);
	assert_int_equal(model_used(rig.model), 80 * MIB);
}

static void max_split_size_keeps_large_blocks_whole(void **state)
{
	uint64_t a;

	(void)state;
	rig.config.max_split_size = 64 * MIB;
	rig.config.max_non_split_rounding = 20 * MIB;
	assert_int_equal(pool_rig_open(&rig), 0);
	a = pool_rig_alloc(&rig, 100 * MIB);
	gp_pool_free(rig.pool, a);
	/* Below: never from a block as large as that. */
	assert_int_equal(used_by(30 * MIB), 30 * MIB);
	/* Above, but much smaller: neither. */
	assert_int_equal(used_by(70 * MIB), 70 * MIB);
	/* Near enough: the whole of it. */
	assert_int_equal(pool_rig_alloc(&rig, 90 * MIB), a);
	assert_int_equal(pool_rig_stats(&rig).allocated_bytes.current,
			 30 * MIB + 70 * MIB + 100 * MIB);
}

/* Cached segments go back when the device is full, and the search is made
 * again after that. */
static void a_full_device_releases_cached_segments(void **state)
{
	uint64_t a[16];

	(void)state;
	model_set_total(rig.model, 320 * MIB);
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 16; i++)
		a[i] = pool_rig_alloc(&rig, 20 * MIB);
	for (int i = 0; i < 16; i++)
		gp_pool_free(rig.pool, a[i]);
	assert_int_not_equal(pool_rig_alloc(&rig, 300 * MIB), 0);
	assert_int_equal(pool_rig_stats(&rig).num_ooms, 0);
	assert_int_equal(pool_rig_stats(&rig).num_alloc_retries, 1);
	assert_int_equal(pool_rig_alloc(&rig, 30 * MIB), 0);
	assert_int_equal(pool_rig_stats(&rig).num_ooms, 1);
}

/* Only what is needed: the rest stays cached. */
static void only_what_is_needed_is_released(void **state)
{
	uint64_t a[16];

	(void)state;
	model_set_total(rig.model, 320 * MIB);
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 16; i++)
		a[i] = pool_rig_alloc(&rig, 20 * MIB);
	for (int i = 0; i < 16; i++)
		gp_pool_free(rig.pool, a[i]);
	assert_int_not_equal(pool_rig_alloc(&rig, 50 * MIB), 0);
	assert_true(model_used(rig.model) >= 300 * MIB);
}

static void garbage_is_collected_before_growth(void **state)
{
	uint64_t a[10];

	(void)state;
	rig.config.garbage_collection_threshold = 0.1; /* 409.6 MiB */
	assert_int_equal(pool_rig_open(&rig), 0);
	for (int i = 0; i < 10; i++)
		a[i] = pool_rig_alloc(&rig, 40 * MIB);
	for (int i = 0; i < 10; i++)
		gp_pool_free(rig.pool, a[i]);
	gp_pool_tick(rig.pool);
	assert_int_equal(model_used(rig.model), 400 * MIB);
	assert_int_not_equal(pool_rig_alloc(&rig, 100 * MIB), 0);
	assert_true(model_used(rig.model) <= 420 * MIB);
}

static void idle_segments_decay(void **state)
{
	(void)state;
	rig.config.cache_policy = GP_CACHE_DECAY;
	rig.config.decay_ms = 100;
	assert_int_equal(pool_rig_open(&rig), 0);
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, 100 * MIB));
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, 100));
	for (int i = 0; i < 6; i++) {
		model_advance(rig.model, 25000000);
		gp_pool_tick(rig.pool);
	}
	assert_int_equal(model_used(rig.model), 0);
}

/* A context is destroyed: before its pool knows, another context's has the
 * address. */
static void an_address_is_of_who_got_it_last(void **state)
{
	struct pool_rig gone = pool_rig_new(GIB, true);
	struct gp_handle later = {.segment = true};
	uint64_t address;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	assert_int_equal(pool_rig_open(&gone), 0);
	address = pool_rig_alloc(&gone, 30 * MIB);
	assert_ptr_equal(gp_pool_of(address), gone.pool);
	later.id = gp_registry_segment(address)->id;
	later.granules = gp_registry_segment(address)->granules;
	assert_int_equal(gp_registry_map(rig.pool, &later), 0);
	assert_null(pool_rig_close(&gone));
	assert_ptr_equal(gp_pool_of(address), rig.pool);
	assert_ptr_equal(gp_pool_of(address + 29 * MIB), rig.pool);
	gp_registry_unmap(&later);
	assert_null(gp_pool_of(address));
}

/* ---- contexts that go ----------------------------------------------------------- */

static sem_t releasing, resume;
static bool left; /* atomic */

static void stop_release(void *arg, enum model_call call)
{
	(void)arg;
	if (call != MODEL_SEGMENT_FREE)
		return;
	sem_post(&releasing);
	sem_wait(&resume);
}

static void *trim(void *arg)
{
	(void)arg;
	gp_pool_trim(rig.pool, UINT64_MAX);
	return NULL;
}

static void *leave(void *arg)
{
	(void)arg;
	gp_pool_leave(rig.pool, true);
	__atomic_store_n(&left, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* What went with the context may be somebody else's when a release comes to it. */
static void nothing_is_given_back_while_the_context_goes(void **state)
{
	const struct timespec nap = {.tv_nsec = 20000000};
	pthread_t trims, leaves;
	bool too_early;
	uint64_t va;

	(void)state;
	assert_int_equal(pool_rig_open(&rig), 0);
	sem_init(&releasing, 0, 0);
	sem_init(&resume, 0, 0);
	va = pool_rig_alloc(&rig, 25 * MIB);
	gp_pool_free(rig.pool, va);
	model_set_hook(rig.model, stop_release, NULL);
	assert_int_equal(pthread_create(&trims, NULL, trim, NULL), 0);
	sem_wait(&releasing);
	assert_int_equal(pthread_create(&leaves, NULL, leave, NULL), 0);
	nanosleep(&nap, NULL);
	too_early = __atomic_load_n(&left, __ATOMIC_SEQ_CST);
	sem_post(&resume);
	pthread_join(trims, NULL);
	pthread_join(leaves, NULL);
	model_set_hook(rig.model, NULL, NULL);
	assert_false(too_early);
	assert_int_equal(model_used(rig.model), 0);
	/* Nor after that, unless it stays. */
	gp_pool_free(rig.pool, pool_rig_alloc(&rig, 25 * MIB));
	assert_int_equal(gp_pool_trim(rig.pool, UINT64_MAX), 0);
	gp_pool_leave(rig.pool, false);
	assert_int_equal(gp_pool_trim(rig.pool, UINT64_MAX), 26 * MIB);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, new_rig, pool_rig_end)
	const struct CMUnitTest tests[] = {
		T(segments_have_the_classic_sizes),
		T(virtual_memory_can_be_switched_off),
		T(lookups_know_segments),
		T(large_blocks_split_and_join),
		T(segments_stay_apart),
		T(max_split_size_keeps_large_blocks_whole),
		T(a_full_device_releases_cached_segments),
		T(only_what_is_needed_is_released),
		T(garbage_is_collected_before_growth),
		T(idle_segments_decay),
		T(an_address_is_of_who_got_it_last),
		T(nothing_is_given_back_while_the_context_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
