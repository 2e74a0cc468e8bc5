/*
 * A trace from a file, from xz, or from standard input, into one buffer.
 */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/replay/trace.h"

extern char **environ;

static const char xz_magic[] = {'\xfd', '7', 'z', 'X', 'Z', '\0'};

struct text {
	char *at;
	size_t len, capacity;
};

static int read_all(int fd, struct text *text)
{
	for (;;) {
		ssize_t n;

		if (text->len == text->capacity) {
			size_t more =
				text->capacity ? 2 * text->capacity : 1 << 20;
			char *at = realloc(text->at, more);

			if (!at)
				return -ENOMEM;
			text->at = at;
			text->capacity = more;
		}
		n = read(fd, text->at + text->len, text->capacity - text->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		text->len += (size_t)n;
	}
}

static bool is_xz(const char *at, size_t len)
{
	return len >= sizeof(xz_magic) &&
	       !memcmp(at, xz_magic, sizeof(xz_magic));
}

/* Runs `xz -dc` with standard input from fd. */
static int read_xz(int fd, struct text *text, char *why, size_t why_size)
{
	char *argv[] = {"xz", "-dc", NULL};
	posix_spawn_file_actions_t actions;
	int pipe_fd[2], status, err;
	pid_t pid;

	if (lseek(fd, 0, SEEK_SET) < 0 || pipe2(pipe_fd, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], STDOUT_FILENO);
	err = -posix_spawnp(&pid, "xz", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipe_fd[1]);
	if (err) {
		close(pipe_fd[0]);
		snprintf(why, why_size, "compressed, and xz cannot be run: %s",
			 strerror(-err));
		return err;
	}
	err = read_all(pipe_fd[0], text);
	close(pipe_fd[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!err && (!WIFEXITED(status) || WEXITSTATUS(status))) {
		snprintf(why, why_size, "xz could not decompress it");
		return -EIO;
	}
	return err;
}

static int read_path(const char *path, struct text *text, char *why,
		     size_t why_size)
{
	char head[sizeof(xz_magic)];
	ssize_t n;
	int fd, err;

	if (!strcmp(path, "-")) {
		err = read_all(STDIN_FILENO, text);
		if (!err && is_xz(text->at, text->len)) {
			snprintf(why, why_size,
				 "compressed: use xz -dc FILE | ... -");
			return -EINVAL;
		}
		return err;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = pread(fd, head, sizeof(head), 0);
	if (n > 0 && is_xz(head, (size_t)n))
		err = read_xz(fd, text, why, why_size);
	else
		err = read_all(fd, text);
	close(fd);
	return err;
}

int gp_trace_load(const char *path, struct gp_trace *trace, char *why,
		  size_t why_size)
{
	struct text text = {NULL, 0, 0};
	int err;

	memset(trace, 0, sizeof(*trace));
	if (why_size)
		why[0] = '\0';
	err = read_path(path, &text, why, why_size);
	if (!err)
		err = gp_trace_parse(text.at, text.len, trace, why, why_size);
	else if (why_size && !why[0])
		snprintf(why, why_size, "%s", strerror(-err));
	free(text.at);
	return err;
}
