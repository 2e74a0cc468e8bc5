/*
 * Who may reach the memory has changed: the driver is told so for everything
 * that is mapped. What is mapped later is told of as it always is. Nothing is
 * mapped or unmapped meanwhile: operations that would begin wait (flight.c).
 */
#include <errno.h>
#include <stdlib.h>

#include "pool/backing.h"
#include "pool/calls.h"
#include "pool/state.h"

/* A handle, where it is mapped. */
struct place {
	uint64_t granule;
	uint32_t granules;
};

/* Under the lock. Returns their number. */
static size_t list(struct gp_pool *pool, struct place *places)
{
	const uint32_t chunk = gp_backing_chunk(&pool->backing);
	size_t n = 0;

	for (const struct gp_block *b = pool->arena.first; b; b = b->next) {
		uint64_t at = gp_block_granule(b);

		while (gp_block_state(b) != GP_VACANT && at < gp_block_end(b)) {
			const struct gp_handle *h = gp_backing_at(pool, at);

			if (!h) { /* an operation that waits is to fill it */
				at = (at / chunk + 1) * chunk;
				continue;
			}
			at = h->granule + h->granules;
			/* It may reach over several tiles. */
			if (!n || places[n - 1].granule != h->granule)
				places[n++] =
					(struct place){h->granule, h->granules};
		}
	}
	return n;
}

static int tell(struct gp_pool *pool)
{
	struct place *places;
	size_t n;
	int rc = 0;

	/* The number does not change now. */
	places = malloc((pool->backing.count + 1) * sizeof(*places));
	if (!places)
		return -ENOMEM;
	gp_lock(&pool->lock);
	n = list(pool, places);
	gp_unlock(&pool->lock);
	for (size_t i = 0; i < n && !rc; i++)
		rc = gp_call_set_access(
			pool, gp_pool_address(pool, places[i].granule),
			(uint64_t)places[i].granules << GP_GRANULE_SHIFT);
	free(places);
	return rc;
}

int gp_pool_regrant(struct gp_pool *pool)
{
	int rc;

	if (!pool->has_vmm)
		return 0; /* the driver sees to its own */
	gp_lock(&pool->lock);
	/* Those may have told the driver of the old state. */
	while (pool->in_flight || pool->granting)
		pthread_cond_wait(&pool->landed, &pool->lock.mutex);
	pool->granting = true;
	gp_unlock(&pool->lock);
	rc = tell(pool);
	gp_lock(&pool->lock);
	pool->granting = false;
	pthread_cond_broadcast(&pool->landed);
	gp_unlock(&pool->lock);
	return rc;
}
