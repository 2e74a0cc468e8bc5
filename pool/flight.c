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

uint64_t gp_flight_others(const struct gp_pool *pool)
{
	return pool->landings - mine;
}

bool gp_flight_wait(struct gp_pool *pool, uint64_t since)
{
	if (gp_flight_others(pool) == since && pool->in_flight == 0)
		return false;
	while (gp_flight_others(pool) == since)
		pthread_cond_wait(&pool->landed, &pool->lock.mutex);
	return true;
}
