/*
 * Keeps memory from functions that a report should name.
 *
 *   rt_stacks leak        leak_here() keeps 40 blocks of 1 MiB, churn() none
 *   rt_stacks threads     the same from 8 threads at once
 *   rt_stacks fork        a child keeps some, the parent goes on
 *   rt_stacks signal      a handler allocates every millisecond, amid it
 *   rt_stacks oom         asks for more than there is
 *   rt_stacks capture     frees all it has while a stream captures
 *   rt_stacks reset       the device is reset in between
 *   rt_stacks grow        leaks slowly for a second, beside a steady load and
 *                         one that rises and falls
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#define MIB      ((size_t)1 << 20)
#define CHECK(x) check((x), #x)

static void check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: error %d\n", what, (int)error);
	exit(1);
}

__attribute__((noinline)) static void *leak_here(size_t bytes)
{
	void *p = NULL;

	CHECK(cudaMalloc(&p, bytes));
	__asm__ volatile("" ::: "memory"); /* no tail call */
	return p;
}

__attribute__((noinline)) static void churn(size_t bytes)
{
	void *p = NULL;

	errno = 77;
	CHECK(cudaMalloc(&p, bytes));
	CHECK(cudaFree(p));
	if (errno != 77) {
		fprintf(stderr, "errno became %d\n", errno);
		exit(1);
	}
}

static void *leak(void *arg)
{
	for (int i = 0; i < 40; i++) {
		leak_here(MIB);
		churn(3 * MIB);
		churn(1000);
	}
	return arg;
}

static void threads(void)
{
	pthread_t all[8];

	for (int i = 0; i < 8; i++)
		if (pthread_create(&all[i], NULL, leak, NULL))
			exit(1);
	for (int i = 0; i < 8; i++)
		pthread_join(all[i], NULL);
}

static void forks(void)
{
	int status = 1;
	pid_t child;
	void *p;

	leak(NULL);
	child = fork();
	if (child == 0) {
		p = NULL;
		cudaMalloc(&p, MIB); /* the driver refuses a child */
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		exit(1);
	leak(NULL);
}

static volatile sig_atomic_t handled;

/* Stacks are taken inside a sample now and then when this arrives. It does
 * what a handler may: the driver's functions are not among that. */
static void on_alarm(int signal)
{
	char buffer[256];

	(void)signal;
	memset(buffer, handled, sizeof(buffer));
	__asm__ volatile("" ::"r"(buffer) : "memory");
	handled++;
}

static void signals(void)
{
	struct itimerval each = {{0, 500}, {0, 500}};
	struct sigaction action = {.sa_handler = on_alarm};
	time_t end = time(NULL) + 2;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
	while (time(NULL) < end)
		churn(2 * MIB);
	memset(&each, 0, sizeof(each));
	setitimer(ITIMER_REAL, &each, NULL);
	leak_here(MIB);
	if (!handled)
		exit(1);
}

/* A tooth of a saw in every TEETH calls: one MiB more each, then all goes. */
#define TEETH 60
static __attribute__((noinline)) void saw(int i)
{
	static void *held[TEETH];

	CHECK(cudaMalloc(&held[i % TEETH], MIB));
	for (int k = 0; i % TEETH == TEETH - 1 && k < TEETH; k++)
		CHECK(cudaFree(held[k]));
}

static void grow(void)
{
	const struct timespec nap = {.tv_nsec = 4000000};

	for (int i = 0; i < 250; i++) {
		void *p = leak_here(MIB), *q;

		churn(5 * MIB);
		saw(i);
		if (i % 4)
			CHECK(cudaFree(p));
		CHECK(cudaMalloc(&q, 2 * MIB));
		nanosleep(&nap, NULL);
		CHECK(cudaFree(q));
	}
}

static void capture(void)
{
	cudaStream_t stream;
	cudaGraph_t graph;
	void *p[10];

	CHECK(cudaStreamCreate(&stream));
	for (int i = 0; i < 10; i++)
		p[i] = leak_here(MIB);
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	for (int i = 0; i < 10; i++)
		CHECK(cudaFree(p[i]));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "leak";
	void *p;

	if (!strcmp(what, "leak"))
		leak(NULL);
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "fork"))
		forks();
	else if (!strcmp(what, "signal"))
		signals();
	else if (!strcmp(what, "capture"))
		capture();
	else if (!strcmp(what, "reset")) {
		leak(NULL);
		CHECK(cudaDeviceReset());
		leak_here(MIB);
	} else if (!strcmp(what, "grow"))
		grow();
	else if (!strcmp(what, "oom"))
		return cudaMalloc(&p, (size_t)1 << 50) !=
		       cudaErrorMemoryAllocation;
	else
		return 2;
	puts("done");
	return 0;
}
