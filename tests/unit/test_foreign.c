/*
 * The table of memory that does not come from the pool: a random stream of
 * entries against a plain array, and the counters that must follow it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shim/foreign.c"

/* No call site is of interest here. */
__thread struct gp_sampler gp_stacks_sampler;

bool gp_stacks_due(struct gp_pool *pool, uint64_t address, uint64_t bytes)
{
	(void)pool;
	(void)address;
	(void)bytes;
	return false;
}

#define KEYS 500

static uint64_t current(enum gp_kind kind)
{
	struct gp_kind_stats stats;

	gp_kind_get(kind, &stats);
	return stats.bytes.current;
}

static void test_random_stream(void **state)
{
	uint64_t bytes[KEYS] = {0};
	uint64_t sum = 0, before = current(GP_KIND_managed);
	uint64_t rng = 88172645463325252ull;

	(void)state;
	for (int step = 0; step < 200000; step++) {
		rng ^= rng << 13;
		rng ^= rng >> 7;
		rng ^= rng << 17;
		size_t i = rng % KEYS;
		/* neighbours collide: keys a page apart, and some huge */
		uint64_t key =
			(i & 1) ? 0x7f0000000000ull + i * 4096 : UINT64_MAX - i;
		struct gp_foreign entry = {.kind = GP_KIND_managed,
					   .bytes = rng % 10000,
					   .refs = 1};

		if (rng & (1ull << 40)) {
			gp_foreign_add(key, &entry, NULL);
			sum += entry.bytes - bytes[i];
			bytes[i] = entry.bytes;
		} else {
			struct gp_foreign took = {0};
			bool known = gp_foreign_take(key, &took);

			assert_int_equal(took.bytes, bytes[i]);
			assert_true(known || !bytes[i]);
			sum -= bytes[i];
			bytes[i] = 0;
		}
		assert_int_equal(current(GP_KIND_managed) - before, sum);
	}
}

static void test_handles_live_until_the_last_reference(void **state)
{
	struct gp_foreign entry = {
		.kind = GP_KIND_virtual, .bytes = 2 << 20, .refs = 1};
	struct gp_foreign last = {.refs = 7};
	uint64_t before = current(GP_KIND_virtual);

	(void)state;
	assert_true(gp_foreign_add(77, &entry, NULL));
	assert_true(gp_foreign_ref(77));           /* mapped */
	assert_false(gp_foreign_unref(77, &last)); /* released, still mapped */
	assert_int_equal(current(GP_KIND_virtual), before + (2 << 20));
	assert_true(gp_foreign_unref(77, &last)); /* unmapped */
	assert_int_equal(last.bytes, 2 << 20);
	assert_int_equal(current(GP_KIND_virtual), before);
	assert_false(gp_foreign_unref(77, &last)); /* unknown: ignored */
	assert_false(gp_foreign_ref(77));
	assert_int_equal(current(GP_KIND_virtual), before);
}

static void test_null_is_never_entered(void **state)
{
	struct gp_foreign entry = {
		.kind = GP_KIND_plain, .bytes = 1, .refs = 1};

	(void)state;
	assert_false(gp_foreign_add(0, &entry, NULL));
	assert_false(gp_foreign_take(0, &entry));
}

/* The address came back although nobody saw the free: what was there is told,
 * so that it can be taken off the ledger. */
static void test_replaced(void **state)
{
	struct gp_foreign entry = {
		.kind = GP_KIND_array, .bytes = 100, .refs = 1};
	struct gp_foreign before = {.refs = 7};
	uint64_t sum = current(GP_KIND_array);

	(void)state;
	assert_true(gp_foreign_add(99, &entry, &before));
	assert_int_equal(before.refs, 0);
	entry.bytes = 200;
	assert_true(gp_foreign_add(99, &entry, &before));
	assert_int_equal(before.refs, 1);
	assert_int_equal(before.bytes, 100);
	assert_int_equal(current(GP_KIND_array), sum + 200);
	assert_true(gp_foreign_take(99, &entry));
}

static bool is_of(const struct gp_foreign *entry, const void *context)
{
	return entry->context == *(const uint64_t *)context;
}

static uint64_t dropped_bytes;

static void drop(uint64_t key, const struct gp_foreign *entry)
{
	assert_int_equal(key, entry->bytes << 12);
	dropped_bytes += entry->bytes;
}

/* A context goes, with all that was taken in it and nothing else; whatever the
 * table looks like. */
static void test_forget(void **state)
{
	const uint64_t mine = 1;
	uint64_t before = current(GP_KIND_managed), sum = 0;

	(void)state;
	for (uint64_t key = 1; key <= 10000; key++) {
		struct gp_foreign entry = {.kind = GP_KIND_managed,
					   .bytes = key,
					   .refs = 1,
					   .context = key % 3};

		assert_true(gp_foreign_add(key << 12, &entry, NULL));
		sum += key % 3 == mine ? key : 0;
	}
	gp_foreign_forget(is_of, &mine, drop);
	assert_int_equal(dropped_bytes, sum);
	for (uint64_t key = 1; key <= 10000; key++) {
		struct gp_foreign entry;

		assert_int_equal(gp_foreign_take(key << 12, &entry),
				 key % 3 != mine);
	}
	assert_int_equal(current(GP_KIND_managed), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_stream),
		cmocka_unit_test(test_handles_live_until_the_last_reference),
		cmocka_unit_test(test_null_is_never_entered),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
