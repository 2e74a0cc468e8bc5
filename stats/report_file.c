/*
 * A report as two files.
 *
 * Each is written under a temporary name and renamed, so that who reads it
 * sees all of it or nothing. The directory is opened once and the files are
 * made in it, by names that do not follow links: report directories may be
 * shared, /tmp among them.
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

/* Of the executable's name; the rest of a file name is under 80 bytes. */
#define MAX_EXE 128

struct file_name {
	char text[MAX_EXE + 80];
};

/* What is safe on any file system and needs no quotes in a shell. */
static void sanitize(char *name)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789._-+";

	for (; *name; name++) {
		if (!strchr(safe, *name))
			*name = '_';
	}
}

static struct file_name name_of(const struct gp_report *report,
				const char *suffix)
{
	char whole[sizeof(report->exe)], exe[MAX_EXE], event[32] = "exit";
	struct file_name name;

	gp_report_exe_name(report, whole, sizeof(whole));
	snprintf(exe, sizeof(exe), "%.*s", MAX_EXE - 1, whole);
	sanitize(exe);
	if (report->reason == GP_REPORT_SIGNAL)
		snprintf(event, sizeof(event), "usr1-%u", report->sequence);
	else if (report->reason == GP_REPORT_OOM)
		snprintf(event, sizeof(event), "oom-%u", report->sequence);
	snprintf(name.text, sizeof(name.text), "gpupool-%s-%d.%s.%s", exe,
		 report->pid, event, suffix);
	return name;
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

static int write_file(const struct gp_report *report, int dir, bool json,
		      const char *name)
{
	struct file_name temporary;
	int fd, error;

	snprintf(temporary.text, sizeof(temporary.text), ".%s.tmp", name);
	fd = open_new(dir, temporary.text);
	if (fd < 0)
		return fd;
	error = gp_report_print(report, json, fd);
	/* Network file systems tell of a full disk as late as here. EINTR:
	 * the descriptor is closed all the same. */
	if (close(fd) && errno != EINTR && !error)
		error = -errno;
	if (!error && renameat(dir, temporary.text, dir, name))
		error = -errno;
	if (error)
		unlinkat(dir, temporary.text, 0);
	return error;
}

static void join(char *path, size_t size, const char *dir, const char *name)
{
	const size_t len = strlen(dir);

	snprintf(path, size, "%s%s%s", dir,
		 len && dir[len - 1] != '/' ? "/" : "", name);
}

int gp_report_write(const struct gp_report *report, const char *dir, char *path,
		    size_t path_size)
{
	const int saved_errno = errno;
	struct file_name text = name_of(report, "txt");
	struct file_name json = name_of(report, "json");
	int fd, error;

	join(path, path_size, dir, text.text);
	fd = open(dir[0] ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		error = -errno;
	} else {
		error = write_file(report, fd, false, text.text);
		if (!error) {
			error = write_file(report, fd, true, json.text);
			if (error)
				join(path, path_size, dir, json.text);
		}
		close(fd);
	}
	errno = saved_errno;
	return error;
}
