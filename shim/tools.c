/* Which profiler, debugger or checker is here; see tools.h. */
#define _GNU_SOURCE
#include "shim/tools.h"

#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a tool leaves in the environment of the program it starts. */
static const struct {
	const char *variable, *tool;
} variables[] = {
	{"NV_SANITIZER_INJECTION_PORT_BASE", "compute-sanitizer"},
	{"NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN", "compute-sanitizer"},
	{"NV_COMPUTE_PROFILER_PERFWORKS_DIR", "ncu"},
	{"NSYS_PROFILING_SESSION_ID", "nsys"},
};

/* The libraries it puts into that, also by CUDA_INJECTION64_PATH. */
static const struct {
	const char *begins, *tool;
} libraries[] = {
	{"libsanitizer-collection.so", "compute-sanitizer"},
	{"libsanitizer-public.so", "compute-sanitizer"},
	{"libcuda-injection.so", "ncu"},
	{"libToolsInjection", "nsys"},
};

static const char *of_library(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (!strncmp(name, libraries[i].begins,
			     strlen(libraries[i].begins)))
			return libraries[i].tool;
	return NULL;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char **tool = arg;

	(void)size;
	*tool = of_library(info->dlpi_name);
	return *tool != NULL;
}

/* The beginning of a small file; false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static const char *tracer(void)
{
	char text[2048], path[48];
	const char *line;
	long pid;

	if (!read_text("/proc/self/status", text, sizeof(text)))
		return NULL;
	line = strstr(text, "\nTracerPid:");
	pid = line ? strtol(line + strlen("\nTracerPid:"), NULL, 10) : 0;
	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	if (pid <= 0 || !read_text(path, text, sizeof(text)))
		return NULL;
	return strncmp(text, "cuda-gdb", 8) == 0 ? "cuda-gdb" : NULL;
}

const char *gp_tool_here(void)
{
	const char *tool = NULL, *injected = getenv("CUDA_INJECTION64_PATH");

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (getenv(variables[i].variable))
			return variables[i].tool;
	if (injected && (tool = of_library(injected)))
		return tool;
	dl_iterate_phdr(look_at, &tool);
	return tool ? tool : tracer();
}
