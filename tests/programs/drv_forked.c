/*
 * Description: children of fork() call the driver while threads of the parent
 * are in its calls: they are told that they cannot, and wait for nothing.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/simtest.h"

#define FORKS 100

static CUevent event;
static int over; /* atomic */

static void *destroys(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		cuCtxDestroy(NULL);
	return NULL;
}

static void *adds(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		cuGraphAddEventRecordNode(NULL, NULL, NULL, 0, event);
	return NULL;
}

static void child(CUcontext context)
{
	CUgraphNode node;

	alarm(60);
	_exit(cuCtxDestroy(context) == CUDA_SUCCESS ||
	      cuGraphAddEventRecordNode(&node, NULL, NULL, 0, event) ==
		      CUDA_SUCCESS);
}

int main(void)
{
	CUcontext context = sim_test_begin("memory:64MiB");
	void *(*bodies[])(void *) = {destroys, adds};
	pthread_t threads[2];
	CUdeviceptr p;
	int status = 0;
	pid_t pid;

	NEED(cuMemAlloc(&p, 4096));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < 2; i++)
		IS(pthread_create(&threads[i], NULL, bodies[i], NULL), 0);
	for (int i = 0; i < FORKS && !status; i++) {
		pid = fork();
		if (!pid)
			child(context);
		IS(waitpid(pid, &status, 0), pid);
		IS(status, 0);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return sim_test_end();
}
