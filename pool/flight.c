/* Operations outside the lock; see flight.h. */
#include "pool/flight.h"

#include "pool/state.h"

static __thread uint64_t mine; /* operations this thread has ended */

void gp_flight_begin(struct gp_pool *pool)
{
	pool->in_flight++;
	while (pool->granting)
		pthread_cond_wait(&pool->landed, &pool->lock.mutex);
	gp_unlock(&pool->lock);
}

void gp_flight_end(struct gp_pool *pool)
{
	gp_lock(&pool->lock);
	pool->in_flight--;
	pool->landings++;
	mine++;
	pthread_cond_broadcast(&pool->landed);
}

void gp_flight_return_begins(struct gp_pool *pool)
{
	__atomic_fetch_add(&pool->returns_begun, 1, __ATOMIC_SEQ_CST);
	/* Whoever finds the cache empty sees that. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void gp_flight_return_ended(struct gp_pool *pool)
{
	__atomic_fetch_add(&pool->returns_ended, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&pool->awaiting_returns, __ATOMIC_SEQ_CST))
		return;
	gp_lock(&pool->lock);
	pthread_cond_broadcast(&pool->landed);
	gp_unlock(&pool->lock);
}

uint64_t gp_flight_others(const struct gp_pool *pool)
{
	/* No thread's own: it searches when they have ended. */
	return pool->landings - mine +
	       __atomic_load_n(&pool->returns_ended, __ATOMIC_SEQ_CST);
}

static bool any_returns(const struct gp_pool *pool)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&pool->returns_begun, __ATOMIC_SEQ_CST) !=
	       __atomic_load_n(&pool->returns_ended, __ATOMIC_SEQ_CST);
}

bool gp_flight_wait(struct gp_pool *pool, uint64_t since)
{
	bool any = pool->in_flight != 0 || any_returns(pool);

	__atomic_fetch_add(&pool->awaiting_returns, 1, __ATOMIC_SEQ_CST);
	while (any && gp_flight_others(pool) == since)
		pthread_cond_wait(&pool->landed, &pool->lock.mutex);
	__atomic_fetch_sub(&pool->awaiting_returns, 1, __ATOMIC_SEQ_CST);
	return any || gp_flight_others(pool) != since;
}
