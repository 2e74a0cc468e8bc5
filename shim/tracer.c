/*
 * Trace lines are collected in one buffer and written when it is full and at
 * exit. The address serves as the allocation's name: it is unique while the
 * allocation lives.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/special.h"
#include "shim/tracer.h"
#include "stats/clock.h"
#include "stats/log.h"
#include "stats/output.h"

int gp_tracing;

/* Rank: leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by lock. */
static char buffer[64 << 10];
static size_t filled;
static int file = -1;
static uint64_t start_us;

static uint64_t now_us(void)
{
	return gp_clock_ns(CLOCK_MONOTONIC) / 1000;
}

static void flush(void)
{
	int rc = file < 0 ? 0 : gp_write_all(file, buffer, filled);

	if (rc) {
		gp_warn("trace: %s; the trace ends here", strerror(-rc));
		close(file);
		file = -1;
		__atomic_store_n(&gp_tracing, 0, __ATOMIC_RELAXED);
		gp_special_set(GP_SPECIAL_TRACE, false);
	}
	filled = 0;
}

/* `pattern` with %p, %e and %% made the process id, the program's name and %,
 * so that every process of a job writes its own trace. */
static void expand(const char *pattern, char *path, size_t size)
{
	size_t n = 0;
	int more;

	for (; *pattern && n + 1 < size; pattern++) {
		if (*pattern != '%' || !strchr("pe%", pattern[1]) ||
		    !pattern[1]) {
			path[n++] = *pattern;
			continue;
		}
		pattern++;
		if (*pattern == 'p')
			more = snprintf(path + n, size - n, "%d",
					(int)getpid());
		else if (*pattern == 'e')
			more = snprintf(path + n, size - n, "%s",
					program_invocation_short_name);
		else
			more = snprintf(path + n, size - n, "%%");
		n += (size_t)more < size - n ? (size_t)more : size - n - 1;
	}
	path[n] = '\0';
}

void gp_tracer_start(void)
{
	static const char header[] = "op,id,size,stream,t_us\n";
	const char *pattern = getenv("GPUPOOL_TRACE");
	static char path[PATH_MAX]; /* large, and used once */

	if (!pattern || !*pattern)
		return;
	expand(pattern, path, sizeof(path));
	file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (file < 0) {
		gp_warn("trace: cannot write %s: %s", path, strerror(errno));
		return;
	}
	start_us = now_us();
	memcpy(buffer, header, sizeof(header) - 1);
	filled = sizeof(header) - 1;
	__atomic_store_n(&gp_tracing, 1, __ATOMIC_RELEASE);
	gp_special_set(GP_SPECIAL_TRACE, true);
}

void gp_tracer_flush(void)
{
	int saved = errno;

	pthread_mutex_lock(&lock);
	flush();
	pthread_mutex_unlock(&lock);
	errno = saved;
}

__attribute__((noinline, cold)) void gp_trace_event(char op, uint64_t address,
						    uint64_t bytes)
{
	int saved = errno;
	unsigned long long id = address, size = bytes, time;
	int n;

	pthread_mutex_lock(&lock);
	if (sizeof(buffer) - filled < 96)
		flush();
	time = now_us() - start_us;
	if (op == 'f')
		n = snprintf(buffer + filled, 96, "f,%llu,,,%llu\n", id, time);
	else if (op == 'o')
		n = snprintf(buffer + filled, 96, "o,,%llu,,%llu\n", size,
			     time);
	else
		n = snprintf(buffer + filled, 96, "%c,%llu,%llu,,%llu\n", op,
			     id, size, time);
	if (n > 0)
		filled += (size_t)n;
	pthread_mutex_unlock(&lock);
	errno = saved;
}
