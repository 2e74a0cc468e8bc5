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

/* `handle` NULL: no driver in this process, everything answers so. */
static void fill(struct gp_real *table, void *handle)
{
	for (size_t i = 0; i < NUM_ROWS; i++) {
		void *real = handle ? gp_dlsym(handle, rows[i].name)
				    : (void *)answer_not_initialized;

		*slot(table, &rows[i]) = real ? real : (void *)answer_not_found;
	}
}

/* Takes over `handle` (NULL allowed). Returns what is published. */
static const struct gp_real *publish(void *handle)
{
	const struct gp_real *expected = NULL;
	struct gp_real *table;

	if (!handle)
		return NULL;
	table = malloc(sizeof(*table));
	if (!table)
		return NULL;
	fill(table, handle);
	if (__atomic_compare_exchange_n(&gp_real_table, &expected,
					(const struct gp_real *)table, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		gp_prove_interception();
		return table;
	}
	free(table);
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
		fill(&absent, NULL);
		__atomic_store_n(&absent_once, 1, __ATOMIC_RELEASE);
	}
	return &absent;
}

__attribute__((noinline, cold)) void gp_real_learn(void *function)
{
	Dl_info info;

	if (__atomic_load_n(&gp_real_table, __ATOMIC_ACQUIRE))
		return;
	if (!dladdr(function, &info) || !info.dli_fname)
		return;
	publish(dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD));
}

void *gp_hook_of(void *function)
{
	const struct gp_real *real =
		__atomic_load_n(&gp_real_table, __ATOMIC_ACQUIRE);

	if (!real)
		return function;
	for (size_t i = 0; i < NUM_ROWS; i++)
		if (rows[i].hook &&
		    *slot((struct gp_real *)real, &rows[i]) == function)
			return rows[i].hook;
	return function;
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

static void substitute(void **function, const void *caller)
{
	if (function && *function && gp_may_intercept() &&
	    !gp_is_driver_code(caller))
		*function = gp_hook_of(*function);
}

/* CUDA 11.3's form. Called before cuInit by everybody. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int version,
			  cuuint64_t flags)
{
	CUresult rc = gp_real()->cuGetProcAddress(symbol, pfn, version, flags);

	if (rc == CUDA_SUCCESS)
		substitute(pfn, __builtin_return_address(0));
	return rc;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
			     cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	CUresult rc = gp_real()->cuGetProcAddress_v2(symbol, pfn, version,
						     flags, status);

	if (rc == CUDA_SUCCESS)
		substitute(pfn, __builtin_return_address(0));
	return rc;
}
