/*
 * Description: threads that allocate and free all the time just after a library
 * was opened. They must not all stand in line for the linker's lock: its list
 * is looked at far less often than once a call. With a number of pairs a thread
 * that is held against the processor time; else the few are only made.
 *
 *   drv_looks [PAIRS]
 */
#ifdef __SANITIZE_ADDRESS__
/* AddressSanitizer calls the function that this takes the place of before
 * anything can be looked up. */
int main(void)
{
	return 77;
}
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>

#define THREADS 4
#define FEW     200

/* Processor time a look, at the least: a pair takes less. */
#define LOOK_NS 5000
#define SOME    2000

typedef int callback(struct dl_phdr_info *info, size_t size, void *arg);

static int (*real)(callback *call, void *arg);
static unsigned long looks; /* atomic */
static CUcontext context;
static int num_pairs = FEW;

/* In place of the C library's, for whoever is in the process. */
__attribute__((visibility("default"))) int dl_iterate_phdr(callback *call,
							   void *arg)
{
	int (*iterate)(callback *, void *) = real;

	__atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
	if (!iterate)
		*(void **)&iterate = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return iterate(call, arg);
}

static unsigned long processor_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (unsigned long)t.tv_sec * 1000000000ul +
	       (unsigned long)t.tv_nsec;
}

static void *pairs(void *arg)
{
	size_t bytes = *(size_t *)arg;
	CUdeviceptr p;

	if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return arg;
	for (int i = 0; i < num_pairs; i++)
		if (cuMemAlloc(&p, bytes) != CUDA_SUCCESS ||
		    cuMemFree(p) != CUDA_SUCCESS)
			return arg;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];
	size_t bytes = 100000;
	unsigned long ns, made;
	void *failed = NULL;

	if (argc > 1)
		num_pairs = atoi(argv[1]);
	*(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	if (!real || cuInit(0) != CUDA_SUCCESS ||
	    cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
	    !dlopen("libm.so.6", RTLD_NOW))
		return 1;
	ns = processor_ns();
	made = __atomic_load_n(&looks, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, pairs, &bytes))
			return 1;
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(thread[i], &result);
		if (result)
			failed = result;
	}
	ns = processor_ns() - ns;
	made = __atomic_load_n(&looks, __ATOMIC_RELAXED) - made;
	if (argc > 1 && made > SOME + ns / LOOK_NS) {
		printf("%lu looks in %lu ns\n", made, ns);
		return 1;
	}
	return failed != NULL;
}
#endif
