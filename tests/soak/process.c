/* Contexts and processes that come and go, and what else disturbs. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/gpupool.h"
#include "tests/sim/gpusim.h"
#include "tests/soak/soak.h"

extern char **environ;

/* ---- contexts ---------------------------------------------------------------- */

/* A context of the thread's own, in which it leaves some memory. */
void op_context(struct thread *t)
{
	struct lane own = {.device = t->lane->device}, *before = t->lane;
	CUstream streams[STREAMS];
	struct block *b[3] = {NULL};

	if (!GOT(t, create_context(&own.context, own.device)))
		return;
	if (!enter_lane(t, &own)) {
		GOOD(t, cuCtxDestroy(own.context));
		GOOD(t, cuCtxSetCurrent(before->context));
		return;
	}
	memcpy(streams, t->streams, sizeof(streams));
	t->lane = &own;
	streams_begin(t);
	for (int i = 0; i < 3; i++) {
		b[i] = new_block(t, i ? PLAIN : ASYNC);
		if (b[i])
			verify(t, b[i]);
	}
	for (int i = 0; i < 2; i++)
		if (b[i])
			free_block(t, b[i]);
	free(b[2]);
	GOOD(t, cuCtxDestroy(own.context));
	memcpy(t->streams, streams, sizeof(streams));
	t->lane = before;
	GOOD(t, cuCtxSetCurrent(before->context));
}

/* ---- processes ----------------------------------------------------------------- */

static const char *const nothing[] = {"/bin/true", NULL};

/* What a child of a fork may do with CUDA: nothing. */
static void try_cuda(struct thread *t)
{
	CUdeviceptr p = 0;

	if (cuMemAlloc(&p, 4096) == CUDA_SUCCESS)
		_exit(1);
	for (int i = 0; i < OWN; i++)
		if (t->own[i] && t->own[i]->kind == PLAIN &&
		    cuMemFree(t->own[i]->at) == CUDA_SUCCESS)
			_exit(2);
	_exit(0);
}

/* A worker of one round, in the same runtime directory; it goes with the
 * thread that started it. */
static void be_worker(struct thread *t)
{
	char worker[16], seed[32];
	char *argv[] = {soak.argv[0], soak.argv[1], worker, seed,
			"0",          "1",          "2",    NULL};

	snprintf(worker, sizeof(worker), "%u", soak.worker + BOARD_WORKERS / 2);
	snprintf(seed, sizeof(seed), "%llu",
		 (unsigned long long)(next_random(&t->rng) >> 1));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv("/proc/self/exe", argv);
	_exit(3);
}

/* While it runs it is watched by itself. */
static int wait_for(struct thread *t, pid_t pid, bool worker)
{
	const struct timespec rest = {.tv_nsec = 2000000};
	int status = -1;

	for (;;) {
		pid_t rc = waitpid(pid, &status, worker ? WNOHANG : 0);

		if (rc == pid)
			return status;
		if (rc < 0 && errno != EINTR)
			wrong(t, "waitpid: %s", strerror(errno));
		if (!rc) {
			beat(t, OP_fork);
			nanosleep(&rest, NULL);
		}
	}
}

/* One at a time, as each has a place on the board. */
static void run_worker(struct thread *t)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	int status;
	pid_t pid;

	if (soak.worker >= BOARD_WORKERS / 2 || pthread_mutex_trylock(&one))
		return;
	pid = fork();
	if (!pid)
		be_worker(t);
	status = pid < 0 ? 0 : wait_for(t, pid, true);
	soak.board[BOARD_WORKERS / 2].pid = 0;
	pthread_mutex_unlock(&one);
	if (status)
		wrong(t, "a worker that was forked ended with status %#x",
		      (unsigned)status);
}

void op_fork(struct thread *t)
{
	unsigned how = (unsigned)below(t, 6);
	pid_t pid = -1;
	int status;

	if (how == 5) {
		run_worker(t);
		return;
	}
	if (how == 4) {
		if (posix_spawn(&pid, nothing[0], NULL, NULL,
				(char *const *)nothing, environ))
			return;
	} else {
		pid = how == 3 ? vfork() : fork();
	}
	if (!pid) {
		if (how == 0)
			try_cuda(t);
		if (how == 1)
			execv(nothing[0], (char *const *)nothing);
		_exit(0);
	}
	if (pid < 0)
		return;
	status = wait_for(t, pid, false);
	if (status)
		wrong(t, "a child (%u) ended with status %#x", how,
		      (unsigned)status);
}

void op_signal(struct thread *t)
{
	(void)t;
	if (gpupool_loaded())
		kill(getpid(), SIGUSR1);
}

/* ---- the library ---------------------------------------------------------------- */

void op_library(struct thread *t)
{
	struct gpupool_figures f = {.size = sizeof(f)};
	static __thread char text[65536];
	char name[32];

	if (!gpupool_loaded())
		return;
	switch (below(t, 6)) {
	case 0:
		gpupool_trim(GPUPOOL_ALL_DEVICES, NULL);
		break;
	case 1:
		if (gpupool_figures(t->lane->device, &f))
			wrong(t, "no figures");
		if (f.allocated_bytes.current > f.reserved_bytes.current)
			wrong(t, "%llu bytes allocated of %llu",
			      (unsigned long long)f.allocated_bytes.current,
			      (unsigned long long)f.reserved_bytes.current);
		break;
	case 2:
		if (gpupool_stats(GPUPOOL_ALL_DEVICES, text, sizeof(text)) <= 0)
			wrong(t, "no stats");
		break;
	case 3:
		if (gpupool_summary(t->lane->device, text, sizeof(text)) <= 0)
			wrong(t, "no summary");
		break;
	case 4:
		snprintf(name, sizeof(name), "section %u",
			 (unsigned)below(t, 40));
		gpupool_mark(name);
		break;
	default:
		gpupool_reset_peak(GPUPOOL_ALL_DEVICES);
	}
}

/* As PyTorch calls it: the free waits for nothing, and work on the memory may
 * go on. */
void op_door(struct thread *t)
{
	CUstream s = any_stream(t);
	size_t bytes = draw_size(t);
	uint32_t word = (uint32_t)next_random(&t->rng);
	int device = t->lane->device;
	void *p;

	if (!gpupool_loaded())
		return;
	p = gpupool_torch_alloc((ssize_t)bytes, device, s);
	if (!p)
		return;
	GOOD(t, cuMemsetD32Async((CUdeviceptr)p, word, bytes / 4, s));
	if (below(t, 2))
		verify_bytes(t, (CUdeviceptr)p, bytes, word, s);
	if (below(t, 2))
		GOOD(t, cuMemsetD32Async((CUdeviceptr)p, ~word, bytes / 4, s));
	gpupool_torch_free(p, (ssize_t)bytes, device, s);
}

/* The driver has no memory, once. */
void op_fault(struct thread *t)
{
	static const char *const calls[] = {"cuMemCreate", "cuMemMap",
					    "cuMemSetAccess",
					    "cuMemAddressReserve"};

	gpusim_fail(calls[below(t, sizeof(calls) / sizeof(calls[0]))],
		    1 + (long)below(t, 3), CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- the end ---------------------------------------------------------------------- */

static void *ends_it(void *arg)
{
	exit((int)(intptr_t)arg);
}

void end_somehow(struct thread *t)
{
	static char incarnation[32];
	pthread_t thread;

	__atomic_store_n(&soak.ends, true, __ATOMIC_RELEASE);
	switch (below(t, 7)) {
	case 0:
		_exit(0);
	case 1:
		soak.board->ending = ENDS_ABORT;
		abort();
	case 2:
		soak.board->ending = ENDS_KILL;
		kill(getpid(), SIGKILL);
		break;
	case 3:
		if (pthread_create(&thread, NULL, ends_it, NULL))
			_exit(0);
		pthread_join(thread, NULL);
		break;
	case 4:
	case 5: /* another program in the same process */
		snprintf(incarnation, sizeof(incarnation), "%llu",
			 (unsigned long long)soak.incarnation + 1000);
		soak.argv[4] = incarnation;
		reports(SIG_BLOCK);
		execv("/proc/self/exe", soak.argv);
		_exit(3);
	default:
		break;
	}
	exit(0);
}
