/*
 * Finding the real driver, and standing in for it in what it hands out.
 *
 * No lock is held across the dynamic linker: a constructor that runs inside
 * dlopen may call CUDA, and would wait for us while we wait for it. Whoever
 * fills a table first publishes it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "shim/hooks.h"
#include "shim/libraries.h"
#include "shim/names.h"
#include "shim/state.h"

const struct gp_real *gp_real_table;

struct row {
	const char *name;
	void *hook;    /* NULL: only called */
	size_t offset; /* of the pointer in struct gp_real */
};

static const struct row rows[] = {
#define GP_HOOK(name) {#name, (void *)name, offsetof(struct gp_real, name)},
#define GP_NEED(name) {#name, NULL, offsetof(struct gp_real, name)},
#include "shim/hooks.def"
};

#define NUM_ROWS (sizeof(rows) / sizeof(*rows))

/* Entry points without a body of ours. */
static const char *const known[] = {
#define GP_WORK_KNOWN(name) #name,
#include "shim/work.def"
};

#define NUM_KNOWN   (sizeof(known) / sizeof(*known))
#define NUM_ENTRIES 2048

_Static_assert(NUM_ROWS + NUM_KNOWN < NUM_ENTRIES / 2,
	       "the table of functions is too full");

/* What is published: `real` is its first member. */
struct driver {
	struct gp_real real;
	const void *image; /* where libcuda is loaded; NULL: unknown */
	/* The driver's functions by address. */
	struct entry {
		void *function; /* NULL: empty */
		void *hook;     /* NULL: none */
	} entries[NUM_ENTRIES];
};

static CUresult answer_not_found(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult answer_not_initialized(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

static void **slot(struct gp_real *table, const struct row *row)
{
	return (void **)((char *)table + row->offset);
}

/* The entry of `function`, or the empty one where it would go. */
static struct entry *probe(struct driver *driver, const void *function)
{
	/* Functions are aligned to 16: the low bits say nothing. */
	size_t at = ((uintptr_t)function >> 4) * 0x9e3779b97f4a7c15u >> 32;

	for (;; at++) {
		struct entry *entry = &driver->entries[at % NUM_ENTRIES];

		if (!entry->function || entry->function == function)
			return entry;
	}
}

/* Two names may be one function: the hooked one counts. */
static void enter(struct driver *driver, void *function, void *hook)
{
	struct entry *entry = probe(driver, function);

	entry->function = function;
	if (!entry->hook)
		entry->hook = hook;
}

static void fill(struct driver *driver, void *handle)
{
	Dl_info info;

	for (size_t i = 0; i < NUM_ROWS; i++) {
		void *real = gp_dlsym(handle, rows[i].name);

		if (real) {
			enter(driver, real, rows[i].hook);
			if (!driver->image && dladdr(real, &info))
				driver->image = info.dli_fbase;
		}
		*slot(&driver->real, &rows[i]) =
			real ? real : (void *)answer_not_found;
	}
	for (size_t i = 0; i < NUM_KNOWN; i++) {
		void *real = gp_dlsym(handle, known[i]);

		if (real)
			enter(driver, real, NULL);
	}
	/* What this driver lacks is no error of the program, which may ask
	 * dlerror() next. */
	dlerror();
}

/* Takes over `handle` (NULL allowed). Returns what is published. */
static const struct gp_real *publish(void *handle)
{
	const struct gp_real *expected = NULL;
	struct driver *driver;

	if (!handle)
		return NULL;
	driver = calloc(1, sizeof(*driver));
	if (!driver)
		return NULL;
	fill(driver, handle);
	if (__atomic_compare_exchange_n(&gp_real_table, &expected,
					(const struct gp_real *)&driver->real,
					false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		gp_prove_interception();
		return &driver->real;
	}
	free(driver);
	return expected;
}

static int find_libcuda(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *base = strrchr(info->dlpi_name, '/');

	(void)size;
	base = base ? base + 1 : info->dlpi_name;
	if (strncmp(base, "libcuda.so", 10) != 0)
		return 0;
	*(const char **)arg = info->dlpi_name;
	return 1;
}

__attribute__((noinline, cold)) const struct gp_real *gp_real_find(void)
{
	static struct gp_real absent;
	static int absent_once;
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	const struct gp_real *table;

	if (!handle) {
		const char *path = NULL;

		dl_iterate_phdr(find_libcuda, (void *)&path);
		if (path)
			handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	}
	table = publish(handle);
	if (table)
		return table;
	/* Every writer writes the same values. */
	if (!__atomic_load_n(&absent_once, __ATOMIC_ACQUIRE)) {
		for (size_t i = 0; i < NUM_ROWS; i++)
			*slot(&absent, &rows[i]) =
				(void *)answer_not_initialized;
		__atomic_store_n(&absent_once, 1, __ATOMIC_RELEASE);
	}
	return &absent;
}

__attribute__((noinline, cold)) void gp_real_learn(void *function)
{
	Dl_info info, own;

	if (__atomic_load_n(&gp_real_table, __ATOMIC_ACQUIRE))
		return;
	if (!dladdr(function, &info) || !info.dli_fname)
		return;
	/* Looked up in the whole program, our own export is what comes first:
	 * no driver to learn from. */
	if (dladdr(&gp_real_table, &own) && own.dli_fbase == info.dli_fbase)
		return;
	publish(dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD));
}

/* The entry of `function`; NULL when the driver's known ones do not hold it. */
static const struct entry *find(void *function)
{
	struct driver *driver = (struct driver *)__atomic_load_n(
		&gp_real_table, __ATOMIC_ACQUIRE);
	const struct entry *entry;

	if (!driver || !function)
		return NULL;
	entry = probe(driver, function);
	return entry->function ? entry : NULL;
}

void *gp_hook_of(void *function)
{
	const struct entry *entry = find(function);

	return entry && entry->hook ? entry->hook : function;
}

/* The driver hands out a function that no known name has. Asked for an old
 * name it may answer with a new version: the function's own name counts. */
static __attribute__((noinline, cold)) void note_unknown(const char *symbol,
							 void *function)
{
	const struct driver *driver = (const struct driver *)gp_real();
	Dl_info info;

	if (!dladdr(function, &info) || info.dli_fbase != driver->image)
		return;
	if (info.dli_saddr == function && info.dli_sname)
		symbol = info.dli_sname;
	if (!gp_work_is_known(symbol))
		gp_work_note_unknown(symbol);
}

bool gp_is_driver_code(const void *address)
{
	Dl_info info;
	const char *base;

	if (!dladdr(address, &info) || !info.dli_fname)
		return false;
	base = strrchr(info.dli_fname, '/');
	base = base ? base + 1 : info.dli_fname;
	return !strncmp(base, "libcuda.so", 10) ||
	       !strncmp(base, "libcudadebugger.so", 18) ||
	       !strncmp(base, "libnvidia-", 10);
}

static void substitute(const char *symbol, void **function, const void *caller)
{
	const struct entry *entry;

	if (!function || !*function || !gp_may_intercept() ||
	    gp_is_driver_code(caller))
		return;
	entry = find(*function);
	if (!entry)
		note_unknown(symbol, *function);
	else if (entry->hook)
		*function = entry->hook;
	gp_libraries_asked(caller);
}

/* CUDA 11.3's form. Called before cuInit by everybody. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int version,
			  cuuint64_t flags)
{
	CUresult rc = gp_real()->cuGetProcAddress(symbol, pfn, version, flags);

	if (rc == CUDA_SUCCESS)
		substitute(symbol, pfn, __builtin_return_address(0));
	return rc;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
			     cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	CUresult rc = gp_real()->cuGetProcAddress_v2(symbol, pfn, version,
						     flags, status);

	if (rc == CUDA_SUCCESS)
		substitute(symbol, pfn, __builtin_return_address(0));
	return rc;
}
