/* Forks, threads that die, and what frees memory when the program ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

#define BLOCKS 16

/* ---- fork ------------------------------------------------------------------------ */

static void in_child(void *held)
{
	CUdeviceptr d;
	void *p = NULL;
	int count = -1;

	tell_prefix("child");
	tell_rt("alloc", cudaMalloc(&p, 4 * KIB));
	tell_rt("free", cudaFree(held));
	tell_rt("free NULL", cudaFree(NULL));
	tell_rt("set", cudaMemset(held, 1, 16));
	tell_rt("count", cudaGetDeviceCount(&count));
	tell("driver: alloc", (int)cuMemAlloc(&d, 4 * KIB));
	tell("driver: free", (int)cuMemFree((CUdeviceptr)held));
}

static void wait_for(pid_t child)
{
	int status = 0;

	if (child < 0 || waitpid(child, &status, 0) != child)
		exit(1);
	tell_value("child's status", status);
}

static void forked(bool quick)
{
	char *held = device_block(MIB), byte = 0;
	pid_t child;

	warm(4 * KIB);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		in_child(held);
		fflush(stdout);
		if (quick)
			_exit(5);
		exit(6);
	}
	wait_for(child);
	tell_prefix("parent");
	tell_rt("look", cudaMemcpy(&byte, held, 1, cudaMemcpyDeviceToHost));
	tell_value("byte", byte);
	tell_rt("free", cudaFree(held));
	held = device_block(MIB);
	tell_rt("free", cudaFree(held));
	tell_rt("wait", cudaDeviceSynchronize());
	tell_prefix(NULL);
}

static void fork_quick(void)
{
	forked(true);
}

static void fork_exit(void)
{
	forked(false);
}

static void fork_exec(void)
{
	char *held = device_block(MIB);
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(1);
	}
	wait_for(child);
	tell_rt("free", cudaFree(held));
}

/* Before the driver is started: the child may. */
static void fork_first(void)
{
	pid_t child;
	char *p;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		p = device_block(MIB);
		tell_rt("child: free", cudaFree(p));
		exit(8);
	}
	wait_for(child);
	p = device_block(MIB);
	tell_rt("parent: free", cudaFree(p));
}

/* ---- threads --------------------------------------------------------------------- */

static void *blocks[BLOCKS];

static void *allocates(void *arg)
{
	for (size_t i = 0; i < BLOCKS; i++)
		tell_rt("alloc", cudaMalloc(&blocks[i], (i + 1) * 16 * KIB));
	return arg;
}

static void *frees(void *arg)
{
	for (size_t i = 0; i < BLOCKS; i++)
		tell_rt("free", cudaFree(blocks[i]));
	return arg;
}

static void in_thread(void *(*body)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, NULL))
		exit(1);
	pthread_join(thread, NULL);
}

static pthread_key_t key;

static void at_thread_end(void *p)
{
	tell_rt("free in a key's destructor", cudaFree(p));
}

static void *leaves_to_key(void *arg)
{
	char *p = device_block(64 * KIB);

	warm(64 * KIB);
	pthread_setspecific(key, p);
	return arg;
}

static void threads(void)
{
	in_thread(allocates);
	in_thread(frees);
	in_thread(allocates);
	frees(NULL);
	allocates(NULL);
	in_thread(frees);
	if (pthread_key_create(&key, at_thread_end))
		exit(1);
	in_thread(leaves_to_key);
	in_thread(leaves_to_key);
	tell_rt("wait", cudaDeviceSynchronize());
}

/* ---- the end ---------------------------------------------------------------------- */

static char *left, *left_large;

static void at_exit(void)
{
	CUdeviceptr d = 0;
	void *p = NULL;

	tell_rt("at exit: free", cudaFree(left));
	tell_rt("at exit: free again", cudaFree(left));
	tell_rt("at exit: alloc", cudaMalloc(&p, 64 * KIB));
	tell_rt("at exit: free", cudaFree(p));
	tell("at exit: driver: alloc", (int)cuMemAlloc(&d, 64 * KIB));
	tell("at exit: driver: free", (int)cuMemFree(d));
	tell("at exit: driver: free", (int)cuMemFree((CUdeviceptr)left_large));
	tell_rt("at exit: wait", cudaDeviceSynchronize());
}

static void take(void)
{
	left = device_block(64 * KIB);
	left_large = device_block(40 * MIB);
	warm(64 * KIB);
}

/* The handler comes after everybody's who began later. */
static void exit_before(void)
{
	atexit(at_exit);
	take();
}

static void exit_after(void)
{
	take();
	atexit(at_exit);
}

static void *ends_it(void *arg)
{
	(void)arg;
	exit(9);
}

static void exit_thread(void)
{
	take();
	atexit(at_exit);
	in_thread(ends_it);
}

static void exit_quick(void)
{
	take();
	fflush(stdout);
	_exit(10);
}

static void exit_abort(void)
{
	take();
	fflush(stdout);
	abort();
}

const struct section process_sections[] = {{"fork", fork_quick},
					   {"fork-exit", fork_exit},
					   {"fork-exec", fork_exec},
					   {"fork-first", fork_first},
					   {"threads", threads},
					   {"exit-before", exit_before},
					   {"exit-after", exit_after},
					   {"exit-thread", exit_thread},
					   {"exit-quick", exit_quick},
					   {"exit-abort", exit_abort},
					   {NULL, NULL}};
