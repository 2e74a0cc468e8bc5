/*
 * The ledger of one device: what the process has taken there, and how much it
 * may take.
 *
 * Whoever wants memory of the driver reserves it here first, then asks the
 * driver, then keeps the reservation or cancels it. Nothing is checked first
 * and taken later, so the cap holds whatever the threads do. A request that
 * finds no room while another's driver call is under way waits for the outcome
 * of that: it may fail, and leave room.
 *
 * All functions are thread-safe. Sizes are bytes.
 */
#ifndef GP_POOL_LIMIT_H
#define GP_POOL_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "stats/limit_stats.h"

/* The driver takes device memory in pieces of this size; small allocations
 * share them. */
#define GP_LIMIT_PIECE (2ull << 20)

/* Those of one context: the sum of each part. Guarded by the lock of the ledger;
 * zeros at first. */
struct gp_limit_small {
	uint64_t bytes[GP_PART_NUM];
};

/* A charge is given back as it was taken. */
struct gp_charge {
	enum gp_limit_part part;
	uint64_t bytes;
	/* A small one, which shares pieces with the others there of its part;
	 * NULL: it shares none. Outlives the charge. */
	struct gp_limit_small *small;
};

struct gp_limit {
	pthread_mutex_t lock;   /* rank: leaf; guards all below */
	pthread_cond_t settled; /* a reservation was kept or cancelled */
	uint64_t cap, held, peak, refusals;
	uint64_t part[GP_PART_NUM];
	unsigned pending;  /* reservations neither kept nor cancelled */
	uint64_t outcomes; /* those that have been */
};

/* Not thread-safe. GP_NO_LIMIT: none. */
void gp_limit_init(struct gp_limit *limit, uint64_t cap);

/* 0, or -ENOMEM: there is no room. Never waits. *outcomes: for the wait. */
int gp_limit_reserve(struct gp_limit *limit, const struct gp_charge *charge,
		     uint64_t *outcomes);

/* The end of a reservation. */
void gp_limit_keep(struct gp_limit *limit);
void gp_limit_cancel(struct gp_limit *limit, const struct gp_charge *charge);

/* The end of a reservation of something that is measured: its part was `from`
 * before, and is `to` now. */
void gp_limit_measured(struct gp_limit *limit, const struct gp_charge *charge,
		       uint64_t from, uint64_t to);

/* What was kept is given back. */
void gp_limit_give(struct gp_limit *limit, const struct gp_charge *charge);

/* The part is `to` now and was `from`: whatever the cap says, since it is so
 * already. */
void gp_limit_adjust(struct gp_limit *limit, enum gp_limit_part part,
		     uint64_t from, uint64_t to);

/* Was refused: waits, some seconds at most, until one of the reservations
 * under way then has had its outcome. False: there was none, and no room will
 * come from there. */
bool gp_limit_wait(struct gp_limit *limit, uint64_t outcomes);

/* Could so much ever be held, with nothing else? */
bool gp_limit_allows(struct gp_limit *limit, uint64_t bytes);

/* A request was refused for good. */
void gp_limit_refused(struct gp_limit *limit);

/* A new cap; takes nothing away. Returns the bytes held beyond it. */
uint64_t gp_limit_set(struct gp_limit *limit, uint64_t cap);

/* The bytes held beyond the cap; 0: none. */
uint64_t gp_limit_excess(struct gp_limit *limit);

void gp_limit_get(struct gp_limit *limit, struct gp_limit_stats *stats);

#endif
