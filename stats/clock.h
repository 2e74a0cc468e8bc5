/*
 * Clocks and times in nanoseconds. Of any thread, and in signal handlers.
 */
#ifndef GP_STATS_CLOCK_H
#define GP_STATS_CLOCK_H

#include <stdint.h>
#include <time.h>

#define GP_NS_PER_S 1000000000u

static inline uint64_t gp_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * GP_NS_PER_S + (uint64_t)time->tv_nsec;
}

static inline struct timespec gp_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / GP_NS_PER_S),
				 .tv_nsec = (long)(ns % GP_NS_PER_S)};
}

static inline uint64_t gp_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return gp_ns(&now);
}

#endif
