/*
 * Reuse after a wait on the host; see order.h.
 *
 * Stamps count the blocks that could not be waited for. A wait reads the
 * counter first and waits then, so what it finishes is everything stamped
 * before it began, whatever other threads stamp meanwhile.
 */
#include "pool/order.h"

#include <errno.h>

#include "pool/lock.h"
#include "pool/state.h"

/* Waits; what was stamped up to `covered` is idle then. */
static inline int wait_for(struct gp_pool *pool, uint64_t covered)
{
	const struct gp_driver_ops *ops = pool->driver.ops;
	struct gp_order *order = &pool->order;
	int rc;

	gp_rank_assert_none();
	if (ops->capturing(pool->driver.dev))
		return -EBUSY;
	rc = ops->sync(pool->driver.dev);
	if (rc)
		return rc;
	uint64_t done = __atomic_load_n(&order->done, __ATOMIC_RELAXED);

	while (__builtin_expect(done < covered, 0) &&
	       !__atomic_compare_exchange_n(&order->done, &done, covered, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return 0;
}

int gp_order_wait(struct gp_pool *pool)
{
	return wait_for(pool,
			__atomic_load_n(&pool->order.issued, __ATOMIC_SEQ_CST));
}

int gp_order_free(struct gp_pool *pool, uint64_t *stamp)
{
	int rc = wait_for(
		pool, __atomic_load_n(&pool->order.issued, __ATOMIC_SEQ_CST));

	*stamp = 0;
	if (__builtin_expect(rc != 0, 0)) {
		*stamp = __atomic_add_fetch(&pool->order.issued, 1,
					    __ATOMIC_SEQ_CST);
		return rc == -EBUSY ? 0 : rc;
	}
	return 0;
}

bool gp_order_idle(const struct gp_pool *pool, uint64_t stamp)
{
	return stamp <= __atomic_load_n(&pool->order.done, __ATOMIC_ACQUIRE);
}
