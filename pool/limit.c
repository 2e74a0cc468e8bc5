/* The ledger; see limit.h. */
#include "pool/limit.h"

#include <errno.h>
#include <time.h>

/* So long is waited for a driver call of another thread. */
#define WAIT_S 10

void gp_limit_init(struct gp_limit *limit, uint64_t cap)
{
	pthread_condattr_t attr;

	*limit = (struct gp_limit){.cap = cap};
	pthread_mutex_init(&limit->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&limit->settled, &attr);
	pthread_condattr_destroy(&attr);
}

static uint64_t whole(uint64_t bytes)
{
	return (bytes + GP_LIMIT_PIECE - 1) / GP_LIMIT_PIECE * GP_LIMIT_PIECE;
}

/* What the charge adds; for a small one only where it begins a new piece. */
static uint64_t added(const struct gp_charge *charge)
{
	uint64_t small;

	if (!charge->small)
		return charge->bytes;
	small = charge->small->bytes[charge->part];
	return whole(small + charge->bytes) - whole(small);
}

static uint64_t room(const struct gp_limit *limit)
{
	return limit->held < limit->cap ? limit->cap - limit->held : 0;
}

static void add(struct gp_limit *limit, enum gp_limit_part part, uint64_t bytes)
{
	limit->part[part] += bytes;
	limit->held += bytes;
}

static void take_off(struct gp_limit *limit, enum gp_limit_part part,
		     uint64_t bytes)
{
	limit->part[part] -= bytes;
	limit->held -= bytes;
}

static void undo(struct gp_limit *limit, const struct gp_charge *charge)
{
	uint64_t bytes = charge->bytes;

	if (charge->small) {
		uint64_t *small = &charge->small->bytes[charge->part];

		bytes = whole(*small) - whole(*small - charge->bytes);
		*small -= charge->bytes;
	}
	take_off(limit, charge->part, bytes);
}

int gp_limit_reserve(struct gp_limit *limit, const struct gp_charge *charge,
		     uint64_t *outcomes)
{
	uint64_t bytes;
	int rc = 0;

	pthread_mutex_lock(&limit->lock);
	*outcomes = limit->outcomes;
	bytes = added(charge);
	if (bytes > room(limit)) {
		rc = -ENOMEM;
	} else {
		add(limit, charge->part, bytes);
		if (charge->small)
			charge->small->bytes[charge->part] += charge->bytes;
		limit->pending++;
	}
	pthread_mutex_unlock(&limit->lock);
	return rc;
}

/* What was reserved and then refused by the driver was never held. */
static void observe(struct gp_limit *limit)
{
	if (limit->held > limit->peak)
		limit->peak = limit->held;
}

static void outcome(struct gp_limit *limit)
{
	observe(limit);
	limit->pending--;
	limit->outcomes++;
	pthread_cond_broadcast(&limit->settled);
}

void gp_limit_keep(struct gp_limit *limit)
{
	pthread_mutex_lock(&limit->lock);
	outcome(limit);
	pthread_mutex_unlock(&limit->lock);
}

void gp_limit_cancel(struct gp_limit *limit, const struct gp_charge *charge)
{
	pthread_mutex_lock(&limit->lock);
	undo(limit, charge);
	outcome(limit);
	pthread_mutex_unlock(&limit->lock);
}

void gp_limit_measured(struct gp_limit *limit, const struct gp_charge *charge,
		       uint64_t from, uint64_t to)
{
	pthread_mutex_lock(&limit->lock);
	undo(limit, charge);
	if (to > from)
		add(limit, charge->part, to - from);
	else
		take_off(limit, charge->part, from - to);
	outcome(limit);
	pthread_mutex_unlock(&limit->lock);
}

void gp_limit_give(struct gp_limit *limit, const struct gp_charge *charge)
{
	pthread_mutex_lock(&limit->lock);
	undo(limit, charge);
	pthread_mutex_unlock(&limit->lock);
}

void gp_limit_adjust(struct gp_limit *limit, enum gp_limit_part part,
		     uint64_t from, uint64_t to)
{
	pthread_mutex_lock(&limit->lock);
	if (to > from)
		add(limit, part, to - from);
	else
		take_off(limit, part, from - to);
	observe(limit);
	pthread_mutex_unlock(&limit->lock);
}

bool gp_limit_wait(struct gp_limit *limit, uint64_t outcomes)
{
	struct timespec until;
	bool had;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&limit->lock);
	while (limit->pending && !rc && limit->outcomes == outcomes)
		rc = pthread_cond_timedwait(&limit->settled, &limit->lock,
					    &until);
	had = limit->outcomes != outcomes;
	pthread_mutex_unlock(&limit->lock);
	return had;
}

bool gp_limit_allows(struct gp_limit *limit, uint64_t bytes)
{
	bool allows;

	pthread_mutex_lock(&limit->lock);
	allows = bytes <= limit->cap;
	pthread_mutex_unlock(&limit->lock);
	return allows;
}

void gp_limit_refused(struct gp_limit *limit)
{
	pthread_mutex_lock(&limit->lock);
	limit->refusals++;
	pthread_mutex_unlock(&limit->lock);
}

static uint64_t excess(const struct gp_limit *limit)
{
	return limit->held > limit->cap ? limit->held - limit->cap : 0;
}

uint64_t gp_limit_set(struct gp_limit *limit, uint64_t cap)
{
	uint64_t bytes;

	pthread_mutex_lock(&limit->lock);
	limit->cap = cap;
	bytes = excess(limit);
	pthread_mutex_unlock(&limit->lock);
	return bytes;
}

uint64_t gp_limit_excess(struct gp_limit *limit)
{
	uint64_t bytes;

	pthread_mutex_lock(&limit->lock);
	bytes = excess(limit);
	pthread_mutex_unlock(&limit->lock);
	return bytes;
}

void gp_limit_get(struct gp_limit *limit, struct gp_limit_stats *stats)
{
	pthread_mutex_lock(&limit->lock);
	*stats = (struct gp_limit_stats){
		.cap = limit->cap,
		.held = limit->held,
		.peak = limit->peak,
		.refusals = limit->refusals,
	};
	for (int i = 0; i < GP_PART_NUM; i++)
		stats->part[i] = limit->part[i];
	pthread_mutex_unlock(&limit->lock);
}
