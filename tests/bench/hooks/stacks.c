/*
 * Times cuMemAlloc+cuMemFree pairs of blocks that the pool has, called from a
 * few functions deep. Prints ns for a pair: the best of several rounds.
 *
 *   stacks BYTES
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 40
#define CALLS  5000
#define DEPTH  12

typedef int get_fn(void **, int);
typedef int init_fn(unsigned);
typedef int retain_fn(void **, int);
typedef int set_fn(void *);
typedef int alloc_fn(unsigned long long *, size_t);
typedef int free_fn(unsigned long long);

static alloc_fn *alloc;
static free_fn *release;

__attribute__((noinline)) static void pairs(int depth, size_t bytes)
{
	if (depth) {
		pairs(depth - 1, bytes);
		__asm__ volatile("" ::: "memory"); /* no tail call */
		return;
	}
	for (int i = 0; i < CALLS; i++) {
		unsigned long long at = 0;

		if (alloc(&at, bytes) || release(at))
			exit(1);
	}
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
	init_fn *init;
	retain_fn *retain;
	set_fn *set;
	double best = 0;

	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	init = (init_fn *)dlsym(driver, "cuInit");
	retain = (retain_fn *)dlsym(driver, "cuDevicePrimaryCtxRetain");
	set = (set_fn *)dlsym(driver, "cuCtxSetCurrent");
	alloc = (alloc_fn *)dlsym(driver, "cuMemAlloc_v2");
	release = (free_fn *)dlsym(driver, "cuMemFree_v2");
	if (!init || !retain || !set || !alloc || !release || init(0) ||
	    retain(&context, 0) || set(context))
		return 1;
	for (int i = 0; i < ROUNDS; i++) {
		double start = now_ns(), ns;

		pairs(DEPTH, bytes);
		ns = (now_ns() - start) / CALLS;
		if (!i || ns < best)
			best = ns;
	}
	printf("%.2f\n", best);
	return 0;
}
