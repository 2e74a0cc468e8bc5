/* What is left between rounds: nothing. */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shim/gpupool.h"
#include "tests/sim/gpusim.h"
#include "tests/soak/soak.h"

#define DEADLINE_S 60

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What others have mapped comes back when they close it. */
void check_empty(struct thread *t)
{
	struct gpupool_figures f = {.size = sizeof(f)};
	double end = seconds() + DEADLINE_S;

	for (unsigned i = 0; i < soak.devices; i++) {
		CUmemoryPool pool;
		uint64_t used;

		GOOD(t, cuDeviceGetDefaultMemPool(&pool, (int)i));
		GOOD(t, cuMemPoolTrimTo(pool, 0));
		while ((used = gpusim_used_bytes((int)i)) ||
		       gpusim_context_bytes((int)i)) {
			if (seconds() > end)
				wrong(t,
				      "device %u: %llu bytes held, and %llu "
				      "by contexts, when all is freed",
				      i, (unsigned long long)used,
				      (unsigned long long)gpusim_context_bytes(
					      (int)i));
			if (gpupool_loaded())
				gpupool_trim(GPUPOOL_ALL_DEVICES, NULL);
			beat(t, OP_quiet);
			usleep(2000);
		}
	}
	if (!gpupool_loaded())
		return;
	if (gpupool_figures(GPUPOOL_ALL_DEVICES, &f))
		wrong(t, "no figures");
	if (f.allocated_bytes.current || f.requested_bytes.current ||
	    f.active_bytes.current || f.reserved_bytes.current ||
	    f.allocation.current || f.segment.current || f.outside_bytes ||
	    f.cached_bytes)
		wrong(t,
		      "counted when all is freed: allocated %llu requested "
		      "%llu active %llu reserved %llu allocations %llu "
		      "segments %llu outside %llu",
		      (unsigned long long)f.allocated_bytes.current,
		      (unsigned long long)f.requested_bytes.current,
		      (unsigned long long)f.active_bytes.current,
		      (unsigned long long)f.reserved_bytes.current,
		      (unsigned long long)f.allocation.current,
		      (unsigned long long)f.segment.current,
		      (unsigned long long)f.outside_bytes);
}

static unsigned count_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 2;
}

static unsigned count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned n = 0;
	int c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

void tell(uint64_t round)
{
	size_t in_use = mallinfo2().uordblks;
	unsigned long size = 0, resident = 0;
	FILE *f;

	malloc_trim(0);
	f = fopen("/proc/self/statm", "re");
	if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
		exit(3);
	fclose(f);
	printf("round %llu fds %u threads %u rss_kib %lu malloc_kib %zu "
	       "maps %u\n",
	       (unsigned long long)round, count_in("/proc/self/fd") - 1,
	       count_in("/proc/self/task"), resident * 4, in_use / 1024,
	       count_lines("/proc/self/maps"));
	fflush(stdout);
}
