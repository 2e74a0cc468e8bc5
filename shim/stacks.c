/*
 * Stacks: taken one at a time, under one lock.
 *
 * What takes them allocates nothing, the first time with `stacks:oom` excepted,
 * and waits for nobody but another thread at the same work. A signal handler that allocates amid it goes without.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <string.h>
#include <unwind.h>

#include "conf/conf.h"
#include "pool/pool.h"
#include "shim/hooks.h"
#include "shim/python.h"
#include "shim/state.h"
#include "shim/stacks.h"
#include "stats/clock.h"
#include "stats/log.h"
#include "stats/report.h"

/* With Python frames the machine's own are of interest down to where the
 * interpreter begins. */
#define NATIVE_UNDER_PYTHON 16u
/* Of ours, above the call of the program and where cudart calls us. */
#define OURS                12u

/* Rank: above the leaf locks of stats/. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool busy; /* this thread holds it, or is about to */

/* Constant after the start. */
static enum gp_conf_stacks mode;
static uint64_t mean;

__thread struct gp_sampler gp_stacks_sampler;

/* The linker's names for the ends of our own code. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

static bool is_ours(uintptr_t at)
{
	return at >= (uintptr_t)__ehdr_start && at < (uintptr_t)etext;
}

/* Of libgcc_s, which backtrace() loads; NULL: there is only backtrace().
 * Written once, `walk` last; atomic. */
static struct {
	_Unwind_Reason_Code (*walk)(_Unwind_Trace_Fn, void *);
	uintptr_t (*ip)(struct _Unwind_Context *);
} unwind;

/* Not under our lock, as it asks the dynamic linker. Threads that come at once
 * find the same. */
static void find_unwinder(void)
{
	static int looked; /* atomic */
	_Unwind_Reason_Code (*walk)(_Unwind_Trace_Fn, void *) = NULL;
	void *frames[4], *library;

	if (__atomic_load_n(&looked, __ATOMIC_ACQUIRE))
		return;
	backtrace(frames, 4); /* the first call loads it, and allocates */
	library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (library) {
		uintptr_t (*ip)(struct _Unwind_Context *) =
			(uintptr_t(*)(struct _Unwind_Context *))gp_dlsym(
				library, "_Unwind_GetIP");

		__atomic_store_n(&unwind.ip, ip, __ATOMIC_RELAXED);
		if (ip)
			walk = (_Unwind_Reason_Code(*)(
				_Unwind_Trace_Fn,
				void *))gp_dlsym(library, "_Unwind_Backtrace");
		dlclose(library); /* glibc keeps it */
	}
	__atomic_store_n(&unwind.walk, walk, __ATOMIC_RELEASE);
	__atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
}

void gp_stacks_start(void)
{
	int error = 0;

	mode = gp_settings()->stacks;
	if (mode == GP_CONF_STACKS_OFF)
		return;
	if (gp_settings()->guard_bytes)
		mode = GP_CONF_STACKS_ALL; /* an overrun is told with both */
	/* Most processes are never refused memory, and need no unwinder. */
	if (mode == GP_CONF_STACKS_OOM)
		return;
	find_unwinder();
	gp_python_find();
	error = gp_sites_start(gp_clock_ns(CLOCK_MONOTONIC));
	if (error) {
		gp_warn("no memory for call stacks (%s): stacks:oom instead",
			strerror(-error));
		mode = GP_CONF_STACKS_OOM;
		return;
	}
	mean = mode == GP_CONF_STACKS_ALL ? 0 : gp_settings()->sample_bytes;
}

/* ---- taking one -------------------------------------------------------------------- */

struct unwound {
	struct gp_stack *stack;
	unsigned most, ours;
};

/* One more frame of the machine. False: enough. */
static bool add(struct unwound *u, uintptr_t at)
{
	struct gp_stack *stack = u->stack;

	if (is_ours(at))
		return ++u->ours < OURS;
	if (stack->python && gp_python_has(at))
		return false;
	if (stack->native == u->most) {
		stack->native_cut = true;
		return false;
	}
	stack->frames[stack->python + stack->native++] = at;
	return true;
}

static _Unwind_Reason_Code each(struct _Unwind_Context *context, void *arg)
{
	uintptr_t at = (uintptr_t)unwind.ip(context);

	return at && add(arg, at) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* As backtrace() does it, but ends where there is nothing more to learn. */
static void native(struct gp_stack *stack)
{
	void *frames[OURS + GP_STACK_NATIVE + 1];
	struct unwound u = {
		stack, stack->python ? NATIVE_UNDER_PYTHON : GP_STACK_NATIVE,
		0};
	int n;

	stack->native = 0;
	stack->native_cut = false;
	if (unwind.walk) {
		unwind.walk(each, &u);
		return;
	}
	n = backtrace(frames, sizeof(frames) / sizeof(frames[0]));
	for (int i = 0; i < n && add(&u, (uintptr_t)frames[i]); i++)
		;
}

static void take(struct gp_stack *stack)
{
	gp_python_find();
	gp_python_walk(stack);
	native(stack);
}

static bool enter(void)
{
	if (busy)
		return false;
	busy = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	pthread_mutex_lock(&lock);
	return true;
}

static void leave(void)
{
	pthread_mutex_unlock(&lock);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	busy = false;
}

bool gp_stacks_take(struct gp_stack *stack)
{
	int saved = errno;
	bool ok;

	if (mode != GP_CONF_STACKS_OFF)
		find_unwinder();
	ok = mode != GP_CONF_STACKS_OFF && enter();
	if (ok) {
		take(stack);
		leave();
	}
	errno = saved;
	return ok;
}

/* ---- samples ------------------------------------------------------------------------- */

/* The thread's first time. */
static void begin(struct gp_sampler *sampler)
{
	gp_sampler_init(sampler, mean,
			gp_clock_ns(CLOCK_MONOTONIC) ^
				(uint64_t)(uintptr_t)sampler);
	if (mode == GP_CONF_STACKS_ALL)
		sampler->left = 0;
}

static bool sample(uint64_t owner, uint64_t address, struct gp_weight weight)
{
	static struct gp_stack stack; /* guarded by lock */
	bool entered;

	if (!enter())
		return false;
	take(&stack);
	entered = gp_sites_add(address, owner, &stack, weight,
			       gp_clock_ns(CLOCK_MONOTONIC));
	leave();
	return entered;
}

__attribute__((noinline, cold)) bool
gp_stacks_due(struct gp_pool *pool, uint64_t address, uint64_t bytes)
{
	struct gp_sampler *sampler = &gp_stacks_sampler;
	struct gp_weight weight = {(double)bytes, 1};
	uint64_t start = 0;
	bool entered;
	int saved;

	if (!sampler->random) {
		begin(sampler);
		if (!gp_sampler_due(sampler, bytes))
			return false;
	}
	if (mode < GP_CONF_STACKS_SAMPLE) {
		begin(sampler);
		return false;
	}
	saved = errno;
	if (mode == GP_CONF_STACKS_ALL) {
		sampler->left = 0;
	} else {
		/* Not the clock on the wall: a thread that lost its core
		 * amid a sample did not pay for that. */
		start = gp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
		weight = gp_sampler_take(sampler, bytes);
	}
	entered = sample((uintptr_t)pool, address, weight);
	if (entered && pool)
		gp_pool_watch(pool, address);
	if (mode == GP_CONF_STACKS_SAMPLE)
		gp_sampler_paid(sampler, mean,
				gp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start,
				gp_clock_ns(CLOCK_MONOTONIC));
	errno = saved;
	return entered;
}

void gp_stacks_report(struct gp_report *report)
{
	uint64_t now = gp_clock_ns(CLOCK_MONOTONIC);

	if (mode < GP_CONF_STACKS_SAMPLE)
		return;
	report->has_sites = true;
	report->sample_bytes = mean;
	gp_sites_get(&report->site_totals);
	report->num_sites = gp_sites_top(GP_SITES_BY_LIVE, report->sites,
					 GP_REPORT_SITES, now);
	report->num_peak_sites = gp_sites_top(
		GP_SITES_BY_PEAK, report->peak_sites, GP_REPORT_SITES, now);
	report->num_growing_sites =
		gp_sites_top(GP_SITES_BY_GROWTH, report->growing_sites,
			     GP_REPORT_SITES, now);
}
