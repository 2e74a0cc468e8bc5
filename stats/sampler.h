/*
 * Which allocations are looked at: chosen by bytes, as a Poisson process with
 * one sample in `mean` bytes. Each byte is as likely as any other to be the one
 * that is hit, so a block of s bytes is chosen with probability
 * p = 1 - exp(-s / mean), and standing for s / p bytes it makes every sum over
 * samples unbiased.
 *
 * A thread counts down to its next sample: one subtraction a call. Where samples
 * take more than 1 % of a thread's time its mean is raised, which leaves the
 * sums unbiased: it is known before the blocks are. A thread's first
 * hundredth of a second or two is free, so that short programs are seen sharply.
 */
#ifndef GP_STATS_SAMPLER_H
#define GP_STATS_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

/* Only its thread's own. */
struct gp_sampler {
	int64_t left; /* bytes to the next sample; below 0: take it */
	uint64_t mean;
	uint64_t random; /* never 0 */
	uint64_t last;   /* ns, when the last sample was done; 0: none yet */
	uint64_t grace;  /* ns of samples that are not judged */
	uint64_t cost, span; /* ns, of the samples since the mean was judged */
	unsigned samples;
};

/* What a chosen block stands for. */
struct gp_weight {
	double bytes, blocks;
};

/* `mean` 0: nothing is ever chosen. */
void gp_sampler_init(struct gp_sampler *sampler, uint64_t mean, uint64_t seed);

/* After so many bytes the countdown went below 0: what the block stands for,
 * and the way to the next. */
struct gp_weight gp_sampler_take(struct gp_sampler *sampler, uint64_t bytes);

/* The sample took `cost` ns of the thread's processor time, and is done at
 * `now`, ns of a clock that goes on; `base` is the mean to go back to. */
void gp_sampler_paid(struct gp_sampler *sampler, uint64_t base, uint64_t cost,
		     uint64_t now);

/* Counts so many bytes. True: take a sample. */
static inline bool gp_sampler_due(struct gp_sampler *sampler, uint64_t bytes)
{
	sampler->left -= (int64_t)bytes;
	return __builtin_expect(sampler->left < 0, 0);
}

#endif
