/*
 * What driver calls cost: measured on an H200 (CUDA 13.0, driver 580), between
 * the measured sizes by a straight line, beyond them by the last line.
 */
#include "pool/replay/cost_driver.h"

#include <stddef.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

struct point {
	uint64_t bytes, ns;
};

#define MAX_POINTS 4

/* A call's points, in order of size; {0, ns} alone is a constant. */
static const struct point costs[GP_CALL_COUNT][MAX_POINTS] = {
	/* Reserving addresses was not measured: a handful of calls a run. */
	[GP_CALL_reserve] = {{0, 0}},
	[GP_CALL_unreserve] = {{0, 0}},
	[GP_CALL_create] = {{20 * MIB, 11000},
			    {256 * MIB, 16000},
			    {GIB, 18000}},
	[GP_CALL_release] = {{2 * MIB, 15000},
			     {20 * MIB, 43000},
			     {256 * MIB, 84000},
			     {GIB, 289000}},
	[GP_CALL_map] = {{0, 1600}},
	[GP_CALL_set_access] = {{20 * MIB, 27000},
				{256 * MIB, 37000},
				{GIB, 62000}},
	[GP_CALL_unmap] = {{20 * MIB, 17000}, {256 * MIB, 20000}, {GIB, 29000}},
	/* The pair cudaMalloc, cudaFree was measured: half to each. */
	[GP_CALL_segment_alloc] = {{2 * MIB, 40000},
				   {256 * MIB, 155000},
				   {GIB, 472000},
				   {8 * GIB, 3100000}},
	[GP_CALL_segment_free] = {{2 * MIB, 40000},
				  {256 * MIB, 155000},
				  {GIB, 472000},
				  {8 * GIB, 3100000}},
	/* cuCtxSynchronize with nothing to wait for. The wait for the work
	 * itself is the program's: plain cudaFree has it too. */
	[GP_CALL_sync] = {{0, 500}},
};

static const char *const names[] = {
#define X(name) #name,
	GP_DRIVER_CALLS(X)
#undef X
};

const char *gp_driver_call_name(enum gp_driver_call call)
{
	return names[call];
}

uint64_t gp_call_cost(enum gp_driver_call call, uint64_t bytes)
{
	const struct point *low = costs[call], *high = low;
	int i;

	if (bytes <= low->bytes)
		return low->ns;
	for (i = 1; i < MAX_POINTS && costs[call][i].bytes; i++) {
		if (high > low)
			low = high;
		high = &costs[call][i];
		if (bytes <= high->bytes)
			break;
	}
	if (high == low)
		return low->ns;
	return low->ns + (uint64_t)((double)(bytes - low->bytes) *
				    (double)(high->ns - low->ns) /
				    (double)(high->bytes - low->bytes));
}
