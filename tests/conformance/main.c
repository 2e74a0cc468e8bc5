/*
 * The conformance program: some hundreds of calls, their results line by line.
 * The output is to be the same with and without the preload.
 *
 *   conformance                 every section, each in a process of its own
 *   conformance SECTION ...     these
 *   conformance --without SECTION,...   all but these
 *   conformance --list
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

#define LIMIT_S 240 /* for a section */

static const struct section *const all[] = {
	sizes_sections,   errors_sections, context_sections, stream_sections,
	capture_sections, async_sections,  other_sections,   copy_sections,
	virtual_sections, process_sections};
#define NUM_ALL (sizeof(all) / sizeof(all[0]))

static const char *section_name = "";
static char prefix[64];

/* ---- telling ----------------------------------------------------------------- */

void tell_prefix(const char *format, ...)
{
	va_list args;

	prefix[0] = '\0';
	if (!format)
		return;
	va_start(args, format);
	vsnprintf(prefix, sizeof(prefix), format, args);
	va_end(args);
}

static void begin_line(const char *what)
{
	printf("%s: %s%s%s: ", section_name, prefix, *prefix ? ": " : "", what);
}

void tell(const char *what, int rc)
{
	begin_line(what);
	printf("%d\n", rc);
}

void tell_rt(const char *what, cudaError_t rc)
{
	cudaError_t peek = cudaPeekAtLastError();
	cudaError_t last = cudaGetLastError();

	begin_line(what);
	printf("%d, last error %d %d\n", (int)rc, (int)peek, (int)last);
}

void tell_value(const char *what, long long value)
{
	begin_line(what);
	printf("= %lld\n", value);
}

void need(CUresult rc)
{
	if (rc == CUDA_SUCCESS)
		return;
	tell("the section ends here", (int)rc);
	exit(3);
}

void need_rt(cudaError_t rc)
{
	if (rc == cudaSuccess)
		return;
	tell_rt("the section ends here", rc);
	exit(3);
}

/* ---- what sections begin with --------------------------------------------------- */

CUcontext new_context(void)
{
	CUcontext context = NULL;
	CUdevice device;

	need(cuDeviceGet(&device, 0));
#if CUDA_VERSION >= 13000
	need(cuCtxCreate(&context, NULL, 0, device));
#else
	need(cuCtxCreate(&context, 0, device));
#endif
	return context;
}

CUcontext primary_context(void)
{
	CUcontext context = NULL;
	CUdevice device;

	need(cuInit(0));
	need(cuDeviceGet(&device, 0));
	need(cuDevicePrimaryCtxRetain(&context, device));
	need(cuCtxSetCurrent(context));
	return context;
}

char *device_block(size_t bytes)
{
	void *p = NULL;

	need_rt(cudaMalloc(&p, bytes));
	need_rt(cudaMemset(p, 0x5a, bytes));
	need_rt(cudaDeviceSynchronize());
	return p;
}

void warm(size_t bytes)
{
	need_rt(cudaFree(device_block(bytes)));
}

/* ---- running the sections ----------------------------------------------------------- */

static void run(const struct section *section)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		alarm(LIMIT_S);
		section_name = section->name;
		section->run();
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("conformance");
		exit(1);
	}
	if (WIFSIGNALED(status))
		printf("%s: ended by signal %d\n", section->name,
		       WTERMSIG(status));
	else
		printf("%s: ended with status %d\n", section->name,
		       WEXITSTATUS(status));
}

static bool is_in(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += length)
		if ((at == list || at[-1] == ',') &&
		    (at[length] == ',' || !at[length]))
			return true;
	return false;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--without"))
		return !is_in(argv[2], name);
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc == 1;
}

int main(int argc, char **argv)
{
	bool list = argc == 2 && !strcmp(argv[1], "--list");
	size_t ran = 0;

	for (size_t i = 0; i < NUM_ALL; i++) {
		for (const struct section *s = all[i]; s->name; s++) {
			if (list) {
				puts(s->name);
				ran++;
			} else if (is_wanted(s->name, argc, argv)) {
				run(s);
				ran++;
			}
		}
	}
	if (!ran) {
		fprintf(stderr, "conformance: no such section; --list\n");
		return 2;
	}
	return 0;
}
