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
			gp_foreign_add(key, &entry);
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
	uint64_t before = current(GP_KIND_virtual);

	(void)state;
	gp_foreign_add(77, &entry);
	gp_foreign_ref(77);   /* mapped */
	gp_foreign_unref(77); /* released, still mapped */
	assert_int_equal(current(GP_KIND_virtual), before + (2 << 20));
	assert_int_equal(gp_foreign_bytes(77), 2 << 20);
	gp_foreign_unref(77); /* unmapped */
	assert_int_equal(current(GP_KIND_virtual), before);
	assert_int_equal(gp_foreign_bytes(77), 0);
	gp_foreign_unref(77); /* unknown: ignored */
	assert_int_equal(current(GP_KIND_virtual), before);
}

static void test_null_is_never_entered(void **state)
{
	struct gp_foreign entry = {
		.kind = GP_KIND_plain, .bytes = 1, .refs = 1};

	(void)state;
	gp_foreign_add(0, &entry);
	assert_false(gp_foreign_take(0, &entry));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_stream),
		cmocka_unit_test(test_handles_live_until_the_last_reference),
		cmocka_unit_test(test_null_is_never_entered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
