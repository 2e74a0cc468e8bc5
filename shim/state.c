/*
 * Lazy start. The constructor only remembers what a program may change later
 * (directory, environment); everything else happens at the first GPU memory
 * call, outside any driver callback.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf.h"
#include "shim/reporter.h"
#include "shim/state.h"
#include "shim/work.h"
#include "stats/log.h"

int gp_phase_now = GP_COLD;
bool gp_checking;

/* Written by the constructor, before any other thread; then constant. */
static char start_dir[PATH_MAX];
static char *conf_text;
static uint64_t start_time;

/* Written under start_lock before GP_RUNNING is published; then constant. */
static struct gp_conf settings;
static char note_text[GP_MAX_NOTES][256];
static const char *note_list[GP_MAX_NOTES];
static size_t num_notes;
static pid_t owner_pid;

/* Rank: taken first, before any other lock of gpupool. Not held by forks:
 * the child never takes it. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void remember(void)
{
	int saved = errno;
	const char *text = getenv("GPUPOOL_CONF");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	start_time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (!getcwd(start_dir, sizeof(start_dir)))
		start_dir[0] = '\0';
	if (text)
		conf_text = strdup(text);
	/* Work is watched from the first on, also where nothing is looked up. */
	gp_may_intercept();
	errno = saved;
}

/* Whether the configuration switches gpupool on: -1 not looked yet. Every
 * writer writes the same value. */
static int enabled_once = -1;

bool gp_may_intercept(void)
{
	int on = __atomic_load_n(&enabled_once, __ATOMIC_RELAXED);

	if (on < 0) {
		static struct gp_conf probe; /* too large for small stacks */
		static pthread_mutex_t probe_lock = PTHREAD_MUTEX_INITIALIZER;

		pthread_mutex_lock(&probe_lock);
		gp_conf_parse(conf_text, &probe, NULL, NULL);
		on = probe.enabled;
		/* From the first submission on; there may be some before the
		 * first memory call. */
		if (on && probe.backend == GP_BACKEND_NATIVE &&
		    probe.reuse == GP_CONF_REUSE_AUTO)
			gp_work_watch(true);
		pthread_mutex_unlock(&probe_lock);
		__atomic_store_n(&enabled_once, on, __ATOMIC_RELAXED);
	}
	return on && __atomic_load_n(&gp_phase_now, __ATOMIC_RELAXED) != GP_OFF;
}

static void take_note(void *arg, const char *sentence)
{
	(void)arg;
	gp_warn("%s", sentence);
	if (num_notes == GP_MAX_NOTES)
		return;
	snprintf(note_text[num_notes], sizeof(note_text[0]), "%s", sentence);
	note_list[num_notes] = note_text[num_notes];
	num_notes++;
}

/* The child of a fork cannot use CUDA (the driver answers "not initialised"):
 * it forwards everything and reports nothing. It may exec. */
static void after_fork_in_child(void)
{
	__atomic_store_n(&gp_phase_now, GP_OFF, __ATOMIC_RELAXED);
}

__attribute__((noinline, cold)) bool gp_start(void)
{
	int saved = errno;
	int phase;

	if (!gp_may_intercept()) {
		errno = saved;
		return false;
	}
	pthread_mutex_lock(&start_lock);
	phase = gp_phase_now;
	if (phase == GP_COLD) {
		gp_conf_parse(conf_text, &settings, take_note, NULL);
		gp_log_quiet(settings.quiet);
		gp_checking = settings.check;
		owner_pid = getpid();
		pthread_atfork(NULL, NULL, after_fork_in_child);
		gp_reporter_start();
		phase = GP_RUNNING;
		__atomic_store_n(&gp_phase_now, phase, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&start_lock);
	errno = saved;
	return phase == GP_RUNNING;
}

const struct gp_conf *gp_settings(void)
{
	return &settings;
}

size_t gp_setting_notes(const char *const **notes)
{
	*notes = note_list;
	return num_notes;
}

const char *gp_start_dir(void)
{
	return start_dir;
}

uint64_t gp_start_time(void)
{
	return start_time;
}

pid_t gp_owner_pid(void)
{
	return owner_pid;
}

/* By name, not by an inherited descriptor: programs close those, and open
 * files of their own under the same number. The file is there already. */
__attribute__((noinline, cold)) void gp_prove_interception(void)
{
	static int told;
	const char *path;
	char line[16];
	int n, fd;

	if (__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		return;
	path = getenv("GPUPOOL_PROOF");
	if (!path || *path != '/')
		return;

	int saved = errno;

	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0) {
		n = snprintf(line, sizeof(line), "%d\n", (int)getpid());
		if (write(fd, line, (size_t)n) != n)
			gp_warn("cannot tell gpupool run that calls arrive");
		close(fd);
	}
	errno = saved;
}
