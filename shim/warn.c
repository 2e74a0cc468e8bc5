/* warn_at; see warn.h. */
#include "shim/warn.h"

#include <pthread.h>

#include "conf/conf.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/state.h"
#include "stats/bell.h"

/* So much below the mark the next crossing is a new one: a program that takes
 * and frees at the mark would be told of all the time. */
#define BACK 0.05

/* Guards the states. A leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state {
	bool passed; /* and has not been well below since */
	bool wanted; /* nobody has told yet */
	uint64_t used, of;
} states[GP_CONF_DEVICES];

struct cached {
	CUdevice device;
	uint64_t bytes;
};

static void add_cached(struct gp_context *context, void *arg)
{
	struct cached *cached = arg;
	uint64_t reserved = gp_context_reserved(context);
	uint64_t live = gp_context_allocated(context);

	if (context->cuda.device == cached->device && reserved > live)
		cached->bytes += reserved - live;
}

static void settle(CUdevice device, uint64_t used, uint64_t of)
{
	const double mark = gp_settings()->warn_at;
	struct state *state = &states[device];
	bool ring = false;

	pthread_mutex_lock(&lock);
	if ((double)used >= mark * (double)of) {
		ring = !state->passed;
		state->wanted |= ring;
		state->passed = true;
		if (ring) {
			state->used = used;
			state->of = of;
		}
	} else if ((double)used < (mark - BACK) * (double)of) {
		state->passed = false;
	}
	pthread_mutex_unlock(&lock);
	if (ring)
		gp_bell_ring();
}

static void look(CUdevice device)
{
	const double mark = gp_settings()->warn_at;
	struct cached cached = {.device = device};
	struct gp_limit_stats limit;
	uint64_t of = gp_device_total(device);

	if (device < 0 || device >= GP_CONF_DEVICES)
		return;
	gp_limit_get(gp_device_limit(device), &limit);
	if (limit.cap < of)
		of = limit.cap;
	if (!of)
		return;
	/* Most of the time less is held, cached and all. */
	if ((double)limit.held >= mark * (double)of)
		gp_context_each(add_cached, &cached);
	settle(device,
	       limit.held > cached.bytes ? limit.held - cached.bytes : 0, of);
}

void gp_warn_grew(CUdevice device)
{
	if (__builtin_expect(gp_settings()->warn_at > 0, 0))
		look(device);
}

void gp_warn_tick(void)
{
	if (!(gp_settings()->warn_at > 0))
		return;
	for (int i = 0; i < GP_CONF_DEVICES; i++)
		if (gp_device_met(i))
			look(i);
}

bool gp_warn_next(struct gp_warning *warning)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < GP_CONF_DEVICES && !found; i++) {
		if (!states[i].wanted)
			continue;
		states[i].wanted = false;
		found = true;
		*warning = (struct gp_warning){i, states[i].used, states[i].of};
	}
	pthread_mutex_unlock(&lock);
	return found;
}
