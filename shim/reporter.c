/*
 * The own thread writes reports, so that no signal handler and no _exit inside
 * one ever takes a lock that the interrupted code holds. It also lets the
 * pools do their housekeeping.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf.h"
#include "shim/async.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/hooks.h"
#include "shim/ledger.h"
#include "shim/libraries.h"
#include "shim/mark.h"
#include "shim/names.h"
#include "shim/reporter.h"
#include "shim/stacks.h"
#include "shim/state.h"
#include "shim/tracer.h"
#include "stats/bell.h"
#include "stats/format.h"
#include "stats/log.h"
#include "stats/report.h"

#define TICK_NS           250000000  /* housekeeping */
#define LEDGER_TICKS      4          /* of those for one of the ledger */
#define EXIT_WAIT_NS      3000000000 /* at exit, for the thread to write */
#define MAX_OOM_REPORTS   20
#define OOM_REPORT_GAP_NS 1000000000u

/* Set once at start, then constant. */
static bool have_thread;
static struct sigaction previous; /* what the report signal did before us */

static sem_t exit_done; /* posted when the exit report is written */
/* Requests. Synchronization: atomic. */
static unsigned signals_wanted;
static int exit_wanted;
static int exit_begun;
/* The program is leaving main(): libcuda may be torn down under the thread, so
 * it calls the driver no more. Synchronization: atomic. */
static int leaving;

/* Rank: below the start, above the contexts' lock. Guards the statics of
 * write_report(). Never taken by a signal handler. */
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- writing --------------------------------------------------------------- */

#define MAX_SETTINGS 64

static size_t fill_settings(struct gp_report_setting *settings)
{
	size_t n = gp_conf_count();

	if (n > MAX_SETTINGS)
		n = MAX_SETTINGS;
	for (size_t i = 0; i < n; i++) {
		settings[i].key = gp_conf_option(i)->key;
		settings[i].is_default = gp_conf_is_default(gp_settings(), i);
		gp_conf_plain(gp_settings(), i, settings[i].value,
			      sizeof(settings[i].value));
	}
	return n;
}

/* "WHAT a, b", for `n` names. */
static const char *list(char *text, size_t size, const char *what,
			const char *const *names, size_t n)
{
	size_t length = (size_t)snprintf(text, size, "%s", what);

	for (size_t i = 0; i < n && length < size; i++)
		length += (size_t)snprintf(text + length, size - length,
					   "%s %s", i ? "," : "", names[i]);
	return text;
}

/* What the settings gave rise to, and work that goes unseen. Caller holds
 * report_lock. */
static void fill_notes(struct gp_report *report)
{
	static const char *notes[GP_MAX_NOTES + 3];
	static char unknown[128 + GP_MAX_UNKNOWN * 64];
	static char around[128 + GP_MAX_LIBRARIES * 64];
	static char direct[128 + GP_MAX_LIBRARIES * 64];
	const char *const *names;
	size_t n = gp_setting_notes(&names), found;

	memcpy(notes, names, n * sizeof(*notes));
	found = gp_work_unknown(&names);
	if (found)
		notes[n++] = list(unknown, sizeof(unknown),
				  "driver entry points newer than this "
				  "gpupool, which does not see the work they "
				  "submit:",
				  names, found);
	found = gp_libraries_found(GP_LIBRARY_AROUND, &names);
	if (found)
		notes[n++] = list(around, sizeof(around),
				  "libraries that reach the driver around "
				  "gpupool, so that frees wait on the host:",
				  names, found);
	found = gp_libraries_found(GP_LIBRARY_DIRECT, &names);
	if (found)
		notes[n++] = list(direct, sizeof(direct),
				  "libraries that let memory be reached "
				  "without a stream, so that it is used again "
				  "only once it is idle:",
				  names, found);
	report->notes = notes;
	report->num_notes = n;
}

/* What counts against the limits. The driver's own pools say what they reserve
 * only when they are asked. */
static void fill_devices(struct gp_report *report, bool ask_driver)
{
	report->num_devices =
		gp_devices_report(report->devices, GP_REPORT_MAX_DEVICES);
	for (size_t i = 0; ask_driver && i < report->num_devices; i++)
		gp_async_refresh(report->devices[i].device);
	if (ask_driver)
		report->num_devices = gp_devices_report(report->devices,
							GP_REPORT_MAX_DEVICES);
	gp_limit_get(gp_host_limit(), &report->host);
}

/* The figures of this moment. Caller holds report_lock. */
static void fill_report(struct gp_report *report, enum gp_report_reason reason)
{
	static struct gp_report_setting settings[MAX_SETTINGS];
	ssize_t n;

	memset(report, 0, offsetof(struct gp_report, pools));
	report->reason = reason;
	report->pid = gp_owner_pid();
	n = readlink("/proc/self/exe", report->exe, sizeof(report->exe) - 1);
	if (n < 0)
		strcpy(report->exe, "unknown");
	report->start_unix_ns = gp_start_time();
	report->now_unix_ns = clock_ns(CLOCK_REALTIME);
	/* At exit the driver may be gone already. */
	report->num_pools = gp_context_report(
		report->pools, GP_REPORT_MAX_POOLS, reason != GP_REPORT_EXIT);
	for (size_t i = 0; i < report->num_pools; i++) {
		const struct gp_pool_stats *stats = &report->pools[i].stats;

		report->calls_saved +=
			stats->num_alloc_calls + stats->num_free_calls;
		report->driver_calls += stats->num_driver_calls;
	}
	for (int i = 0; i < GP_KIND_COUNT; i++)
		gp_kind_get((enum gp_kind)i, &report->kinds[i]);
	gp_stacks_report(report);
	report->num_sections = gp_mark_sections(report->sections);
	fill_devices(report, reason != GP_REPORT_EXIT);
	report->num_settings = fill_settings(settings);
	report->settings = settings;
	fill_notes(report);
}

/* The line at exit. */
static void tell_summary(const struct gp_report *report, const char *path)
{
	uint64_t allocated = 0, reserved = 0, outside = 0, calls = 0;
	char a[32], r[32], o[32], c[32];

	for (size_t i = 0; i < report->num_pools; i++) {
		const struct gp_pool_stats *stats = &report->pools[i].stats;

		allocated += stats->most_allocated_bytes;
		reserved += stats->most_reserved_bytes;
		calls += stats->allocation.allocated + stats->allocation.freed;
	}
	for (int i = 0; i < GP_KIND_COUNT; i++)
		outside += report->kinds[i].bytes.peak;
	gp_format_bytes(allocated, a, sizeof(a));
	gp_format_bytes(reserved, r, sizeof(r));
	gp_format_bytes(outside, o, sizeof(o));
	gp_format_count(calls, c, sizeof(c));
	if (calls)
		gp_note_last("peak %s allocated, %s reserved; %s calls went to "
			     "the pool; report %s",
			     a, r, c, path);
	else
		gp_note_last("no pooled memory, peak %s outside the pool; "
			     "report %s",
			     o, path);
}

static void tell_written(const struct gp_report *report, int rc,
			 const char *path)
{
	if (rc)
		gp_warn("no report: cannot write %s: %s (report_dir sets the "
			"directory)",
			path, strerror(-rc));
	else if (report->reason == GP_REPORT_EXIT)
		tell_summary(report, path);
	else
		gp_note("report %s", path);
}

/* Where reports go: the program may have changed its directory since. */
static void report_dir(char *dir, size_t size)
{
	const char *wanted = gp_settings()->report_dir;

	if (*wanted == '/')
		snprintf(dir, size, "%s", wanted);
	else
		snprintf(dir, size, "%s%s%s", gp_start_dir(),
			 *wanted ? "/" : "", wanted);
}

/* Of the last report. Guarded by report_lock. */
static char last_path[2 * PATH_MAX + 64];
static int last_rc;

/* The request that a report is about. */
struct oom {
	uint64_t bytes;
	int device;
	const char *call;
	bool limit;
	const struct gp_stack
		*stack; /* of the calling thread; NULL: not kept */
};

static void write_report(enum gp_report_reason reason, unsigned sequence,
			 const struct oom *oom)
{
	static struct gp_report report; /* too large for a thread's stack */
	static char dir[2 * PATH_MAX];
	int saved = errno;
	int rc;

	pthread_mutex_lock(&report_lock);
	fill_report(&report, reason);
	report.sequence = sequence;
	if (oom) {
		report.oom_bytes = oom->bytes;
		report.oom_device = oom->device;
		report.oom_by_limit = oom->limit;
		report.has_oom_stack = oom->stack != NULL;
		if (oom->stack)
			report.oom_stack = *oom->stack;
		strncpy(report.oom_call, oom->call,
			sizeof(report.oom_call) - 1);
	}
	report_dir(dir, sizeof(dir));
	rc = gp_report_write(&report, dir, last_path, sizeof(last_path));
	last_rc = rc;
	tell_written(&report, rc, last_path);
	pthread_mutex_unlock(&report_lock);
	errno = saved;
}

/* ---- the signal -------------------------------------------------------------- */

static void on_signal(int signal, siginfo_t *info, void *context)
{
	int saved = errno;

	/* A vfork child shares our memory; its signals are its own affair. */
	if (gp_running() && getpid() == gp_owner_pid()) {
		__atomic_add_fetch(&signals_wanted, 1, __ATOMIC_RELAXED);
		gp_bell_ring();
	}
	errno = saved;
	if (previous.sa_flags & SA_SIGINFO)
		previous.sa_sigaction(signal, info, context);
	else if (previous.sa_handler != SIG_DFL &&
		 previous.sa_handler != SIG_IGN)
		previous.sa_handler(signal);
}

/*
 * A handler of the program is chained; an ignored signal stays ignored, or the
 * processes that this one starts would be killed by it.
 */
static void chain_signal(int signal)
{
	struct sigaction action;

	if (!signal || sigaction(signal, NULL, &previous))
		return;
	if (!(previous.sa_flags & SA_SIGINFO) && previous.sa_handler == SIG_IGN)
		return;
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = on_signal;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	if (!(previous.sa_flags & SA_SIGINFO) &&
	    previous.sa_handler == SIG_DFL) {
		action.sa_flags |= SA_RESTART;
		sigemptyset(&action.sa_mask);
	} else { /* as the program wanted it */
		action.sa_flags |= previous.sa_flags &
				   (SA_RESTART | SA_NODEFER | SA_RESETHAND);
		action.sa_mask = previous.sa_mask;
	}
	sigaction(signal, &action, NULL);
}

/* ---- the thread -------------------------------------------------------------- */

/* Only this thread. */
static unsigned served, on_request;

static void serve_requests(void)
{
	while (served != __atomic_load_n(&signals_wanted, __ATOMIC_RELAXED)) {
		served++;
		write_report(GP_REPORT_SIGNAL, served + on_request, NULL);
	}
	if (__atomic_exchange_n(&exit_wanted, 0, __ATOMIC_ACQUIRE)) {
		write_report(GP_REPORT_EXIT, 0, NULL);
		gp_ledger_update(false);
		sem_post(&exit_done);
	} else {
		gp_ledger_serve();
	}
}

int gp_reporter_now(char *path, size_t size)
{
	int rc;

	on_request++;
	write_report(GP_REPORT_SIGNAL, served + on_request, NULL);
	pthread_mutex_lock(&report_lock);
	snprintf(path, size, "%s", last_path);
	rc = last_rc;
	pthread_mutex_unlock(&report_lock);
	return rc;
}

bool gp_reporter_may_call(void)
{
	return gp_running() && !__atomic_load_n(&leaving, __ATOMIC_ACQUIRE);
}

static struct timespec realtime_in(uint64_t ns)
{
	uint64_t when = clock_ns(CLOCK_REALTIME) + ns;

	return (struct timespec){.tv_sec = (time_t)(when / 1000000000u),
				 .tv_nsec = (long)(when % 1000000000u)};
}

static void *run(void *arg)
{
	uint32_t rung = 0, seen; /* the bell was not rung before */
	uint64_t next = clock_ns(CLOCK_MONOTONIC) + TICK_NS;
	unsigned ticks = 0;

	/* Not "while running": the thread may be here before gp_start() has
	 * said so. */
	while (__atomic_load_n(&gp_phase_now, __ATOMIC_ACQUIRE) != GP_OFF) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);

		seen = gp_bell_seen();
		if (seen != rung) {
			rung = seen;
			serve_requests();
			continue;
		}
		if (now < next) {
			gp_bell_wait(seen, next - now);
			continue;
		}
		next = now + TICK_NS;
		if (!gp_reporter_may_call())
			continue;
		gp_libraries_tick();
		gp_context_tick();
		gp_file_beat();
		if (ticks % LEDGER_TICKS == 0)
			gp_ledger_update(false);
		if (++ticks % 8 == 0)
			gp_runtime_refresh();
	}
	return arg;
}

static bool start_thread(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 512u << 10);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc) {
		gp_warn("no thread for reports (%s): none on the signal, no "
			"housekeeping",
			strerror(rc));
		return false;
	}
	pthread_setname_np(thread, "gpupool");
	return true;
}

static void at_exit(void);

static void begin_leaving(void)
{
	__atomic_store_n(&leaving, 1, __ATOMIC_RELEASE);
}

void gp_reporter_start(void)
{
	sem_init(&exit_done, 0, 0);
	gp_tracer_start();
	have_thread = start_thread();
	if (have_thread)
		chain_signal(gp_settings()->report_signal);
	/* Registered after libcuda's own handler, hence called before it. The
	 * report itself comes later, when the program's handlers have freed
	 * what they free. */
	atexit(begin_leaving);
	if (at_quick_exit(at_exit))
		gp_warn("no report after quick_exit: no room for its handler");
}

void gp_reporter_oom(uint64_t bytes, int device, const char *call, bool limit)
{
	/* Synchronization: atomic. Programs such as PyTorch recover from
	 * thousands of these; a person reads the first ones. */
	static unsigned reports;
	static uint64_t last;
	struct oom oom = {bytes, device, call, limit, NULL};
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t before = __atomic_load_n(&last, __ATOMIC_RELAXED);
	struct gp_stack stack;
	unsigned n;

	if (before && now - before < OOM_REPORT_GAP_NS)
		return;
	if (!__atomic_compare_exchange_n(&last, &before, now, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	n = __atomic_add_fetch(&reports, 1, __ATOMIC_RELAXED);
	if (n > MAX_OOM_REPORTS)
		return;
	if (gp_stacks_take(&stack))
		oom.stack = &stack;
	write_report(GP_REPORT_OOM, n, &oom);
}

/* ---- the end --------------------------------------------------------------------- */

static void at_exit(void)
{
	int saved = errno;
	struct timespec until;

	/* Not in a child that shares our memory (vfork), and once. */
	if (!gp_running() || getpid() != gp_owner_pid() ||
	    __atomic_exchange_n(&exit_begun, 1, __ATOMIC_ACQ_REL))
		return;
	gp_tracer_flush();
	if (have_thread) {
		__atomic_store_n(&exit_wanted, 1, __ATOMIC_RELEASE);
		gp_bell_ring();
		until = realtime_in(EXIT_WAIT_NS);
		while (sem_timedwait(&exit_done, &until) && errno == EINTR)
			;
	} else {
		write_report(GP_REPORT_EXIT, 0, NULL);
		gp_ledger_update(false);
	}
	gp_file_end();
	errno = saved;
}

__attribute__((destructor)) static void at_unload(void)
{
	at_exit();
}

typedef void exit_fn(int);

/* The next _exit in line may be a sanitizer's. */
static _Noreturn void real_exit(const char *name, int status)
{
	exit_fn *next = (exit_fn *)gp_dlsym(RTLD_NEXT, name);

	if (next)
		next(status);
	for (;;)
		syscall(SYS_exit_group, status);
}

__attribute__((visibility("default"))) void _exit(int status)
{
	at_exit();
	real_exit("_exit", status);
}

__attribute__((visibility("default"))) void _Exit(int status)
{
	at_exit();
	real_exit("_Exit", status);
}
