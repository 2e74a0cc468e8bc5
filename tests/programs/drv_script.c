/*
 * Description: does what its arguments say, one word a step, and prints what
 * came of it. The tests of reports, signals and forks are written with it.
 *
 *   alloc=BYTES  oom=BYTES  free=INDEX    cuMemAlloc, cuMemFree
 *   use=INDEX                             cuMemsetD8Async, not waited for
 *   exit=N _exit=N abort=1                end so
 *   raise=SIG sleep=MS                    SIG to this process; wait
 *   await=GLOB                            until there is such a file
 *   ticks=N                               until gpupool's thread came by so often
 *   handler=plain|info|mask|ignore        install an own SIGUSR1 handler
 *   handled=1                             how often it ran, and as it should
 *   fork=exit|_exit|free|exec             a child that ends so; its status
 *   vfork=1                               a vfork child that ends by _exit
 *   close=FD  chdir=PATH                  close(FD); change directory
 *   threads=1                             how many there are
 *   pid=1                                 print the process id
 *   context=retain|v1|v2|v3|v4            make a context of device 0 that way
 *   stdin=1                               steps come from there, a line each
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#include "stats/process_file.h"

#define MAX_BLOCKS 1024
#define LIMIT_MS   240000 /* for what is waited for */

static CUdeviceptr blocks[MAX_BLOCKS];
static int num_blocks;

static volatile sig_atomic_t handled, handled_wrongly;

static void handle_plain(int number)
{
	handled_wrongly += number != SIGUSR1;
	handled++;
}

static void handle_info(int number, siginfo_t *info, void *context)
{
	handled_wrongly += number != SIGUSR1 || !info || !context ||
			   info->si_signo != number || info->si_pid != getpid();
	handled++;
}

/* A handler that asked for SIGUSR2 to be blocked meanwhile. */
static void handle_masked(int number)
{
	sigset_t now;

	sigprocmask(SIG_BLOCK, NULL, &now);
	handled_wrongly += number != SIGUSR1 || !sigismember(&now, SIGUSR2);
	handled++;
}

static void install(const char *kind)
{
	struct sigaction action = {.sa_flags = SA_RESTART};

	sigemptyset(&action.sa_mask);
	if (!strcmp(kind, "ignore")) {
		action.sa_handler = SIG_IGN;
	} else if (!strcmp(kind, "info")) {
		action.sa_sigaction = handle_info;
		action.sa_flags |= SA_SIGINFO;
	} else if (!strcmp(kind, "mask")) {
		action.sa_handler = handle_masked;
		sigaddset(&action.sa_mask, SIGUSR2);
	} else {
		action.sa_handler = handle_plain;
	}
	printf("handler: %d\n", sigaction(SIGUSR1, &action, NULL));
}

static void sleep_ms(long ms)
{
	struct timespec rest = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
}

static int is_there(const char *pattern)
{
	glob_t found;
	int rc = glob(pattern, GLOB_PERIOD, NULL, &found);

	globfree(&found);
	return rc == 0;
}

static void await_file(const char *pattern)
{
	for (int ms = 0; !is_there(pattern); ms++) {
		if (ms == LIMIT_MS) {
			printf("there is no %s\n", pattern);
			exit(1);
		}
		sleep_ms(1);
	}
}

/* When gpupool's thread last came by: as others see it, in our file. */
static uint64_t beat(void)
{
	const size_t at = offsetof(struct gp_file_head, beat_mono_ns);
	uint64_t ns = 0;
	char path[512];
	glob_t found;
	int fd;

	snprintf(path, sizeof(path), "%s/gpupool/%d-*.gpupool",
		 getenv("XDG_RUNTIME_DIR"), (int)getpid());
	if (glob(path, 0, NULL, &found) == 0) {
		fd = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
		if (pread(fd, &ns, sizeof(ns), (off_t)at) != sizeof(ns))
			ns = 0;
		close(fd);
	}
	globfree(&found);
	return ns;
}

static void await_ticks(long n)
{
	uint64_t before = beat();

	for (int ms = 0; n > 0; ms++) {
		uint64_t now = beat();

		n -= now != before;
		before = now;
		if (ms == LIMIT_MS) {
			printf("gpupool's thread does not run\n");
			exit(1);
		}
		sleep_ms(1);
	}
}

static int count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int count = -2; /* . and .. */

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static void start_cuda(void)
{
	CUcontext context;

	if (cuInit(0) != CUDA_SUCCESS ||
	    cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
	    cuCtxSetCurrent(context) != CUDA_SUCCESS) {
		printf("no CUDA\n");
		exit(1);
	}
}

static void alloc(const char *name, size_t bytes)
{
	CUdeviceptr p = 0;
	CUresult rc = cuMemAlloc(&p, bytes);

	printf("%s %zu: %d\n", name, bytes, (int)rc);
	if (rc == CUDA_SUCCESS && num_blocks < MAX_BLOCKS)
		blocks[num_blocks++] = p;
}

static void child(const char *how)
{
	CUdeviceptr p;

	if (!strcmp(how, "exit"))
		exit(5);
	if (!strcmp(how, "_exit"))
		_exit(6);
	if (!strcmp(how, "exec"))
		execl("/bin/true", "true", (char *)NULL);
	/* A forked child cannot use CUDA; it must be told so, not crash. */
	cuMemAlloc(&p, 4096);
	if (num_blocks)
		cuMemFree(blocks[0]);
	exit(7);
}

static void do_fork(const char *how)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = strcmp(how, "vfork") ? fork() : vfork();
	if (pid == 0) {
		if (!strcmp(how, "vfork"))
			_exit(8);
		child(how);
	}
	waitpid(pid, &status, 0);
	printf("child %s: %s %d\n", how, WIFEXITED(status) ? "exit" : "signal",
	       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static int signal_number(const char *name)
{
	return !strcmp(name, "USR1")   ? SIGUSR1
	       : !strcmp(name, "USR2") ? SIGUSR2
	       : !strcmp(name, "TERM") ? SIGTERM
				       : atoi(name);
}

/* As the driver's entry points are called, whatever cuda.h calls them. */
static CUresult make_context(const char *way)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	char name[32] = "cuDevicePrimaryCtxRetain";
	CUcontext context = NULL;
	void *function;

	if (strcmp(way, "retain") != 0)
		snprintf(name, sizeof(name), "cuCtxCreate%s%s",
			 strcmp(way, "v1") ? "_" : "",
			 strcmp(way, "v1") ? way : "");
	function = driver ? dlsym(driver, name) : NULL;
	cuInit(0);
	if (!function)
		return CUDA_ERROR_NOT_FOUND;
	if (!strcmp(way, "retain"))
		return ((CUresult(*)(CUcontext *, CUdevice))function)(&context,
								      0);
	if (!strcmp(way, "v3"))
		return ((CUresult(*)(CUcontext *, void *, int, unsigned,
				     CUdevice))function)(&context, NULL, 0, 0,
							 0);
	if (!strcmp(way, "v4"))
		return ((CUresult(*)(CUcontext *, void *, unsigned,
				     CUdevice))function)(&context, NULL, 0, 0);
	return ((CUresult(*)(CUcontext *, unsigned, CUdevice))function)(
		&context, 0, 0);
}

/* False: no such step. */
static int process_step(const char *step, const char *value)
{
	long number = strtol(value, NULL, 10);

	if (!strcmp(step, "exit"))
		exit((int)number);
	if (!strcmp(step, "_exit")) {
		fflush(stdout);
		_exit((int)number);
	}
	if (!strcmp(step, "abort"))
		abort();
	if (!strcmp(step, "raise"))
		printf("raise: %d\n", kill(getpid(), signal_number(value)));
	else if (!strcmp(step, "sleep"))
		sleep_ms(number);
	else if (!strcmp(step, "await"))
		await_file(value);
	else if (!strcmp(step, "ticks"))
		await_ticks(number);
	else if (!strcmp(step, "handler"))
		install(value);
	else if (!strcmp(step, "handled"))
		printf("handled: %d, wrongly %d\n", (int)handled,
		       (int)handled_wrongly);
	else if (!strcmp(step, "fork"))
		do_fork(value);
	else if (!strcmp(step, "vfork"))
		do_fork("vfork");
	else if (!strcmp(step, "close"))
		printf("close: %d\n", close((int)number));
	else if (!strcmp(step, "chdir"))
		printf("chdir: %d\n", chdir(value));
	else if (!strcmp(step, "threads"))
		printf("threads: %d\n", count_threads());
	else if (!strcmp(step, "context"))
		printf("context: %d\n", (int)make_context(value));
	else if (!strcmp(step, "pid"))
		printf("pid: %d\n", (int)getpid());
	else
		return 0;
	return 1;
}

static CUresult use(CUdeviceptr va)
{
	static CUstream stream;
	CUresult rc = CUDA_SUCCESS;

	if (!stream)
		rc = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	return rc ? rc : cuMemsetD8Async(va, 0, 1, stream);
}

static void do_step(const char *word)
{
	const char *equals = strchr(word, '=');
	const char *value = equals ? equals + 1 : "";
	char step[32];

	snprintf(step, sizeof(step), "%.*s",
		 (int)(equals ? equals - word : (long)strlen(word)), word);
	if (process_step(step, value)) {
		fflush(stdout);
		return;
	}
	/* The others need a context; made at the first of them, so that a step
	 * before it happens before the program touches the GPU. */
	start_cuda();
	if (!strcmp(step, "alloc") || !strcmp(step, "oom")) {
		alloc(step, strtoull(value, NULL, 10));
	} else if (!strcmp(step, "memory")) {
		size_t left = 0, total = 0;
		CUresult rc = cuMemGetInfo(&left, &total);

		printf("memory: %d, %zu of %zu MiB\n", (int)rc, left >> 20,
		       total >> 20);
	} else if (!strcmp(step, "free") && atoi(value) < num_blocks) {
		printf("free: %d\n", (int)cuMemFree(blocks[atoi(value)]));
	} else if (!strcmp(step, "use") && atoi(value) < num_blocks) {
		printf("use: %d\n", (int)use(blocks[atoi(value)]));
	} else {
		printf("what is '%s'?\n", word);
		exit(2);
	}
	fflush(stdout);
}

static void from_stdin(void)
{
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		do_step(line);
	}
}

int main(int argc, char **argv)
{
	static const char *const usual[] = {
		"alloc=4096",      "alloc=1048576", "fork=_exit",
		"fork=free",       "free=0",        "vfork=1",
		"alloc=100000000", "free=2",        "oom=1000000000000"};

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "stdin=1"))
			from_stdin();
		else
			do_step(argv[i]);
	}
	for (size_t i = 0; argc == 1 && i < sizeof(usual) / sizeof(*usual); i++)
		do_step(usual[i]);
	return 0;
}
