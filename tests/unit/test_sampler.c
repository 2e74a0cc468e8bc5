/*
 * Choosing by bytes: the sums are right on average, and the price is bounded.
 * All seeds are fixed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "stats/sampler.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)

struct sum {
	double bytes, blocks, samples;
};

static struct sum estimate(uint64_t mean, uint64_t size, unsigned blocks,
			   uint64_t seed)
{
	struct gp_sampler sampler;
	struct sum sum = {0};

	gp_sampler_init(&sampler, mean, seed);
	for (unsigned i = 0; i < blocks; i++) {
		struct gp_weight weight;

		if (!gp_sampler_due(&sampler, size))
			continue;
		weight = gp_sampler_take(&sampler, size);
		sum.bytes += weight.bytes;
		sum.blocks += weight.blocks;
		sum.samples++;
	}
	return sum;
}

static void near(double found, double wanted, double part)
{
	if (found < wanted * (1 - part) || found > wanted * (1 + part))
		fail_msg("%.1f is not within %.2f %% of %.1f", found,
			 100 * part, wanted);
}

/* 200,000 means' worth each: sums are known to a quarter of a per cent (one
 * standard deviation), and held to four of those. */
static void test_unbiased(void **state)
{
	static const uint64_t sizes[] = {512,     4 * KIB, 100 * KIB,
					 1 * MIB, 3 * MIB, 20 * MIB};

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const double all = 200000.0 * MIB;
		const unsigned blocks = (unsigned)(all / (double)sizes[i]);
		struct sum sum = estimate(MIB, sizes[i], blocks, 7 + i);

		near(sum.bytes, (double)sizes[i] * blocks, 0.01);
		near(sum.blocks, blocks, 0.01);
	}
}

/* Small blocks: one sample in `mean` bytes. Large ones: each. */
static void test_how_many(void **state)
{
	struct sum sum;

	(void)state;
	sum = estimate(MIB, KIB, 10000 * 1024, 1);
	near(sum.samples, 10000, 0.05);
	sum = estimate(MIB, 100 * MIB, 10000, 1);
	assert_true(sum.samples == 10000);
	near(sum.bytes, 10000.0 * 100 * MIB, 1e-9);
}

/* Threads that start alike do not choose alike. */
static void test_seeds(void **state)
{
	struct gp_sampler a, b;

	(void)state;
	gp_sampler_init(&a, MIB, 1000);
	gp_sampler_init(&b, MIB, 1001);
	assert_true(a.left != b.left);
	gp_sampler_init(&b, MIB, 1000);
	assert_true(a.left == b.left);
}

static void test_off(void **state)
{
	struct gp_sampler sampler;

	(void)state;
	gp_sampler_init(&sampler, 0, 1);
	for (int i = 0; i < 1000; i++)
		assert_false(gp_sampler_due(&sampler, 1ull << 50));
}

/* Samples that cost `cost` each `gap` ns: the mean after so many. */
static uint64_t mean_after(struct gp_sampler *sampler, unsigned samples,
			   uint64_t cost, uint64_t gap, uint64_t *now)
{
	for (unsigned i = 0; i < samples; i++) {
		*now += gap;
		*now += cost;
		gp_sampler_paid(sampler, MIB, cost, *now);
	}
	return sampler->mean;
}

static void test_price(void **state)
{
	struct gp_sampler sampler;
	uint64_t now = 1000000;

	(void)state;
	gp_sampler_init(&sampler, MIB, 1);
	/* The first 20 ms are free. */
	assert_true(mean_after(&sampler, 199, 100000, 1, &now) == MIB);
	assert_true(mean_after(&sampler, 100, 100000, 1, &now) > 8 * MIB);
	/* Half a per cent: it stays. */
	uint64_t mean = sampler.mean;

	mean_after(&sampler, 16, 10000, 2000000, &now);
	mean = sampler.mean;
	assert_true(mean_after(&sampler, 160, 10000, 2000000, &now) == mean);
	/* Cheap: it comes back, and no further. */
	assert_true(mean_after(&sampler, 2000, 10000, 20000000, &now) >= MIB);
	assert_true(sampler.mean < 2 * MIB);
}

/* Also while the mean moves. */
static void test_unbiased_when_paid(void **state)
{
	struct gp_sampler sampler;
	double bytes = 0;
	uint64_t now = 1000000;
	unsigned blocks = 4000000;

	(void)state;
	gp_sampler_init(&sampler, 64 * KIB, 3);
	for (unsigned i = 0; i < blocks; i++) {
		now += 1000;
		if (!gp_sampler_due(&sampler, 256 * KIB))
			continue;
		bytes += gp_sampler_take(&sampler, 256 * KIB).bytes;
		now += 20000;
		gp_sampler_paid(&sampler, 64 * KIB, 20000, now);
	}
	assert_true(sampler.mean > 64 * KIB);
	near(bytes, blocks * 256.0 * KIB, 0.03);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unbiased),
		cmocka_unit_test(test_how_many),
		cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_price),
		cmocka_unit_test(test_unbiased_when_paid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
