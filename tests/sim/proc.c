/*
 * cuGetProcAddress: a base name and a CUDA version to an entry point.
 */
#include <string.h>

#include "tests/sim/bodies.h"
#include "tests/sim/sim.h"

/* Names asked for that are not an entry's own: cuda.h renames the call. */
static const struct {
	const char *name;
	int version;
	const char *entry;
} renamed[] = {
	{"cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"},
};

/* Does `exported` without its suffixes read `base`? A base with suffixes of
 * its own is nobody's. */
static bool has_base(const char *exported, const char *base)
{
	size_t n = strcspn(exported, "_");

	return strlen(base) == n && !memcmp(exported, base, n);
}

/* The newest that a program of `version` knows; the per-thread twin before
 * the other where it is wanted. `seen`: some version has the name. */
static struct sim_row *best(const char *base, int version, bool per_thread,
			    bool *seen)
{
	struct sim_row *found = NULL;

	for (size_t i = 0; i < sim_row_count; i++) {
		struct sim_row *row = sim_rows[i];

		if (row->twin == SIM_PER_THREAD && !per_thread)
			continue;
		if (!has_base(row->name, base))
			continue;
		*seen = true;
		if (row->version > version)
			continue;
		if (!found || row->version > found->version ||
		    (row->version == found->version &&
		     row->twin == SIM_PER_THREAD))
			found = row;
	}
	return found;
}

static CUresult look_up(const char *symbol, void **pfn, int version,
			cuuint64_t flags,
			CUdriverProcAddressQueryResult *status)
{
	const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				 CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	int driver = (int)sim.settings.version;
	struct sim_row *row;
	bool seen = false;

	if (!symbol || !pfn || flags & ~known || flags == known ||
	    version > driver)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof(renamed) / sizeof(*renamed); i++)
		if (!strcmp(symbol, renamed[i].name) &&
		    version >= renamed[i].version)
			symbol = renamed[i].entry;
	row = best(symbol, version, per_thread, &seen);
	*pfn = row ? row->door : NULL;
	if (status)
		*status = row    ? CU_GET_PROC_ADDRESS_SUCCESS
			  : seen ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				 : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return row ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult sim_proc_address(const char *symbol, void **pfn, int version,
			  cuuint64_t flags)
{
	return look_up(symbol, pfn, version, flags, NULL);
}

CUresult sim_proc_address_v2(const char *symbol, void **pfn, int version,
			     cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	return look_up(symbol, pfn, version, flags, status);
}

/* The real driver has private tables here; programs must do without. */
CUresult sim_export_table(const void **table, const CUuuid *id)
{
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
