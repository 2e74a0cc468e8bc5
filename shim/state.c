/*
 * Lazy start. The constructor only reads what a program may change later
 * (directory, environment, the files it names); everything else happens at the
 * first GPU memory call, outside any driver callback.
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
#include "shim/devices.h"
#include "shim/ipc.h"
#include "shim/ledger.h"
#include "shim/program.h"
#include "shim/reporter.h"
#include "shim/special.h"
#include "shim/stacks.h"
#include "shim/state.h"
#include "shim/tools.h"
#include "shim/wide.h"
#include "shim/work.h"
#include "stats/clock.h"
#include "stats/log.h"
#include "stats/output.h"
#include "stats/process_file.h"

int gp_phase_now = GP_COLD;

/* Written under load_lock before `loaded` is published; then constant, but for
 * settings.backend, which the starter may change before GP_RUNNING. */
static char start_dir[PATH_MAX];
static char xdg_runtime_dir[PATH_MAX]; /* "" : none that can be used */
static uint64_t start_time;
static struct gp_conf settings;
static bool wanted;  /* the settings switch gpupool on in this program */
static bool limited; /* and hold it to a limit */
static char note_text[GP_MAX_NOTES][1024];
static const char *note_list[GP_MAX_NOTES];
static size_t num_notes;
static int loaded;

/* Leaf. Loading is done before there are threads. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
/* The process one of whose threads starts gpupool now; 0: none. A lock that
 * knows its process: in the child of a fork nobody would ever let it go.
 * Synchronization: atomic. Rank: first, before any lock of gpupool. */
static pid_t starter;

/* Written by the starter before GP_RUNNING is published; then constant. */
static pid_t owner_pid;

/* Kept, not said: a process that never touches a GPU says nothing. */
static void take_note(void *arg, const char *sentence)
{
	(void)arg;
	if (num_notes == GP_MAX_NOTES)
		return;
	snprintf(note_text[num_notes], sizeof(note_text[0]), "%s", sentence);
	note_list[num_notes] = note_text[num_notes];
	num_notes++;
}

/* Rather nothing than more than was meant. */
static void refuse_memory(void)
{
	take_note(NULL, "no device memory for this program, because a limit, "
			"or settings that may hold one, cannot be read; "
			"on_bad_limit:continue lets it run without");
}

static bool limits(const struct gp_conf *conf)
{
	for (unsigned i = 0; i < GP_CONF_DEVICES; i++)
		if (gp_conf_limit(conf, i) != UINT64_MAX ||
		    gp_conf_fraction(conf, i) < 1.0)
			return true;
	return conf->limit_is_bad;
}

/* Once, and as early as anybody asks: other libraries' constructors may look
 * symbols up before ours has run. The program may change its directory and
 * environment later. */
static void load(void)
{
	const char *xdg;

	pthread_mutex_lock(&load_lock);
	if (!loaded) {
		start_time = gp_clock_ns(CLOCK_REALTIME);
		if (!getcwd(start_dir, sizeof(start_dir)))
			start_dir[0] = '\0';
		xdg = getenv("XDG_RUNTIME_DIR");
		if (xdg && strlen(xdg) < sizeof(xdg_runtime_dir))
			strcpy(xdg_runtime_dir, xdg);
		gp_conf_parse(getenv("GPUPOOL_CONF"), &settings, take_note,
			      NULL);
		wanted = settings.enabled && gp_program_is_meant(&settings);
		limited = limits(&settings);
		if (settings.limit_is_bad)
			refuse_memory();
		/* Work is watched from the first submission on, also where
		 * nothing is looked up; there may be some before the first
		 * memory call. */
		if (wanted && settings.backend == GP_BACKEND_NATIVE &&
		    settings.reuse == GP_CONF_REUSE_AUTO)
			gp_work_watch(true);
		__atomic_store_n(&loaded, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&load_lock);
}

__attribute__((constructor)) static void remember(void)
{
	gp_may_intercept();
}

bool gp_may_intercept(void)
{
	if (!__atomic_load_n(&loaded, __ATOMIC_ACQUIRE)) {
		int saved = errno;

		load();
		errno = saved;
	}
	return wanted &&
	       __atomic_load_n(&gp_phase_now, __ATOMIC_RELAXED) != GP_OFF;
}

bool gp_may_limit(void)
{
	return gp_may_intercept() && limited;
}

/* The child of a fork cannot use CUDA (the driver answers "not initialised"):
 * it forwards everything and reports nothing. It may exec. */
static void after_fork_in_child(void)
{
	__atomic_store_n(&gp_phase_now, GP_OFF, __ATOMIC_RELAXED);
	gp_special_set(GP_SPECIAL_PHASE, true);
	gp_work_watch(false);
	gp_ipc_forget();
	gp_ipc_forget_imports();
	gp_file_forget();
}

/* Work need not be watched then. */
static void pass_through(const char *tool)
{
	if (settings.backend == GP_BACKEND_PASSTHROUGH)
		return;
	settings.backend = GP_BACKEND_PASSTHROUGH;
	gp_work_watch(false);
	gp_warn("%s is here, so device memory comes from the driver and is "
		"only "
		"counted (backend:passthrough)",
		tool);
}

/* tool: what the program runs under, or NULL. */
static void configure(const char *tool)
{
	if (tool)
		pass_through(tool);
	for (size_t i = 0; i < num_notes; i++)
		gp_warn("%s", note_list[i]);
	gp_log_quiet(settings.quiet);
	gp_special_set(GP_SPECIAL_CHECK, settings.check);
	if (limited)
		gp_devices_have_caps();
	owner_pid = getpid();
	pthread_atfork(NULL, NULL, after_fork_in_child);
	gp_ledger_start(xdg_runtime_dir);
	gp_stacks_start();
	gp_reporter_start();
	__atomic_store_n(&gp_phase_now, GP_RUNNING, __ATOMIC_RELEASE);
	gp_special_set(GP_SPECIAL_PHASE, false);
}

/* True: the calling thread is the one to start. False: it is done, or will
 * never be. */
static bool begin_start(void)
{
	const struct timespec nap = {.tv_nsec = 100000};
	pid_t self = getpid();

	while (__atomic_load_n(&gp_phase_now, __ATOMIC_ACQUIRE) == GP_COLD) {
		pid_t other = 0;

		if (__atomic_compare_exchange_n(&starter, &other, self, false,
						__ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
			if (__atomic_load_n(&gp_phase_now, __ATOMIC_ACQUIRE) ==
			    GP_COLD)
				return true;
			__atomic_store_n(&starter, 0, __ATOMIC_RELEASE);
		} else if (other != self) {
			after_fork_in_child(); /* forked in the middle of it */
		} else {
			nanosleep(&nap, NULL);
		}
	}
	return false;
}

static void start(void *unused)
{
	/* Looked for by whoever comes, as it asks the dynamic linker: nobody
	 * may wait for us meanwhile. */
	const char *tool = gp_tool_here();

	(void)unused;
	if (begin_start()) {
		configure(tool);
		__atomic_store_n(&starter, 0, __ATOMIC_RELEASE);
	}
}

__attribute__((noinline, cold)) bool gp_start(void)
{
	int saved = errno;

	if (gp_may_intercept())
		gp_wide(start, NULL);
	errno = saved;
	return gp_running();
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
		if (gp_write_all(fd, line, (size_t)n))
			gp_warn("cannot tell gpupool run that calls arrive");
		close(fd);
	}
	errno = saved;
}
