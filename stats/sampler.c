/* Choosing by bytes; see sampler.h. */
#include "stats/sampler.h"

#include <string.h>

#define NEVER        (INT64_MAX / 2)

#define JUDGED_EVERY 16u       /* samples */
#define SHARE        100u      /* of the time: 1 % */
#define CALM         400u      /* below 1/4 % the mean comes down again */
#define STEP         8u        /* the most that the mean is raised by at once */
#define GRACE        20000000u /* ns; about a thousand samples */
#define MEAN_MAX     (1ull << 50)

/* There is no libm among what the library needs. */

/* ln x for x > 0. */
static double logarithm(double x)
{
	uint64_t bits;
	int exponent;
	double s, s2, sum = 0;

	memcpy(&bits, &x, sizeof(bits));
	exponent = (int)(bits >> 52 & 0x7ff) - 1023;
	bits = (bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull;
	memcpy(&x, &bits, sizeof(x)); /* 1 <= x < 2 */
	s = (x - 1) / (x + 1);
	s2 = s * s;
	for (int k = 25; k >= 1; k -= 2)
		sum = sum * s2 + 1.0 / k;
	return 2 * s * sum + exponent * 0.69314718055994530942;
}

/* 1 - exp(-x) for x >= 0, exact also for small x. */
static double chance(double x)
{
	double y, sum = 0;
	int halvings = 0;

	if (x > 50)
		return 1;
	for (; x > 1.0 / 16; halvings++)
		x /= 2;
	for (int k = 9; k >= 1; k--) /* x - x^2/2 + x^3/6 ... */
		sum = (x / k) * (1 - sum);
	y = sum;
	while (halvings--) /* 1 - (1 - y)^2 */
		y = y * (2 - y);
	return y;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

/* Exponentially distributed. */
static int64_t draw(struct gp_sampler *sampler)
{
	double u = (double)((next_random(&sampler->random) >> 11) + 1) *
		   (1.0 / 9007199254740992.0); /* above 0, up to 1 */
	double bytes = -logarithm(u) * (double)sampler->mean;

	return bytes < (double)NEVER ? (int64_t)bytes : NEVER;
}

void gp_sampler_init(struct gp_sampler *sampler, uint64_t mean, uint64_t seed)
{
	memset(sampler, 0, sizeof(*sampler));
	sampler->mean = mean;
	sampler->grace = GRACE;
	sampler->random = seed * 0x9e3779b97f4a7c15ull;
	if (!sampler->random)
		sampler->random = 1;
	for (int i = 0; i < 8; i++) /* seeds that are alike come apart */
		next_random(&sampler->random);
	sampler->left = mean ? draw(sampler) : NEVER;
}

struct gp_weight gp_sampler_take(struct gp_sampler *sampler, uint64_t bytes)
{
	double p = chance((double)bytes / (double)sampler->mean);

	sampler->left = draw(sampler);
	return (struct gp_weight){(double)bytes / p, 1 / p};
}

void gp_sampler_paid(struct gp_sampler *sampler, uint64_t base, uint64_t cost,
		     uint64_t now)
{
	uint64_t times;

	if (sampler->grace) {
		sampler->grace -= cost < sampler->grace ? cost : sampler->grace;
	} else if (sampler->last) {
		sampler->cost += cost;
		sampler->span += now - sampler->last;
		sampler->samples++;
	}
	sampler->last = now;
	if (sampler->samples < JUDGED_EVERY)
		return;
	times = sampler->cost * SHARE / (sampler->span + 1);
	if (times && sampler->mean < MEAN_MAX)
		sampler->mean *= times < 2 ? 2 : times < STEP ? times : STEP;
	else if (sampler->cost * CALM < sampler->span &&
		 sampler->mean / 2 >= base)
		sampler->mean /= 2;
	sampler->cost = sampler->span = 0;
	sampler->samples = 0;
	/* What was left was counted in the old mean's bytes. */
	sampler->left = draw(sampler);
}
