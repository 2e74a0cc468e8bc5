/*
 * Times three driver calls that do nothing: what is left is the way there.
 * Looks them up as the runtime does, and prints "NAME NS" for each: the best
 * of several rounds.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#define ROUNDS 20
#define CALLS  100000

typedef int launch_fn(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
		      unsigned, unsigned, void *, void **, void **);
typedef int copy_fn(unsigned long long, unsigned long long, size_t, void *);
typedef int record_fn(void *, void *);

static launch_fn *launch;
static copy_fn *copy;
static record_fn *record;

static void launches(void)
{
	for (int i = 0; i < CALLS; i++)
		launch(&launch, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void copies(void)
{
	for (int i = 0; i < CALLS; i++)
		copy(4096, 8192, 512, NULL);
}

static void records(void)
{
	for (int i = 0; i < CALLS; i++)
		record(&record, NULL);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void time_calls(const char *name, void (*calls)(void))
{
	double best = 0;

	for (int i = 0; i < ROUNDS; i++) {
		double start = now_ns(), ns;

		calls();
		ns = (now_ns() - start) / CALLS;
		if (!i || ns < best)
			best = ns;
	}
	printf("%s %.3f\n", name, best);
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	launch = (launch_fn *)dlsym(driver, "cuLaunchKernel");
	copy = (copy_fn *)dlsym(driver, "cuMemcpyAsync");
	record = (record_fn *)dlsym(driver, "cuEventRecord");
	if (!launch || !copy || !record)
		return 1;
	time_calls("cuLaunchKernel", launches);
	time_calls("cuMemcpyAsync", copies);
	time_calls("cuEventRecord", records);
	return 0;
}
