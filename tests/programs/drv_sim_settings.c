/*
 * Description: GPUPOOL_SIM: what is taken, what is refused and how, failures
 * set from outside, the figures at exit and the call log.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/simtest.h"

/* What the child's stderr, or a file, said. */
static char text[16384];

static void read_all(int fd)
{
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = 0;
	close(fd);
}

/* Run this program as `role` with these settings; its exit status. */
static int child(const char *settings, const char *role)
{
	int out[2], status = -1;
	pid_t pid;

	NEED(pipe(out));
	pid = fork();
	if (!pid) {
		setenv("GPUPOOL_SIM", settings, 1);
		dup2(out[1], 2);
		close(out[0]);
		close(out[1]);
		execl("/proc/self/exe", "sim_settings", role, (char *)NULL);
		_exit(99);
	}
	close(out[1]);
	read_all(out[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void refused(const char *settings, const char *word)
{
	const char *line;

	IS(child(settings, "init"), CUDA_ERROR_INVALID_VALUE);
	line = strchr(text, '\n');
	if (line && !line[1] && strstr(text, word) &&
	    !strncmp(text, "gpusim: GPUPOOL_SIM: ", 21))
		return;
	printf("%s: said \"%s\"\n", settings, text);
	sim_test_failures++;
}

static void taken(const char *settings)
{
	IS(child(settings, "init"), 0);
	if (!*text)
		return;
	printf("%s: said \"%s\"\n", settings, text);
	sim_test_failures++;
}

/* The child that makes two allocations, frees one, and ends. */
static int work(void)
{
	CUdeviceptr p, q;
	CUcontext ctx;
	CUresult err;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
	NEED(cuCtxSetCurrent(ctx));
	err = cuMemAlloc(&p, 3 * MIB);
	if (!err)
		err = cuMemAlloc(&q, 3 * MIB);
	if (!err)
		err = cuMemFree(q);
	return (int)err & 0xff;
}

static void figures(void)
{
	char path[] = "/tmp/gpusim-XXXXXX", settings[200];
	int fd = mkstemp(path);

	snprintf(settings, sizeof(settings),
		 "memory:1GiB,context:2MiB,leak_report:1,stats:%s", path);
	IS(child(settings, "work"), 0);
	HOLDS(strstr(text, "device 0: 4194304 bytes still allocated"));
	read_all(fd);
	HOLDS(strstr(text, "devices 1\n"));
	HOLDS(strstr(text, "device0.total_bytes 1073741824\n"));
	HOLDS(strstr(text, "device0.used_bytes 4194304\n"));
	HOLDS(strstr(text, "device0.peak_bytes 8388608\n"));
	HOLDS(strstr(text, "device0.context_bytes 2097152\n"));
	HOLDS(strstr(text, "calls.cuMemAlloc_v2 2\n"));
	HOLDS(strstr(text, "calls.cuMemFree_v2 1\n"));
	HOLDS(!strstr(text, "cuMemCreate"));
	unlink(path);
}

static void call_log(void)
{
	char path[] = "/tmp/gpusim-XXXXXX", settings[200];
	int fd = mkstemp(path);

	snprintf(settings, sizeof(settings), "call_log:%s", path);
	IS(child(settings, "work"), 0);
	read_all(fd);
	HOLDS(strstr(text, " cuInit\n"));
	HOLDS(strstr(text, " cuMemAlloc_v2\n"));
	unlink(path);
	IS(child("call_log:/nonexistent/file", "init"),
	   CUDA_ERROR_INVALID_VALUE);
	HOLDS(strstr(text, "gpusim: call_log: "));
}

static CUcontext late_context;
static CUstream late_stream;

static void *copy_late(void *arg)
{
	static char host[64];
	CUdeviceptr p = *(CUdeviceptr *)arg;

	NEED(cuCtxSetCurrent(late_context));
	fprintf(stderr, "copy %d\n",
		(int)cuMemcpyDtoHAsync(host, p, sizeof(host), late_stream));
	/* The figures go there: until now the process could not end. */
	open(strstr(getenv("GPUPOOL_SIM"), "stats:") + 6, O_RDONLY);
	return NULL;
}

/* The child that ends while another of its threads waits for a copy. */
static int late(void)
{
	uint32_t us = 20000000;
	void *args[] = {&us};
	pthread_t thread;
	CUdeviceptr p;

	late_context = sim_test_begin(getenv("GPUPOOL_SIM"));
	NEED(cuMemAlloc(&p, 64));
	NEED(cuStreamCreate(&late_stream, CU_STREAM_NON_BLOCKING));
	NEED(cuLaunchKernel(sim_test_kernel("spin"), 1, 1, 1, 1, 1, 1, 0,
			    late_stream, args, NULL));
	NEED(pthread_create(&thread, NULL, copy_late, &p));
	while (gpusim_pending() < 2)
		usleep(1000);
	exit(0);
}

static void the_end_overtakes_a_copy(void)
{
	char dir[] = "/tmp/gpusim-XXXXXX", path[100], settings[200];

	HOLDS(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/figures", dir);
	NEED(mkfifo(path, 0600));
	snprintf(settings, sizeof(settings), "memory:1GiB,stats:%s", path);
	IS(child(settings, "late"), 0);
	IS(strcmp(text, "copy 4\n"), 0);
	unlink(path);
	rmdir(dir);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "init"))
		return (int)cuInit(0) & 0xff;
	if (argc > 1 && !strcmp(argv[1], "late"))
		return late();
	if (argc > 1)
		return work();
	taken("");
	taken("memory:16GiB,devices:8,kernel_us:5,copy_us:0,vmm:0");
	taken("memory:4194304B,context:0");
	taken("version:12080,fail:cuMemAlloc_v2@3,fail:cuMemMap@1+=999");
	refused("memory:16Gi", "not a size");
	refused("memory:", "not a size");
	refused("memory:-1", "not a size");
	refused("memory:99999999999999999999", "not a size");
	refused("memory:1KiB", "out of range");
	refused("memory:64MiB,context:64MiB", "leaves no memory");
	refused("devices:0", "out of range");
	refused("devices:9", "out of range");
	refused("devices:2x", "not a number");
	refused("vmm:2", "out of range");
	refused("memory", "not key:value");
	refused("memory:1GiB,,devices:1", "not key:value");
	refused("Memory:1GiB", "no such key");
	refused("stats:", "not a path");
	refused("fail:cuMemAlloc@1", "no such function");
	refused("fail:cuMemAlloc_v2", "not FUNCTION@N");
	refused("fail:cuMemAlloc_v2@0", "number of the call");
	refused("fail:cuMemAlloc_v2@1=0", "not a CUresult");
	refused("fail:cuMemAlloc_v2@1x", "something is behind it");
	IS(child("fail:cuMemAlloc_v2@1", "work"), CUDA_ERROR_OUT_OF_MEMORY);
	IS(child("fail:cuMemAlloc_v2@2=700", "work"), 700 & 0xff);
	IS(child("fail:cuMemAlloc_v2@3", "work"), 0);
	IS(child("fail:cuMemAlloc_v2@1+=1", "work"), 1);
	IS(child("fail:cuMemFree_v2@1", "work"), 999 & 0xff);
	IS(child("memory:4MiB,context:0", "work"), CUDA_ERROR_OUT_OF_MEMORY);
	figures();
	call_log();
	the_end_overtakes_a_copy();
	return sim_test_end();
}
