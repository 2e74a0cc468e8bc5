/* The thread that calls the driver; see keeper.h. */
#define _GNU_SOURCE
#include "shim/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "shim/async.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/ledger.h"
#include "shim/libraries.h"
#include "shim/reporter.h"
#include "shim/state.h"
#include "shim/warn.h"
#include "stats/bell.h"
#include "stats/clock.h"
#include "stats/kinds.h"
#include "stats/log.h"
#include "stats/process_file.h"
#include "stats/runtime_dir.h"

#define TICK_NS      250000000 /* housekeeping */
#define LEDGER_TICKS 4         /* of those for one of the ledger */
#define ASK_WAIT_NS  300000000 /* for the driver's answer */

/* Atomic. Once it is set it stays so. */
static bool have_thread;
static __thread bool is_keeper;

/* Leaf. Guards the two below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered;
static unsigned asked, done;

/* ---- asking the driver ------------------------------------------------------------- */

/* The driver's own pools say what they reserve only when asked. */
static void ask_pools(void)
{
	for (int i = 0; i < GP_CONF_DEVICES; i++)
		if (gp_device_met(i))
			gp_async_refresh(i);
}

void gp_keeper_ask_now(void)
{
	gp_context_ask();
	ask_pools();
}

bool gp_keeper_ask(void)
{
	struct timespec until;
	bool told = true;
	unsigned mine;

	if (!gp_reporter_may_call())
		return false;
	if (!__atomic_load_n(&have_thread, __ATOMIC_ACQUIRE) || is_keeper) {
		gp_keeper_ask_now();
		return true;
	}
	until = gp_timespec(gp_clock_ns(CLOCK_MONOTONIC) + ASK_WAIT_NS);
	pthread_mutex_lock(&lock);
	mine = ++asked;
	pthread_mutex_unlock(&lock);
	gp_bell_ring();
	pthread_mutex_lock(&lock);
	while ((int)(done - mine) < 0 && told)
		told = !pthread_cond_timedwait(&answered, &lock, &until);
	told = (int)(done - mine) >= 0;
	pthread_mutex_unlock(&lock);
	return told;
}

static void answer(void)
{
	unsigned mine;
	bool wanted;

	pthread_mutex_lock(&lock);
	mine = asked;
	wanted = mine != done;
	pthread_mutex_unlock(&lock);
	if (!wanted)
		return;
	if (gp_reporter_may_call())
		gp_keeper_ask_now();
	pthread_mutex_lock(&lock);
	done = mine;
	pthread_cond_broadcast(&answered);
	pthread_mutex_unlock(&lock);
}

/* ---- the thread -------------------------------------------------------------------- */

static void tick(unsigned ticks)
{
	struct gp_kind_stats async;

	gp_reporter_again();
	gp_libraries_tick();
	gp_context_tick();
	gp_warn_tick();
	gp_file_beat();
	if (ticks % LEDGER_TICKS == 0) {
		gp_kind_get(GP_KIND_async, &async);
		if (async.count.allocated)
			ask_pools();
		gp_ledger_update();
	}
	if (ticks % 8 == 7)
		gp_runtime_refresh();
}

static void *run(void *arg)
{
	uint32_t rung = 0, seen; /* the bell was not rung before */
	uint64_t next = gp_clock_ns(CLOCK_MONOTONIC) + TICK_NS;
	unsigned ticks = 0;

	pthread_setname_np(pthread_self(), arg);
	is_keeper = true;
	/* Not "while running": the thread may be here before gp_start() has
	 * said so. */
	while (__atomic_load_n(&gp_phase_now, __ATOMIC_ACQUIRE) != GP_OFF) {
		uint64_t now = gp_clock_ns(CLOCK_MONOTONIC);

		seen = gp_bell_seen();
		if (seen != rung) {
			rung = seen;
			answer();
			/* Not as the last thing: whoever asks sees the end. */
			if (!gp_reporter_ends())
				gp_ledger_serve();
		} else if (now < next) {
			gp_bell_wait(seen, next - now);
		} else {
			next = now + TICK_NS;
			if (gp_reporter_may_call())
				tick(ticks++);
		}
	}
	return arg;
}

bool gp_thread_start(void *(*body)(void *), const char *name, const char *what)
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
	rc = pthread_create(&thread, &attr, body, (void *)name);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc && what)
		gp_warn("no thread for %s (%s)", what, strerror(rc));
	return !rc;
}

bool gp_keeper_start(bool first)
{
	pthread_condattr_t attr;
	bool made;

	if (__atomic_load_n(&have_thread, __ATOMIC_RELAXED))
		return true;
	if (first) {
		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&answered, &attr);
		pthread_condattr_destroy(&attr);
	}
	made = gp_thread_start(
		run, "gpupool-keeper",
		first ? "housekeeping: until there is one, freed memory is "
			"kept, and other processes get no answer"
		      : NULL);
	__atomic_store_n(&have_thread, made, __ATOMIC_RELEASE);
	return made;
}
