/* The runtime directory; see runtime_dir.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/runtime_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/clock.h"
#include "stats/handoff.h"
#include "stats/log.h"
#include "stats/process_file.h"
#include "stats/requests.h"

/* ---- the directory ----------------------------------------------------------- */

/* What `gpupool` takes too: a path that the dynamic linker can be given. */
static bool usable_base(const char *base)
{
	struct stat info;

	return base && base[0] == '/' && !strpbrk(base, " :;$\t\n") &&
	       strlen(base) < PATH_MAX - 16 && !stat(base, &info) &&
	       S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

static int open_checked(const char *path, const char **why)
{
	struct stat info;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		int error = -errno;

		*why = error == -ELOOP || error == -ENOTDIR
			       ? "it is not a directory"
			       : "it cannot be opened";
		return error;
	}
	if (fstat(fd, &info))
		*why = "it cannot be looked at";
	else if (info.st_uid != geteuid())
		*why = "it belongs to somebody else";
	else if (info.st_mode & 077)
		*why = "others have access to it; its mode must be 0700";
	else
		return fd;
	close(fd);
	return -EPERM;
}

int gp_runtime_dir_open(const char *xdg, char *path, const char **why)
{
	int saved = errno;
	int fd;

	if (usable_base(xdg))
		snprintf(path, PATH_MAX, "%s/gpupool", xdg);
	else
		snprintf(path, PATH_MAX, "/tmp/gpupool-%u",
			 (unsigned)geteuid());
	if (mkdir(path, 0700) && errno != EEXIST) {
		fd = -errno;
		*why = "it cannot be made";
	} else {
		fd = open_checked(path, why);
	}
	errno = saved;
	return fd;
}

int gp_runtime_dir_reopen(const char *path)
{
	int saved = errno;
	const char *why;
	int fd = open_checked(path, &why);

	errno = saved;
	return fd;
}

/* ---- names -------------------------------------------------------------------- */

static const char *read_part(const char *text, uint64_t most, char end,
			     uint64_t *number)
{
	char *rest;

	if (*text < '0' || *text > '9')
		return NULL;
	errno = 0;
	*number = strtoull(text, &rest, 10);
	return errno || *number > most || *rest != end ? NULL : rest + 1;
}

bool gp_file_name_read(const char *name, struct gp_file_name *parts)
{
	int saved = errno;
	uint64_t pid, start, image;
	bool good = false;

	name = read_part(name, INT32_MAX, '-', &pid);
	if (name)
		name = read_part(name, UINT64_MAX, '-', &start);
	if (name)
		name = read_part(name, UINT32_MAX, '.', &image);
	if (name && !strcmp(name, &GP_FILE_SUFFIX[1])) {
		parts->pid = (uint32_t)pid;
		parts->start = start;
		parts->image = (uint32_t)image;
		good = true;
	}
	errno = saved;
	return good;
}

void gp_file_name_print(const struct gp_file_name *parts,
			char name[GP_FILE_NAME])
{
	snprintf(name, GP_FILE_NAME, "%u-%llu-%u" GP_FILE_SUFFIX, parts->pid,
		 (unsigned long long)parts->start, parts->image);
}

int gp_runtime_dir_each(int dir, unsigned most,
			void (*visit)(void *arg, int dir, const char *name),
			void *arg)
{
	int saved = errno;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Not readdir(), which takes memory of the heap, and so makes an arena
	 * for a thread of ours that otherwise needs none. */
	char buf[2048] __attribute__((aligned(8)));
	const struct dirent64 *entry;
	ssize_t n = 0;
	int rc = 0;

	while (fd >= 0 && most && (n = getdents64(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0; at < n && most; at += entry->d_reclen) {
			entry = (const void *)(buf + at);
			if (entry->d_name[0] == '.')
				continue;
			visit(arg, dir, entry->d_name);
			most--;
		}
	}
	if (fd < 0 || n < 0)
		rc = -errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return rc;
}

/* ---- what the dead left ------------------------------------------------------- */

#define MAX_FOUND    1024
#define MAX_NAMES    8192

/* Where so many have a process of their number, only one in so many of the
 * others is looked at more closely: sixty-four that start at once do not read
 * sixty-four files each. Another start looks at another of them. */
#define CLOSER_LOOKS 8

struct found {
	char name[GP_FILE_NAME];
	uint64_t bytes, time; /* on disk; last written, ns */
};

struct sweep {
	const struct gp_process_id *self;
	struct found *found;
	size_t n;
	uint64_t bytes;
	unsigned seem_alive;
};

static bool seems_alive(struct sweep *sweep, const struct gp_file_name *parts)
{
	unsigned n;

	if (kill((pid_t)parts->pid, 0) && errno == ESRCH)
		return false;
	n = sweep->seem_alive++;
	return n >= CLOSER_LOOKS && (n + sweep->self->pid) % CLOSER_LOOKS;
}

static void look(void *arg, int dir, const char *name)
{
	struct sweep *sweep = arg;
	/* By its name, as if it were a process of this boot and namespace. */
	struct gp_process_id id = *sweep->self;
	struct gp_file_name parts;
	struct found *found;
	struct stat info;

	if (gp_request_sweep(dir, name, sweep->self) ||
	    gp_handoff_sweep(dir, name, sweep->self))
		return;
	if (!gp_file_name_read(name, &parts) || strlen(name) >= GP_FILE_NAME ||
	    sweep->n == MAX_FOUND)
		return;
	if (seems_alive(sweep, &parts) ||
	    fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW))
		return;
	if (!S_ISREG(info.st_mode) || info.st_uid != sweep->self->uid) {
		gp_warn("%s in the runtime directory is not used: %s", name,
			S_ISREG(info.st_mode) ? "it belongs to somebody else"
					      : "it is no regular file");
		return;
	}
	id.pid = parts.pid;
	id.start = parts.start;
	if (gp_process_life(&id, sweep->self) != GP_DEAD)
		return;
	found = &sweep->found[sweep->n++];
	strcpy(found->name, name);
	found->bytes = (uint64_t)info.st_blocks * 512;
	sweep->bytes += found->bytes;
	found->time = gp_ns(&info.st_mtim);
}

static int newest_first(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return x->time < y->time ? 1 : x->time > y->time ? -1 : 0;
}

void gp_runtime_dir_sweep(int dir, const struct gp_process_id *self,
			  uint64_t files, uint64_t bytes)
{
	int saved = errno;
	struct sweep sweep = {.self = self};
	uint64_t kept = 0, sum = 0;

	/* Not cleared: its pages are touched as far as they are needed. */
	sweep.found = malloc(MAX_FOUND * sizeof(*sweep.found));
	if (!sweep.found)
		return;
	gp_runtime_dir_each(dir, MAX_NAMES, look, &sweep);
	if (sweep.n > files || sweep.bytes > bytes)
		qsort(sweep.found, sweep.n, sizeof(*sweep.found), newest_first);
	else
		sweep.n = 0; /* they all stay, whosever they are */
	for (size_t i = 0; i < sweep.n; i++) {
		if (gp_file_is_elsewhere(dir, sweep.found[i].name, self))
			continue;
		sum += sweep.found[i].bytes;
		if (++kept > files || sum > bytes)
			unlinkat(dir, sweep.found[i].name, 0);
	}
	free(sweep.found);
	errno = saved;
}
