/*
 * Reports as files: names, whole or not at all, and every way it can fail.
 *
 * write(), close() and renameat() are replaced by ones that fail on demand:
 * the library in this program is linked statically and calls these. All of it
 * runs twice: with files that have no name until they are whole, and as on a
 * file system that knows no such files.
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats/emit.h"
#include "stats/output.h"
#include "stats/report_name.h"
#include "tests/support/sample_report.h"

/* ---- calls that fail on demand ------------------------------------------- */

static struct {
	int write_error, close_error, rename_error; /* errno; 0: as usual */
	int after;       /* so many writes succeed before */
	size_t at_most;  /* bytes a write takes; 0: all */
	bool interrupt;  /* every other write is EINTR */
	bool zero;       /* write returns 0 */
	unsigned writes; /* made so far */
	int leaked;      /* files opened without O_CLOEXEC */
	bool die;        /* in the write that would fail */
	bool no_link;    /* as without /proc */
} plan;

static bool unnamed_files;

int openat(int at, const char *name, int flags, ...)
{
	int fd;

	if (!unnamed_files && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	fd = (int)syscall(SYS_openat, at, name, flags, 0644);
	if (fd >= 0)
		plan.leaked += !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	return fd;
}

ssize_t write(int fd, const void *data, size_t size)
{
	plan.writes++;
	if (plan.zero)
		return 0;
	if (plan.interrupt && plan.writes % 2) {
		errno = EINTR;
		return -1;
	}
	if (plan.write_error && plan.after-- <= 0) {
		if (plan.die)
			raise(SIGKILL);
		errno = plan.write_error;
		return -1;
	}
	if (plan.at_most && size > plan.at_most)
		size = plan.at_most;
	return syscall(SYS_write, fd, data, size);
}

int close(int fd)
{
	const int result = (int)syscall(SYS_close, fd);

	/* Only of files; directories are closed as well. */
	if (plan.close_error && plan.writes) {
		errno = plan.close_error;
		return -1;
	}
	return result;
}

int linkat(int from_dir, const char *from, int to_dir, const char *to,
	   int flags)
{
	if (plan.no_link) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	if (plan.rename_error) {
		errno = plan.rename_error;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

/* ---- a directory of one's own ---------------------------------------------- */

static char dir[64];
static char path[PATH_MAX];

static int setup(void **state)
{
	(void)state;
	memset(&plan, 0, sizeof(plan));
	snprintf(dir, sizeof(dir), "/tmp/gpupool-report-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static unsigned num_files(bool remove)
{
	DIR *list = opendir(dir);
	struct dirent *entry;
	unsigned n = 0;

	assert_non_null(list);
	while ((entry = readdir(list))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		n++;
		if (remove)
			unlinkat(dirfd(list), entry->d_name, 0);
	}
	closedir(list);
	return n;
}

static int teardown(void **state)
{
	(void)state;
	memset(&plan, 0, sizeof(plan));
	chmod(dir, 0700);
	num_files(true);
	return rmdir(dir);
}

static int write_sample(enum gp_report_reason reason)
{
	int error;

	errno = 77;
	error = gp_report_write(sample_report(reason), dir, path, sizeof(path));
	assert_int_equal(errno, 77);
	return error;
}

static void path_is(const char *name)
{
	char expected[PATH_MAX];

	snprintf(expected, sizeof(expected), "%s/%s", dir, name);
	assert_string_equal(path, expected);
}

static void exists(const char *name)
{
	char whole[PATH_MAX];
	struct stat stat;

	snprintf(whole, sizeof(whole), "%s/%s", dir, name);
	assert_int_equal(lstat(whole, &stat), 0);
	assert_true(S_ISREG(stat.st_mode));
	assert_int_equal(stat.st_mode & 0777, 0644);
	assert_true(stat.st_size > 1000);
}

/* ---- names ---------------------------------------------------------------------- */

static void test_names(void **state)
{
	(void)state;
	umask(022);
	assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
	path_is("gpupool-python3.12-4242.exit.txt");
	assert_int_equal(write_sample(GP_REPORT_SIGNAL), 0);
	path_is("gpupool-python3.12-4242.usr1-3.txt");
	assert_int_equal(write_sample(GP_REPORT_OOM), 0);
	path_is("gpupool-python3.12-4242.oom-3.txt");
	exists("gpupool-python3.12-4242.exit.txt");
	exists("gpupool-python3.12-4242.exit.json");
	exists("gpupool-python3.12-4242.usr1-3.txt");
	exists("gpupool-python3.12-4242.usr1-3.json");
	exists("gpupool-python3.12-4242.oom-3.txt");
	exists("gpupool-python3.12-4242.oom-3.json");
	assert_int_equal(num_files(false), 6); /* nothing temporary is left */
	assert_int_equal(plan.leaked, 0);
}

static void test_name_of_the_signal(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_SIGNAL);

	(void)state;
	report->signal = "rtmin+3";
	assert_int_equal(gp_report_write(report, dir, path, sizeof(path)), 0);
	path_is("gpupool-python3.12-4242.rtmin+3-3.txt");
	report->signal = NULL;
	assert_int_equal(gp_report_write(report, dir, path, sizeof(path)), 0);
	path_is("gpupool-python3.12-4242.asked-3.txt");
}

static void check_exe(const char *exe, const char *name)
{
	struct gp_report *report = sample_report(GP_REPORT_EXIT);
	char expected[512];

	snprintf(report->exe, sizeof(report->exe), "%s", exe);
	snprintf(expected, sizeof(expected), "gpupool-%s-4242.exit.txt", name);
	assert_int_equal(gp_report_write(report, dir, path, sizeof(path)), 0);
	path_is(expected);
}

static void test_exe_is_sanitized(void **state)
{
	char exe[256], name[256];

	(void)state;
	check_exe("/opt/my app/train \"x\";rm*", "train__x__rm_");
	check_exe("/opt/tr\xc3\xa4in\n", "tr__in_");
	check_exe("/opt/..", "..");
	check_exe("/opt/a+b_c-d.e", "a+b_c-d.e");
	check_exe("/opt/train (deleted)", "train");
	check_exe("", "unknown");
	memset(exe, 'x', 255);
	exe[255] = '\0';
	memset(name, 'x', 127);
	name[127] = '\0';
	check_exe(exe, name);
}

static const char *name_for(const char *pattern,
			    const struct gp_report_words *words)
{
	static char base[GP_REPORT_BASE];

	gp_report_name(pattern, words, base);
	return base;
}

static void test_patterns(void **state)
{
	char name[260];
	struct gp_report_words words = {
		.exe = "/opt/my app",
		.pid = 77,
		.host = "node-1.rack/2",
		.rank = "13",
		.unix_ns = 1762078272000000000ull,
	};

	(void)state;
	assert_string_equal(name_for("gpupool-%e-%p", &words),
			    "gpupool-my_app-77");
	assert_string_equal(name_for("%h.r%r", &words), "node-1.rack_2.r13");
	assert_string_equal(name_for("%t%%%p", &words), "20251102T101112Z%77");
	assert_string_equal(name_for("plain", &words), "plain");
	words.rank = words.host = NULL;
	assert_string_equal(name_for("%h-%r", &words), "unknown-0");
	words.rank = words.host = "";
	assert_string_equal(name_for("%h-%r", &words), "unknown-0");
	/* Whatever comes, it is cut and ended. */
	memset(name, 'y', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	words.exe = words.rank = name;
	assert_int_equal(strlen(name_for("%e%r", &words)), GP_REPORT_BASE - 1);
	assert_int_equal(strlen(name_for(name, &words)), GP_REPORT_BASE - 1);
}

static void test_formats_and_base(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_WARN);

	(void)state;
	strcpy(report->base, "run7");
	report->formats = GP_REPORT_JSON;
	assert_int_equal(gp_report_write(report, dir, path, sizeof(path)), 0);
	path_is("run7.warn-3.json");
	assert_int_equal(num_files(false), 1);
	report->formats = GP_REPORT_TEXT;
	assert_int_equal(gp_report_write(report, dir, path, sizeof(path)), 0);
	path_is("run7.warn-3.txt");
	assert_int_equal(num_files(false), 2);
	report->formats = 0;
	strcpy(report->base, "run8");
	assert_int_equal(gp_report_write(report, dir, path, sizeof(path)), 0);
	path_is("run8.warn-3.txt");
	assert_int_equal(num_files(false), 4);
}

/* The newest stay, and whatever is no report. */
static void test_keep(void **state)
{
	static const char *const names[] = {"a.txt", "b.json", "c.txt",
					    "d.json", "e.gpupool"};
	struct timespec times[2] = {{1000, 0}, {1000, 0}};
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(at >= 0);
	for (int i = 0; i < 5; i++) {
		int fd = openat(at, names[i], O_WRONLY | O_CREAT | O_CLOEXEC,
				0600);

		assert_true(fd >= 0);
		times[1].tv_sec++;
		assert_int_equal(futimens(fd, times), 0);
		close(fd);
	}
	gp_report_keep(at, 3, UINT64_MAX);
	assert_int_equal(num_files(false), 4);
	assert_int_not_equal(faccessat(at, "a.txt", F_OK, 0), 0);
	gp_report_keep(at, 0, 0);
	assert_int_equal(num_files(false), 3);
	for (int i = 2; i < 5; i++)
		assert_int_equal(faccessat(at, names[i], F_OK, 0), 0);
	close(at);
}

static void test_dir_forms(void **state)
{
	char with_slash[80], before[PATH_MAX], small[8];

	(void)state;
	snprintf(with_slash, sizeof(with_slash), "%s/", dir);
	assert_int_equal(gp_report_write(sample_report(GP_REPORT_EXIT),
					 with_slash, path, sizeof(path)),
			 0);
	path_is("gpupool-python3.12-4242.exit.txt");

	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(gp_report_write(sample_report(GP_REPORT_SIGNAL), "",
					 path, sizeof(path)),
			 0);
	assert_string_equal(path, "gpupool-python3.12-4242.usr1-3.txt");
	assert_int_equal(chdir(before), 0);
	exists("gpupool-python3.12-4242.usr1-3.txt");

	/* A short buffer gets what fits. */
	assert_int_equal(gp_report_write(sample_report(GP_REPORT_OOM), dir,
					 small, sizeof(small)),
			 0);
	assert_string_equal(small, "/tmp/gp");
	exists("gpupool-python3.12-4242.oom-3.txt");
}

/* ---- whole or not at all --------------------------------------------------------- */

static void test_replaces(void **state)
{
	char old[PATH_MAX], leftover[PATH_MAX], target[PATH_MAX];
	struct stat stat;
	FILE *file;

	(void)state;
	snprintf(old, sizeof(old), "%s/gpupool-python3.12-4242.exit.txt", dir);
	snprintf(target, sizeof(target), "%s/target", dir);
	snprintf(leftover, sizeof(leftover),
		 "%s/.gpupool-python3.12-4242.exit.json.tmp", dir);
	/* Links under both names: what they lead to is not touched. */
	file = fopen(target, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(symlink(target, old), 0);
	assert_int_equal(symlink(target, leftover), 0);
	umask(022);
	assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
	exists("gpupool-python3.12-4242.exit.txt");
	exists("gpupool-python3.12-4242.exit.json");
	assert_int_equal(lstat(target, &stat), 0);
	assert_int_equal(stat.st_size, 0);
	/* The second report needs no other name while it is written. */
	assert_int_equal(num_files(false), 3 + unnamed_files);
}

static void test_umask_holds(void **state)
{
	char whole[PATH_MAX];
	struct stat stat;

	(void)state;
	umask(077);
	assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
	snprintf(whole, sizeof(whole), "%s/gpupool-python3.12-4242.exit.json",
		 dir);
	assert_int_equal(lstat(whole, &stat), 0);
	assert_int_equal(stat.st_mode & 0777, 0600);
	umask(022);
}

static void test_short_and_interrupted_writes(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_EXIT);
	char whole[PATH_MAX];
	static char page[1 << 16], same[1 << 16];
	FILE *file;
	size_t len;

	(void)state;
	plan.at_most = 7;
	plan.interrupt = true;
	assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
	memset(&plan, 0, sizeof(plan));
	snprintf(whole, sizeof(whole), "%s/gpupool-python3.12-4242.exit.json",
		 dir);
	file = fopen(whole, "r");
	assert_non_null(file);
	len = fread(page, 1, sizeof(page), file);
	fclose(file);
	file = tmpfile();
	assert_non_null(file);
	assert_int_equal(gp_report_print(report, true, fileno(file)), 0);
	rewind(file);
	assert_int_equal(fread(same, 1, sizeof(same), file), len);
	fclose(file);
	assert_memory_equal(page, same, len);
}

/* ---- failures --------------------------------------------------------------------- */

static void test_no_directory(void **state)
{
	char missing[80];

	(void)state;
	snprintf(missing, sizeof(missing), "%s/missing", dir);
	assert_int_equal(gp_report_write(sample_report(GP_REPORT_EXIT), missing,
					 path, sizeof(path)),
			 -ENOENT);
	path_is("missing/gpupool-python3.12-4242.exit.txt");
	assert_int_equal(gp_report_write(sample_report(GP_REPORT_EXIT),
					 "/dev/null", path, sizeof(path)),
			 -ENOTDIR);
	assert_string_equal(path, "/dev/null/gpupool-python3.12-4242.exit.txt");
}

/* Runs in a child, so that rights and limits can be given up. */
static void in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status))
		fail_msg("died by signal %d", WTERMSIG(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int read_only_body(void)
{
	if (!getuid() && setuid(65534))
		return 1;
	return write_sample(GP_REPORT_EXIT) == -EACCES ? 0 : 2;
}

static void test_read_only_directory(void **state)
{
	(void)state;
	assert_int_equal(chmod(dir, 0555), 0);
	in_child(read_only_body);
	assert_int_equal(num_files(false), 0);
}

/* One may write into it but not list it. */
static int drop_box_body(void)
{
	if (!getuid() && setuid(65534))
		return 1;
	return write_sample(GP_REPORT_EXIT) ? 2 : 0;
}

static void test_drop_box(void **state)
{
	(void)state;
	assert_int_equal(chmod(dir, 0333), 0);
	in_child(drop_box_body);
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(num_files(false), 2);
}

static void test_write_fails(void **state)
{
	unsigned writes;

	(void)state;
	/* Every write, one at a time; then the disk has room again. */
	assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
	writes = plan.writes;
	assert_true(writes >= 4); /* two files, neither in one piece */
	num_files(true);
	for (unsigned i = 0; i < writes; i++) {
		memset(&plan, 0, sizeof(plan));
		plan.write_error = ENOSPC;
		plan.after = (int)i;
		assert_int_equal(write_sample(GP_REPORT_EXIT), -ENOSPC);
		memset(&plan, 0, sizeof(plan));
		/* No temporary file; the text stays if it was whole. */
		if (strstr(path, ".json"))
			assert_int_equal(num_files(true), 1);
		else
			assert_int_equal(num_files(true), 0);
	}
}

static void test_write_returns_zero(void **state)
{
	(void)state;
	plan.zero = true;
	assert_int_equal(write_sample(GP_REPORT_EXIT), -EIO);
	plan.zero = false;
	assert_int_equal(num_files(false), 0);
}

static void test_close_fails(void **state)
{
	(void)state;
	plan.close_error = EDQUOT;
	assert_int_equal(write_sample(GP_REPORT_EXIT), -EDQUOT);
	path_is("gpupool-python3.12-4242.exit.txt");
	plan.close_error = 0;
	assert_int_equal(num_files(false), 0);
	/* Interrupted, but closed. */
	plan.close_error = EINTR;
	assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
	plan.close_error = 0;
	assert_int_equal(num_files(false), 2);
}

static void test_rename_fails(void **state)
{
	(void)state;
	plan.rename_error = EROFS;
	plan.no_link = true;
	assert_int_equal(write_sample(GP_REPORT_EXIT), -EROFS);
	path_is("gpupool-python3.12-4242.exit.txt");
	assert_int_equal(num_files(false), 0);
	plan.rename_error = 0;
	/* A directory has the report's name. */
	snprintf(path, sizeof(path), "%s/gpupool-python3.12-4242.exit.json",
		 dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(write_sample(GP_REPORT_EXIT), -EISDIR);
	path_is("gpupool-python3.12-4242.exit.json");
	assert_int_equal(rmdir(path), 0);
	/* No such name is needed. */
	if (unnamed_files)
		return;
	/* Or the temporary file's, and cannot be taken away. */
	snprintf(path, sizeof(path), "%s/.gpupool-python3.12-4242.exit.txt.tmp",
		 dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(write_sample(GP_REPORT_EXIT), -EISDIR);
	snprintf(path, sizeof(path), "%s/.gpupool-python3.12-4242.exit.txt.tmp",
		 dir);
	assert_int_equal(rmdir(path), 0);
}

static int die_body(void)
{
	plan.die = true;
	plan.write_error = ENOSPC;
	write_sample(GP_REPORT_EXIT);
	return 0;
}

/* At every write of the two files: nothing is left but the first, once that
 * is whole. */
static void test_killed_while_it_writes(void **state)
{
	unsigned writes;

	(void)state;
	assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
	writes = plan.writes;
	for (unsigned i = 0; i < writes; i++) {
		int status;
		pid_t pid;

		num_files(true);
		plan.after = (int)i;
		pid = fork();
		if (!pid)
			_exit(die_body());
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		snprintf(path, sizeof(path),
			 "%s/gpupool-python3.12-4242.exit.txt", dir);
		assert_int_equal(num_files(false),
				 !access(path, F_OK) + !unnamed_files);
		/* The next of that name has no trouble with it. */
		assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
		assert_int_equal(num_files(false), 2);
	}
}

static void test_without_proc(void **state)
{
	(void)state;
	plan.no_link = true;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(write_sample(GP_REPORT_EXIT), 0);
		exists("gpupool-python3.12-4242.exit.txt");
		exists("gpupool-python3.12-4242.exit.json");
		assert_int_equal(num_files(false), 2);
	}
}

/* A limit on file sizes would kill the program by SIGXFSZ. */
static int size_limit_body(void)
{
	const struct rlimit limit = {3000, 3000};
	sigset_t pending;

	signal(SIGXFSZ, SIG_DFL);
	if (setrlimit(RLIMIT_FSIZE, &limit))
		return 1;
	if (write_sample(GP_REPORT_EXIT) != -EFBIG)
		return 2;
	sigemptyset(&pending);
	sigpending(&pending);
	return sigismember(&pending, SIGXFSZ) ? 3 : 0;
}

static void test_size_limit(void **state)
{
	(void)state;
	in_child(size_limit_body);
	assert_int_equal(num_files(false), 0);
}

static int no_descriptors_body(void)
{
	const struct rlimit limit = {3, 3};

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 1;
	return write_sample(GP_REPORT_EXIT) == -EMFILE ? 0 : 2;
}

static void test_no_descriptors(void **state)
{
	(void)state;
	in_child(no_descriptors_body);
}

static void test_bad_descriptor(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_EXIT);
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(gp_report_print(report, true, -1), -EBADF);
	assert_true(full >= 0);
	assert_int_equal(gp_report_print(report, false, full), -ENOSPC);
	close(full);
}

/* ---- output ------------------------------------------------------------------------ */

static int broken_pipe_body(void)
{
	int ends[2];
	sigset_t set;

	signal(SIGPIPE, SIG_DFL);
	if (pipe(ends) || close(ends[0]))
		return 1;
	errno = 77;
	if (gp_write_all(ends[1], "x", 1) != -EPIPE || errno != 77)
		return 2;
	/* The program's mask is as it was, and nothing is pending. */
	sigprocmask(SIG_BLOCK, NULL, &set);
	if (sigismember(&set, SIGPIPE) || sigismember(&set, SIGXFSZ))
		return 3;
	/* One that was pending before is the program's, and stays. */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGPIPE);
	if (gp_write_all(ends[1], "x", 1) != -EPIPE)
		return 4;
	sigpending(&set);
	return sigismember(&set, SIGPIPE) ? 0 : 5;
}

static void test_broken_pipe(void **state)
{
	(void)state;
	in_child(broken_pipe_body);
}

static void test_would_block(void **state)
{
	static char data[1 << 20];
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(gp_write_all(ends[1], data, sizeof(data)), -EAGAIN);
	close(ends[0]);
	close(ends[1]);
}

#define unit(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit(test_names),
		unit(test_name_of_the_signal),
		unit(test_exe_is_sanitized),
		unit(test_patterns),
		unit(test_formats_and_base),
		unit(test_keep),
		unit(test_dir_forms),
		unit(test_replaces),
		unit(test_umask_holds),
		unit(test_short_and_interrupted_writes),
		unit(test_no_directory),
		unit(test_read_only_directory),
		unit(test_drop_box),
		unit(test_write_fails),
		unit(test_write_returns_zero),
		unit(test_close_fails),
		unit(test_rename_fails),
		unit(test_killed_while_it_writes),
		unit(test_without_proc),
		unit(test_size_limit),
		unit(test_no_descriptors),
		unit(test_bad_descriptor),
		unit(test_broken_pipe),
		unit(test_would_block),
	};

	int failed;

	unnamed_files = true;
	failed = cmocka_run_group_tests_name("unnamed", tests, NULL, NULL);
	unnamed_files = false;
	return failed + cmocka_run_group_tests_name("named", tests, NULL, NULL);
}
