/* Overruns that were found; see overruns.h. */
#include "shim/overruns.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "pool/pool.h"
#include "shim/stacks.h"
#include "stats/log.h"
#include "stats/report.h"

/* Of a stack on stderr; the report has all. */
#define SHOWN 8u

/* Leaf. Guards the two below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gp_report_overrun kept[GP_REPORT_OVERRUNS];
static uint64_t found;

static void tell_stack(const char *what, const struct gp_stack *stack)
{
	unsigned n = (unsigned)stack->python + stack->native;
	char text[1024];

	if (!n)
		gp_warn("  %s: no stack (stacks is off, or there was no room)",
			what);
	for (unsigned i = 0; i < n && i < SHOWN; i++)
		gp_warn("  %s %s", what,
			gp_frame_words(stack->frames[i], text, sizeof(text)));
}

static void tell(const struct gp_report_overrun *o)
{
	char words[160];

	gp_warn("%s", gp_overrun_words(o, words, sizeof(words)));
	tell_stack("allocated in", &o->allocated);
	tell_stack("freed in", &o->freed);
}

void gp_overrun_found(const struct gp_damage *damage)
{
	struct gp_report_overrun o = {
		.device = (int)damage->device,
		.address = damage->va,
		.bytes = damage->bytes,
		.wrong = damage->wrong,
		.first = damage->first,
	};

	gp_sites_stack(damage->va, &o.allocated);
	gp_stacks_take(&o.freed);
	pthread_mutex_lock(&lock);
	if (found < GP_REPORT_OVERRUNS)
		kept[found] = o;
	found++;
	pthread_mutex_unlock(&lock);
	tell(&o);
}

void gp_overruns_report(struct gp_report *report)
{
	pthread_mutex_lock(&lock);
	report->num_overruns = found;
	memcpy(report->overruns, kept, sizeof(kept));
	pthread_mutex_unlock(&lock);
}
