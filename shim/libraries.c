/*
 * Which libraries are loaded; see libraries.h.
 *
 * The linker counts what it loads: that number is looked at, not the list. To
 * look at the right moment our dlopen (dlopen.S) tells of every call. It must
 * jump to the real one, so nobody says when that is done: for two seconds then
 * allocations and frees look, and the own thread does for ever.
 *
 * A look takes the linker's lock, and threads that allocate all the time would
 * stand in line for it. So each thread looks at once after a call of dlopen,
 * whoever made it, and then all of them together no more often than LOOK_TICKS
 * says. The linker counts a library before it relocates it and runs its
 * constructors: a look that comes so much later still comes before any work of
 * that library.
 *
 * No lock is held across the dynamic linker: see resolve.c.
 */
#define _GNU_SOURCE
#include "shim/libraries.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "pool/order.h"
#include "shim/context.h"
#include "shim/hooks.h"
#include "shim/special.h"
#include "shim/state.h"
#include "stats/log.h"
#include "stats/process_file.h"

#define STALE_TICKS 8 /* of gpupool's own thread */
#define NAME_MAX_   64

/* 20 to 100 us, by the machine's clock of 1 to 5 GHz or up to 1 GHz. */
#ifdef __x86_64__
#define LOOK_TICKS 100000u
#else
#define LOOK_TICKS 2500u
#endif

/* Something may have been opened a moment ago: so many ticks more. Atomic; the
 * bit GP_SPECIAL_LOADS follows it. */
static int stale;

/* How many objects the linker had loaded at the last look. Atomic. */
static unsigned long long seen;

/* Reasons to look so far, and when a thread last did. Atomic. */
static unsigned reasons;
static uint64_t looked;

/* Those after which this thread has looked. */
static __thread unsigned known;

static const struct {
	const char *begins;
	enum gp_library kind;
} table[] = {
	{"libnvoptix.so", GP_LIBRARY_AROUND},
	{"libnvcuvid.so", GP_LIBRARY_AROUND},
	{"libnvidia-encode.so", GP_LIBRARY_AROUND},
	{"libnvidia-opticalflow.so", GP_LIBRARY_AROUND},
	{"libibverbs.so", GP_LIBRARY_DIRECT},
	{"libgdrapi.so", GP_LIBRARY_DIRECT},
};

/* Guards writing; leaf. Entries below `n` (atomic) never change. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	size_t n;
	char text[GP_MAX_LIBRARIES][NAME_MAX_];
	const char *names[GP_MAX_LIBRARIES];
} found[2];

size_t gp_libraries_found(enum gp_library kind, const char *const **names)
{
	*names = found[kind].names;
	return __atomic_load_n(&found[kind].n, __ATOMIC_ACQUIRE);
}

static void be_stale(void)
{
	__atomic_fetch_add(&reasons, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&stale, STALE_TICKS, __ATOMIC_SEQ_CST);
	gp_special_set(GP_SPECIAL_LOADS, true);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void note(enum gp_library kind, const char *name)
{
	size_t n, i = 0;

	pthread_mutex_lock(&lock);
	n = found[kind].n;
	while (i < n && strncmp(found[kind].text[i], name, NAME_MAX_ - 1) != 0)
		i++;
	if (i == n && n < GP_MAX_LIBRARIES) {
		snprintf(found[kind].text[n], NAME_MAX_, "%s", name);
		found[kind].names[n] = found[kind].text[n];
		__atomic_store_n(&found[kind].n, n + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- opened with RTLD_DEEPBIND ------------------------------------------------ */

typedef void *dlopen_fn(const char *file, int mode);

/* glibc's dlopen; written once with the same value by whoever comes first. Read
 * by dlopen.S. */
__attribute__((visibility("hidden"))) dlopen_fn *gp_dlopen_real;

/* Called from dlopen.S, possibly before any constructor ran. */
dlopen_fn *gp_dlopen_init(void);
void gp_dlopen_note(const char *file, int mode);

/* Names of libraries that were opened so. Each is written by who took its number
 * and read once it is ready; the newest are kept. */
static char deep[GP_MAX_LIBRARIES][NAME_MAX_];
static unsigned num_deep;                /* atomic; counts on */
static int deep_ready[GP_MAX_LIBRARIES]; /* atomic */

dlopen_fn *gp_dlopen_init(void)
{
	void *real = dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.34");

	if (!real)
		real = dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.2.5");
	if (!real)
		real = dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.17");
	if (!real)
		__builtin_trap(); /* no glibc we know: cannot go on */
	__atomic_store_n(&gp_dlopen_real, (dlopen_fn *)real, __ATOMIC_RELEASE);
	return (dlopen_fn *)real;
}

void gp_dlopen_note(const char *file, int mode)
{
	unsigned i;

	if (mode & RTLD_DEEPBIND) {
		i = __atomic_fetch_add(&num_deep, 1, __ATOMIC_RELAXED) %
		    GP_MAX_LIBRARIES;
		__atomic_store_n(&deep_ready[i], 0, __ATOMIC_RELAXED);
		strncpy(deep[i], base_name(file), NAME_MAX_ - 1);
		__atomic_store_n(&deep_ready[i], 1, __ATOMIC_RELEASE);
	}
	be_stale();
}

static bool was_deep(const char *name)
{
	for (unsigned i = 0; i < GP_MAX_LIBRARIES; i++)
		if (__atomic_load_n(&deep_ready[i], __ATOMIC_ACQUIRE) &&
		    !strncmp(deep[i], name, NAME_MAX_ - 1))
			return true;
	return false;
}

/* ---- looking -------------------------------------------------------------------- */

static int count_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds;
	return 1;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = base_name(info->dlpi_name);

	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (!strncmp(name, table[i].begins, strlen(table[i].begins)))
			note(table[i].kind, name);
	if (*name && was_deep(name))
		note(GP_LIBRARY_AROUND, name);
	return 0;
}

void gp_libraries_tell(struct gp_context *context)
{
	const char *const *names;

	if (!context->pool)
		return;
	if (gp_libraries_found(GP_LIBRARY_AROUND, &names))
		gp_order_give_up(gp_pool_order(context->pool));
	if (gp_libraries_found(GP_LIBRARY_DIRECT, &names))
		gp_order_only_idle(gp_pool_order(context->pool));
}

static void tell(struct gp_context *context, void *arg)
{
	(void)arg;
	gp_libraries_tell(context);
}

static int asked_new; /* atomic */

__attribute__((noinline, cold)) void gp_libraries_look(void)
{
	unsigned long long loads = 0;

	dl_iterate_phdr(count_loads, &loads);
	if (loads == __atomic_load_n(&seen, __ATOMIC_RELAXED) &&
	    !__atomic_exchange_n(&asked_new, 0, __ATOMIC_ACQUIRE))
		return;
	dl_iterate_phdr(look_at, &loads);
	gp_context_each(tell, NULL);
	__atomic_store_n(&seen, loads, __ATOMIC_RELAXED);
}

__attribute__((noinline, cold)) void gp_libraries_look_again(void)
{
	unsigned now_known = __atomic_load_n(&reasons, __ATOMIC_ACQUIRE);
	uint64_t last = __atomic_load_n(&looked, __ATOMIC_RELAXED);
	uint64_t now = gp_ticks();

	if (now_known == known) {
		if (now - last < LOOK_TICKS ||
		    !__atomic_compare_exchange_n(&looked, &last, now, false,
						 __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			return;
	} else {
		known = now_known;
		__atomic_store_n(&looked, now, __ATOMIC_RELAXED);
	}
	gp_libraries_look();
}

void gp_libraries_tick(void)
{
	int left = __atomic_load_n(&stale, __ATOMIC_SEQ_CST);

	gp_libraries_look();
	/* One that came meanwhile starts anew. */
	if (!left ||
	    !__atomic_compare_exchange_n(&stale, &left, left - 1, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	if (left > 1)
		return;
	gp_special_set(GP_SPECIAL_LOADS, false);
	if (__atomic_load_n(&stale, __ATOMIC_SEQ_CST))
		gp_special_set(GP_SPECIAL_LOADS, true);
}

/* libcufile is part of many a program that never uses it. */
void gp_libraries_asked(const void *caller)
{
	Dl_info info;
	const char *name;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return;
	name = base_name(info.dli_fname);
	if (strncmp(name, "libcufile", 9) != 0)
		return;
	note(GP_LIBRARY_DIRECT, name);
	__atomic_store_n(&asked_new, 1, __ATOMIC_RELEASE);
	be_stale();
}
