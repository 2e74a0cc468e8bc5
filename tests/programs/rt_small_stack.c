/*
 * Description: threads with the smallest stack that there is allocate, free,
 * launch, and are refused; the first of them is the first that asks for memory
 * at all.
 *
 *   rt_small_stack [driver|runtime [BYTES|measure]]
 *
 * BYTES: of stack, with what the C library keeps there. measure: tells on stderr
 * what each step took of a large one.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#define THREADS 3
#define LARGE   (1u << 20)
/* AddressSanitizer takes more than there is. */
#ifdef __SANITIZE_ADDRESS__
#define SMALLEST LARGE
#else
#define SMALLEST PTHREAD_STACK_MIN
#endif

/* The simulated driver has it by name: fill32(at, value, n). */
static const char ptx[] = ".visible .entry fill32";

static CUcontext context;
static CUfunction fill;
static bool by_driver, measure;
static char *stack; /* of the thread that runs */
static size_t stack_bytes;

/* The stack was zeros below here, and is again. */
static void tell(const char *step)
{
	volatile char *here = __builtin_frame_address(0), *at = stack;

	if (!measure)
		return;
	while (at < here && !*at)
		at++;
	fprintf(stderr, "%s %zu\n", step, (size_t)(here - at));
	for (at = stack; at < here - 1024; at++)
		*at = 0;
}

static CUresult allocate(CUdeviceptr *p, size_t bytes)
{
	return by_driver ? cuMemAlloc(p, bytes)
			 : (CUresult)cudaMalloc((void **)p, bytes);
}

static CUresult release(CUdeviceptr p)
{
	return by_driver ? cuMemFree(p) : (CUresult)cudaFree((void *)p);
}

static CUresult launch(CUdeviceptr at)
{
	uint32_t value = 7;
	uint64_t n = 4;
	void *args[] = {&at, &value, &n};

	return cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
}

#define STEP(name, call, expected)        \
	do {                              \
		failed = (call);          \
		tell(name);               \
		if (failed != (expected)) \
			return #call;     \
	} while (0)

static const char *steps(void)
{
	CUdeviceptr small, large, huge;
	CUresult failed;

	STEP("context",
	     by_driver ? cuCtxSetCurrent(context) : (CUresult)cudaSetDevice(0),
	     0);
	STEP("alloc", allocate(&small, 3000), 0);
	STEP("large", allocate(&large, 300u << 20), 0);
	STEP("launch", launch(large), 0);
	STEP("free", release(small), 0);
	STEP("launch", launch(large), 0);
	STEP("free", release(large), 0);
	STEP("alloc", allocate(&small, 3000), 0);
	STEP("refused", allocate(&huge, (size_t)1 << 45),
	     CUDA_ERROR_OUT_OF_MEMORY);
	STEP("free", release(small), 0);
	return NULL;
}

static void *thread_main(void *arg)
{
	if (measure)
		tell("thread");
	*(const char **)arg = steps();
	return NULL;
}

/* What went wrong in a thread with such a stack. */
static const char *run_thread(void)
{
	const char *wrong = "pthread_create";
	pthread_attr_t attr;
	pthread_t thread;

	/* Below it lies a page that nobody may touch. */
	stack = mmap(NULL, stack_bytes + 4096, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE))
		return "mmap";
	stack += 4096;
	pthread_attr_init(&attr);
	if (!pthread_attr_setstack(&attr, stack, stack_bytes) &&
	    !pthread_create(&thread, &attr, thread_main, &wrong))
		pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	munmap(stack - 4096, stack_bytes + 4096);
	return wrong;
}

int main(int argc, char **argv)
{
	const char *wrong = NULL;
	CUmodule module;

	by_driver = argc > 1 && !strcmp(argv[1], "driver");
	measure = argc > 2 && !strcmp(argv[2], "measure");
	stack_bytes = measure ? LARGE : SMALLEST;
	if (argc > 2 && !measure)
		stack_bytes = (size_t)atoi(argv[2]);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuCtxSetCurrent(context) || cuModuleLoadData(&module, ptx) ||
	    cuModuleGetFunction(&fill, module, "fill32"))
		return 2;
	for (int i = 0; i < THREADS && !wrong; i++)
		wrong = run_thread();
	printf("%s\n", wrong ? wrong : "done");
	return wrong != NULL;
}
