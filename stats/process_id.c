/* Process numbers with their start time; see process_id.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/process_id.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t read_start(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	buf[0] = '\0';
	if (fd < 0)
		return 0;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		n = 0;
	buf[n] = '\0';
	return (size_t)n;
}

/* The name, in parentheses, may hold blanks and parentheses itself. */
uint64_t gp_process_start(uint32_t pid)
{
	char path[32], text[512];
	int saved = errno;
	uint64_t start = 0;
	char *at;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	read_start(path, text, sizeof(text));
	at = strrchr(text, ')');
	/* Behind it: state is field 3, the start time field 22. */
	if (at && at[1] == ' ' && at[2] != 'Z' && at[2] != 'X' &&
	    at[2] != 'x') {
		at += 2;
		for (int field = 3; at && field < 22; field++) {
			at = strchr(at, ' ');
			if (at)
				at++;
		}
		if (at)
			start = strtoull(at, NULL, 10);
	}
	errno = saved;
	return start;
}

void gp_process_self(struct gp_process_id *id)
{
	int saved = errno;
	struct stat ns;

	memset(id, 0, sizeof(*id));
	id->pid = (uint32_t)getpid();
	id->uid = (uint32_t)geteuid();
	id->start = gp_process_start(id->pid);
	if (!stat("/proc/self/ns/pid", &ns))
		id->pid_ns = ns.st_ino;
	read_start("/proc/sys/kernel/random/boot_id", id->boot_id,
		   sizeof(id->boot_id));
	id->boot_id[strcspn(id->boot_id, "\n")] = '\0';
	errno = saved;
}

enum gp_life gp_process_life(const struct gp_process_id *id,
			     const struct gp_process_id *self)
{
	int saved = errno;
	bool there;

	if (strncmp(id->boot_id, self->boot_id, sizeof(id->boot_id)) != 0)
		return GP_DEAD;
	if (id->pid_ns != self->pid_ns)
		return GP_ELSEWHERE;
	if (!id->pid || id->pid > INT32_MAX)
		return GP_DEAD;
	/* Without /proc the number alone must do. */
	if (id->start && self->start)
		return gp_process_start(id->pid) == id->start ? GP_ALIVE
							      : GP_DEAD;
	there = !kill((pid_t)id->pid, 0) || errno == EPERM;
	errno = saved;
	return there ? GP_ALIVE : GP_DEAD;
}
