/*
 * Reuse after a wait on the host; see order.h.
 *
 * Stamps count the blocks that could not be waited for. A wait reads the
 * counter first and waits then, so what it finishes is everything stamped
 * before it began, whatever other threads stamp meanwhile.
 */
#include "pool/order.h"

#include <errno.h>

#include "pool/calls.h"
#include "pool/state.h"

int gp_order_wait(struct gp_pool *pool)
{
	struct gp_order *order = &pool->order;
	uint64_t covered = __atomic_load_n(&order->issued, __ATOMIC_SEQ_CST);
	int rc;

	if (gp_call_capturing(pool))
		return -EBUSY;
	rc = gp_call_sync(pool);
	if (rc)
		return rc;
	uint64_t done = __atomic_load_n(&order->done, __ATOMIC_RELAXED);

	while (done < covered &&
	       !__atomic_compare_exchange_n(&order->done, &done, covered, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return 0;
}

int gp_order_free(struct gp_pool *pool, uint64_t *stamp)
{
	int rc = gp_order_wait(pool);

	*stamp = 0;
	if (!rc)
		return 0;
	*stamp = __atomic_add_fetch(&pool->order.issued, 1, __ATOMIC_SEQ_CST);
	return rc == -EBUSY ? 0 : rc;
}

bool gp_order_idle(const struct gp_pool *pool, uint64_t stamp)
{
	return stamp <= __atomic_load_n(&pool->order.done, __ATOMIC_ACQUIRE);
}
