/*
 * Description: threads that allocate and free blocks of many sizes. With a
 * progress file it does so until it is killed, and the file says how far each
 * thread has come; else it makes some steps and says how many were refused.
 *
 *   drv_churn [PROGRESS [THREADS [MAX_BYTES [LIVE]]]]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cuda.h>

#define MAX_THREADS 16
#define MAX_LIVE    4096
#define SHORT_STEPS 2000

/* As the tests read it, at any moment: the last step is one word, written before
 * the number of steps. */
struct progress {
	uint64_t steps; /* of cuMemAlloc and cuMemFree that succeeded */
	uint64_t last;  /* address | 1 if it was freed */
	uint64_t thread;
	uint64_t refused;
	uint64_t unused[4];
};

static struct progress plain[MAX_THREADS], *progress = plain;
static uint64_t max_bytes = 1 << 20;
static unsigned live = 64;
static CUcontext context;
static int for_ever;

static uint64_t next(uint64_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 7;
	*rng ^= *rng << 17;
	return *rng;
}

static void done(struct progress *p, CUdeviceptr address, int is_free)
{
	__atomic_store_n(&p->last, address | (uint64_t)is_free,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&p->steps, p->steps + 1, __ATOMIC_RELEASE);
}

static void give(struct progress *p, CUdeviceptr *block)
{
	CUresult rc = cuMemFree(*block);

	if (rc != CUDA_SUCCESS) {
		printf("free: %d\n", (int)rc);
		exit(1);
	}
	done(p, *block, 1);
	*block = 0;
}

static void step(struct progress *p, CUdeviceptr *blocks, uint64_t *rng)
{
	CUdeviceptr *block = &blocks[next(rng) % live];
	uint64_t bytes = 1 + next(rng) % max_bytes;
	CUresult rc;

	if (*block) {
		give(p, block);
		return;
	}
	/* Mostly small ones. */
	if (next(rng) % 4)
		bytes = 1 + bytes % 65536;
	rc = cuMemAlloc(block, bytes);
	if (rc == CUDA_SUCCESS) {
		done(p, *block, 0);
		return;
	}
	*block = 0;
	p->refused++;
	if (rc != CUDA_ERROR_OUT_OF_MEMORY) {
		printf("alloc: %d\n", (int)rc);
		exit(1);
	}
	/* As a program does that has several things to do: makes room. */
	for (unsigned i = 0; i < live; i += 2)
		if (blocks[i])
			give(p, &blocks[i]);
}

static void *churn(void *arg)
{
	struct progress *p = arg;
	CUdeviceptr *blocks = calloc(live, sizeof(*blocks));
	uint64_t rng = 88172645463325252ull + (uint64_t)(p - progress) * 7919;

	p->thread = (uint64_t)syscall(SYS_gettid);
	if (!blocks || cuCtxSetCurrent(context) != CUDA_SUCCESS)
		exit(1);
	for (int i = 0; for_ever || i < SHORT_STEPS; i++)
		step(p, blocks, &rng);
	for (unsigned i = 0; i < live; i++)
		if (blocks[i])
			give(p, &blocks[i]);
	free(blocks);
	return NULL;
}

static void open_progress(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(plain)))
		exit(1);
	progress = mmap(NULL, sizeof(plain), PROT_READ | PROT_WRITE, MAP_SHARED,
			fd, 0);
	if (progress == MAP_FAILED)
		exit(1);
	close(fd);
	for_ever = 1;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 2;
	pthread_t thread[MAX_THREADS];
	uint64_t refused = 0;

	if (argc > 1)
		open_progress(argv[1]);
	if (argc > 3)
		max_bytes = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		live = (unsigned)atoi(argv[4]);
	if (!threads || threads > MAX_THREADS || !live || live > MAX_LIVE ||
	    !max_bytes)
		return 2;
	if (cuInit(0) != CUDA_SUCCESS ||
	    cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
		return 1;
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, churn, &progress[i]))
			return 1;
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		refused += progress[i].refused;
	}
	printf("refused: %llu\n", (unsigned long long)refused);
	return 0;
}
