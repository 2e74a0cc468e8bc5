/* Lock ranks, checked in debug builds only. */
#include "pool/lock.h"

#ifdef GP_DEBUG
#include <stdlib.h>

#include "stats/log.h"

static __thread unsigned held; /* bit n: a lock of rank n is held */

/* Several caches, or parts of the slabs, may be held at once, under the pool's
 * lock, which makes their order no matter. */
void gp_rank_enter(enum gp_rank rank)
{
	unsigned above = ~0u << rank;

	if (rank == GP_RANK_CACHE || rank == GP_RANK_SLABS)
		above <<= 1;
	if (held & above) {
		gp_warn("lock of rank %d taken out of order", (int)rank);
		abort();
	}
	held |= 1u << rank;
}

void gp_rank_leave(enum gp_rank rank)
{
	held &= ~(1u << rank);
}

void gp_rank_assert_none(void)
{
	if (held) {
		gp_warn("driver call under a lock (ranks %x)", held);
		abort();
	}
}
#else
/* ISO C wants a translation unit to declare something. */
extern int gp_lock_ranks_unchecked;
#endif
