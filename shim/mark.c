/* Sections and the contexts' pools; see mark.h. */
#include "shim/mark.h"

#include <pthread.h>
#include <stdint.h>

#include "shim/context.h"
#include "shim/state.h"
#include "stats/clock.h"

#define MAX_DEVICES 64

/* Rank: above the contexts' lock. A mark takes the peaks of all pools and
 * begins the section as one step. */
static pthread_mutex_t mark_lock = PTHREAD_MUTEX_INITIALIZER;

struct gathering {
	bool begin;
	struct gp_section_peak peaks[MAX_DEVICES];
};

static void take(struct gp_context *context, void *arg)
{
	struct gathering *gathering = arg;
	struct gp_section_peak peak;
	int device = context->cuda.device;

	gp_context_section(context, gathering->begin, &peak);
	if (device < 0 || device >= MAX_DEVICES)
		return;
	gathering->peaks[device].allocated += peak.allocated;
	gathering->peaks[device].reserved += peak.reserved;
}

/* What the pools had goes to the section that the program is in. */
static void gather(bool begin)
{
	struct gathering gathering = {.begin = begin};

	if (!gp_running())
		return;
	gp_context_each(take, &gathering);
	for (int i = 0; i < MAX_DEVICES; i++)
		if (gathering.peaks[i].reserved)
			gp_sections_note(i, gathering.peaks[i].allocated,
					 gathering.peaks[i].reserved);
}

int gp_mark(const char *name)
{
	int rc;

	pthread_mutex_lock(&mark_lock);
	gather(true);
	rc = gp_sections_enter(name, gp_clock_ns(CLOCK_MONOTONIC));
	pthread_mutex_unlock(&mark_lock);
	return rc;
}

size_t gp_mark_sections(struct gp_section_row *rows)
{
	size_t n;

	pthread_mutex_lock(&mark_lock);
	gather(false);
	n = gp_sections_get(rows, gp_clock_ns(CLOCK_MONOTONIC));
	pthread_mutex_unlock(&mark_lock);
	return n;
}
