/*
 * A report as two files.
 *
 * Each is written without a name, which it gets when it is whole: who reads it
 * sees all of it or nothing, and a process that is killed meanwhile leaves
 * nothing. Where the file system has no such files, under a temporary name. The
 * directory is opened once and the files are made in it, by names that do not
 * follow links: report directories may be shared, /tmp among them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_PATH: a directory one may write but not list */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/report_impl.h"

void gp_report_file_name(const struct gp_report *report, const char *suffix,
			 char name[GP_REPORT_FILE])
{
	const char *const events[] = {
		[GP_REPORT_EXIT] = "exit",
		[GP_REPORT_SIGNAL] = report->signal ? report->signal : "asked",
		[GP_REPORT_OOM] = "oom",
		[GP_REPORT_WARN] = "warn",
	};
	const struct gp_report_words words = {.exe = report->exe,
					      .pid = report->pid};
	char base[GP_REPORT_BASE], number[16] = "";

	if (!report->base[0])
		gp_report_name("gpupool-%e-%p", &words, base);
	if (report->reason != GP_REPORT_EXIT)
		snprintf(number, sizeof(number), "-%u", report->sequence);
	snprintf(name, GP_REPORT_FILE, "%s.%s%s.%s",
		 report->base[0] ? report->base : base, events[report->reason],
		 number, suffix);
}

/* Network file systems tell of a full disk as late as here. EINTR: the
 * descriptor is closed all the same. */
static int close_checked(int fd)
{
	return close(fd) && errno != EINTR ? -errno : 0;
}

/* A file that is there already is replaced at once, which a link cannot do. */
static int give_name(int fd, int dir, const char *temporary, const char *name)
{
	const int flags = AT_SYMLINK_FOLLOW;
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (!linkat(AT_FDCWD, self, dir, name, flags))
		return 0;
	if (errno != EEXIST)
		return -errno;
	unlinkat(dir, temporary, 0);
	if (!linkat(AT_FDCWD, self, dir, temporary, flags) &&
	    !renameat(dir, temporary, dir, name))
		return 0;
	return -errno;
}

/* `done`: the file has its name, or there is no use in trying it otherwise. */
static int write_unnamed(const struct gp_report *report, int dir, bool json,
			 const char *temporary, const char *name, bool *done)
{
	int fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
	int copy, error;

	if (fd < 0)
		return 0;
	error = gp_report_print(report, json, fd);
	/* What only close() tells must be known before it has a name. */
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy >= 0 && !error)
		error = close_checked(copy);
	else if (copy >= 0)
		close(copy);
	*done = error || !give_name(fd, dir, temporary, name);
	close(fd);
	return error;
}

/* One that a killed process left is replaced; with O_EXCL nothing that
 * somebody else puts there meanwhile is written to. */
static int open_new(int dir, const char *name)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, name, flags, 0644);

	if (fd < 0 && errno == EEXIST && !unlinkat(dir, name, 0))
		fd = openat(dir, name, flags, 0644);
	return fd < 0 ? -errno : fd;
}

static int write_named(const struct gp_report *report, int dir, bool json,
		       const char *temporary, const char *name)
{
	int fd = open_new(dir, temporary);
	int error, closed;

	if (fd < 0)
		return fd;
	error = gp_report_print(report, json, fd);
	closed = close_checked(fd);
	if (!error)
		error = closed;
	if (!error && renameat(dir, temporary, dir, name))
		error = -errno;
	if (error)
		unlinkat(dir, temporary, 0);
	return error;
}

static int write_file(const struct gp_report *report, int dir, bool json,
		      const char *name)
{
	char temporary[GP_REPORT_FILE + 8];
	bool done = false;
	int error;

	snprintf(temporary, sizeof(temporary), ".%s.tmp", name);
	error = write_unnamed(report, dir, json, temporary, name, &done);
	return done ? error : write_named(report, dir, json, temporary, name);
}

static void join(char *path, size_t size, const char *dir, const char *name)
{
	const size_t len = strlen(dir);

	snprintf(path, size, "%s%s%s", dir,
		 len && dir[len - 1] != '/' ? "/" : "", name);
}

static int write_one(const struct gp_report *report, int fd, bool json,
		     const char *dir, char *path, size_t path_size)
{
	char name[GP_REPORT_FILE];
	int error;

	gp_report_file_name(report, json ? "json" : "txt", name);
	error = write_file(report, fd, json, name);
	if (error || !*path)
		join(path, path_size, dir, name);
	return error;
}

int gp_report_write(const struct gp_report *report, const char *dir, char *path,
		    size_t path_size)
{
	const int saved_errno = errno;
	const unsigned all = GP_REPORT_TEXT | GP_REPORT_JSON;
	const unsigned formats = report->formats ? report->formats : all;
	char name[GP_REPORT_FILE];
	int fd, error = 0;

	*path = '\0';
	fd = open(dir[0] ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		error = -errno;
		gp_report_file_name(report,
				    formats & GP_REPORT_TEXT ? "txt" : "json",
				    name);
		join(path, path_size, dir, name);
	} else {
		if (formats & GP_REPORT_TEXT)
			error = write_one(report, fd, false, dir, path,
					  path_size);
		if (!error && formats & GP_REPORT_JSON)
			error = write_one(report, fd, true, dir, path,
					  path_size);
		close(fd);
	}
	errno = saved_errno;
	return error;
}
