/*
 * The own thread writes reports, so that no signal handler and no _exit inside
 * one ever takes a lock that the interrupted code holds. It never calls the
 * driver: that is the keeper's (keeper.h).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf.h"
#include "shim/hooks.h"
#include "shim/ipc.h"
#include "shim/keeper.h"
#include "shim/ledger.h"
#include "shim/names.h"
#include "shim/oom.h"
#include "shim/report_write.h"
#include "shim/reporter.h"
#include "shim/stacks.h"
#include "shim/state.h"
#include "shim/tracer.h"
#include "shim/warn.h"
#include "shim/wide.h"
#include "stats/bell.h"
#include "stats/clock.h"
#include "stats/log.h"

#define WAKE_NS           1000000000 /* to see that gpupool is off */
#define EXIT_WAIT_NS      3000000000 /* at exit, for the thread to write */
#define MAX_OOM_REPORTS   20
#define MAX_WARNINGS      20
#define OOM_REPORT_GAP_NS 1000000000u
#define RETRY_NS          250000000u /* at least, between attempts at threads */

bool gp_reporter_short;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER; /* leaf */
/* Written under `starting`, atomic. Once it is set it stays so. */
static bool have_thread;
/* What the report signal did before us; written at the start. */
static struct sigaction previous;

static sem_t exit_done; /* posted when the exit report is written */
/* Requests. Synchronization: atomic. */
static unsigned signals_wanted;
static int exit_wanted;
static int exit_begun;
/* The program is leaving main(): libcuda may be torn down under the thread, so
 * it calls the driver no more. Synchronization: atomic. */
static int leaving;

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

/* Reports that were asked for, by the signal or by `gpupool ctl`. Atomic. */
static unsigned written;

/* Asks the driver first; of one that hangs the report says so. */
static int write_asked(char *path, size_t size)
{
	struct gp_report_about about = {
		.reason = GP_REPORT_SIGNAL,
		.asked = gp_keeper_ask(),
		.sequence = __atomic_add_fetch(&written, 1, __ATOMIC_RELAXED),
	};

	about.silent = !about.asked && gp_reporter_may_call();
	return gp_write_report(&about, path, size);
}

/* At exit the driver may be gone already. */
static void write_last(void)
{
	const struct gp_report_about about = {.reason = GP_REPORT_EXIT};

	gp_write_report(&about, NULL, 0);
	gp_ledger_update();
}

static void write_warnings(void)
{
	static unsigned warnings; /* only this thread */
	struct gp_warning warning;

	while (gp_warn_next(&warning)) {
		struct gp_report_about about = {
			.reason = GP_REPORT_WARN,
			.warn_device = warning.device,
			.warn_used = warning.used,
			.warn_of = warning.of,
		};

		if (warnings == MAX_WARNINGS)
			continue;
		about.sequence = ++warnings;
		about.asked = gp_keeper_ask();
		gp_write_report(&about, NULL, 0);
	}
}

/* Signals that came before a report was begun are answered by it: a storm of
 * them does not make a storm of files. */
static void serve_requests(void)
{
	static unsigned served; /* only this thread */
	unsigned wanted = __atomic_load_n(&signals_wanted, __ATOMIC_RELAXED);

	if (served != wanted) {
		served = wanted;
		write_asked(NULL, 0);
	}
	write_warnings();
	if (__atomic_exchange_n(&exit_wanted, 0, __ATOMIC_ACQUIRE)) {
		write_last();
		sem_post(&exit_done);
	}
}

int gp_reporter_now(char *path, size_t size)
{
	return write_asked(path, size);
}

bool gp_reporter_may_call(void)
{
	return gp_running() && !__atomic_load_n(&leaving, __ATOMIC_ACQUIRE);
}

bool gp_reporter_ends(void)
{
	return __atomic_load_n(&exit_begun, __ATOMIC_ACQUIRE);
}

static void *run(void *arg)
{
	uint32_t rung = 0; /* the bell was not rung before */

	pthread_setname_np(pthread_self(), arg);
	/* Not "while running": the thread may be here before gp_start() has
	 * said so. */
	while (__atomic_load_n(&gp_phase_now, __ATOMIC_ACQUIRE) != GP_OFF) {
		uint32_t seen = gp_bell_seen();

		if (seen == rung) {
			gp_reporter_again();
			gp_bell_wait(seen, WAKE_NS);
		} else {
			rung = seen;
			serve_requests();
		}
	}
	return arg;
}

static void at_exit(void);

static void begin_leaving(void)
{
	__atomic_store_n(&leaving, 1, __ATOMIC_RELEASE);
}

/* At the start, or under `starting`. */
static void start_threads(bool first)
{
	bool writes = __atomic_load_n(&have_thread, __ATOMIC_RELAXED), keeps;

	if (!writes) {
		writes = gp_thread_start(run, "gpupool",
					 first ? "reports: until there is one, "
						 "none on the signal"
					       : NULL);
		__atomic_store_n(&have_thread, writes, __ATOMIC_RELEASE);
	}
	keeps = gp_keeper_start(first);
	__atomic_store_n(&gp_reporter_short, !writes || !keeps,
			 __ATOMIC_RELAXED);
}

__attribute__((noinline, cold)) void gp_reporter_retry(void)
{
	static uint64_t last; /* under `starting` */
	int saved = errno;
	uint64_t now = gp_clock_ns(CLOCK_MONOTONIC);

	if (!gp_reporter_may_call() || gp_reporter_ends() ||
	    pthread_mutex_trylock(&starting))
		return;
	if (now - last >= RETRY_NS) {
		last = now;
		start_threads(false);
	}
	pthread_mutex_unlock(&starting);
	errno = saved;
}

void gp_reporter_start(void)
{
	sem_init(&exit_done, 0, 0);
	gp_tracer_start();
	gp_report_names_start();
	/* Whoever asks for a report is not to end a program that has no thread
	 * for it yet. */
	chain_signal(gp_settings()->report_signal);
	start_threads(true);
	/* Registered after libcuda's own handler, hence called before it. The
	 * report itself comes later, when the program's handlers have freed
	 * what they free. */
	atexit(begin_leaving);
	if (at_quick_exit(at_exit))
		gp_warn("no report after quick_exit: no room for its handler");
}

struct refusal {
	uint64_t bytes;
	int device;
	const char *call;
	bool limit;
	unsigned sequence;
};

static void report_oom(void *arg)
{
	const struct refusal *refusal = arg;
	struct gp_report_about about = {.reason = GP_REPORT_OOM,
					.asked = true,
					.sequence = refusal->sequence};
	struct gp_stack stack;
	struct gp_oom oom;

	if (gp_stacks_take(&stack))
		about.stack = &stack;
	/* This thread has just called the driver: it does not hang. */
	gp_keeper_ask_now();
	gp_oom_look(&oom, refusal->bytes, refusal->device, refusal->call,
		    refusal->limit);
	about.oom = &oom;
	gp_write_report(&about, NULL, 0);
}

void gp_reporter_oom(uint64_t bytes, int device, const char *call, bool limit)
{
	/* Synchronization: atomic. Programs such as PyTorch recover from
	 * thousands of these; a person reads the first ones. */
	static unsigned reports;
	static uint64_t last;
	uint64_t now = gp_clock_ns(CLOCK_MONOTONIC);
	uint64_t before = __atomic_load_n(&last, __ATOMIC_RELAXED);
	struct refusal refusal = {bytes, device, call, limit, 0};

	if (before && now - before < OOM_REPORT_GAP_NS)
		return;
	if (!__atomic_compare_exchange_n(&last, &before, now, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	refusal.sequence = __atomic_add_fetch(&reports, 1, __ATOMIC_RELAXED);
	if (refusal.sequence <= MAX_OOM_REPORTS)
		gp_wide(report_oom, &refusal);
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
	if (__atomic_load_n(&have_thread, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&exit_wanted, 1, __ATOMIC_RELEASE);
		gp_bell_ring();
		until = gp_timespec(gp_clock_ns(CLOCK_REALTIME) + EXIT_WAIT_NS);
		while (sem_timedwait(&exit_done, &until) && errno == EINTR)
			;
	} else {
		write_last();
	}
	gp_ipc_end();
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
