/*
 * Description: 16 threads allocate and free while the process sends itself
 * signals, two kinds of them by turns: SIGUSR1, for which it has a handler, and
 * a real-time signal, of which none may be lost.
 *
 *   drv_storm [SIGNALS]        how many of each, 100
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#define THREADS 16
#define BLOCKS  8

static CUcontext context;
static atomic_int stop, failures, ready;
static atomic_int usual, queued;

static void handle(int number, siginfo_t *info, void *unused)
{
	(void)unused;
	if (number == SIGUSR1)
		atomic_fetch_add(&usual, 1);
	else if (info->si_code == SI_QUEUE)
		atomic_fetch_add(&queued, 1);
}

static void install(int number)
{
	struct sigaction action = {.sa_sigaction = handle,
				   .sa_flags = SA_SIGINFO | SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

static void *churn(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;
	CUdeviceptr blocks[BLOCKS] = {0};

	cuCtxSetCurrent(context);
	atomic_fetch_add(&ready, 1);
	while (!atomic_load(&stop)) {
		unsigned i = (seed = seed * 1103515245u + 12345u) >> 16;
		CUdeviceptr *block = &blocks[i % BLOCKS];

		if (*block && cuMemFree(*block))
			atomic_fetch_add(&failures, 1);
		*block = 0;
		if (cuMemAlloc(block, 512u << (i >> 4) % 13))
			atomic_fetch_add(&failures, 1);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i] && cuMemFree(blocks[i]))
			atomic_fetch_add(&failures, 1);
	return NULL;
}

/* About a thousand a second. */
static void storm(int signals)
{
	const struct timespec rest = {.tv_nsec = 900000};

	for (int i = 0; i < signals; i++) {
		kill(getpid(), SIGUSR1);
		while (sigqueue(getpid(), SIGRTMIN + 3,
				(union sigval){.sival_int = i}) &&
		       errno == EAGAIN)
			nanosleep(&rest, NULL);
		nanosleep(&rest, NULL);
	}
}

int main(int argc, char **argv)
{
	int signals = argc > 1 ? atoi(argv[1]) : 100;
	pthread_t threads[THREADS];
	CUdeviceptr block;

	install(SIGUSR1);
	install(SIGRTMIN + 3);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuCtxSetCurrent(context) || cuMemAlloc(&block, 4096))
		return 1;
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, churn, (void *)(i + 1)))
			return 1;
	while (atomic_load(&ready) < THREADS)
		;
	storm(signals);
	atomic_store(&stop, 1);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("queued %d of %d, usual %s, failures %d\n", atomic_load(&queued),
	       signals, atomic_load(&usual) ? "some" : "none",
	       atomic_load(&failures));
	return atomic_load(&queued) != signals || !atomic_load(&usual) ||
	       atomic_load(&failures);
}
