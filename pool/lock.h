/*
 * The pool's locks: a mutex with a rank.
 *
 * Locks are taken in rising rank only, and none is held across a driver call,
 * but for the last two, as they say. Debug builds (-DGP_DEBUG) abort on either
 * mistake.
 */
#ifndef GP_POOL_LOCK_H
#define GP_POOL_LOCK_H

#include <pthread.h>
#include <stdbool.h>

enum gp_rank {
	GP_RANK_REGISTRY = 1, /* the table of pools, registry.c */
	GP_RANK_POOL,         /* gp_pool.lock: everything central */
	GP_RANK_SLABS,        /* gp_slab_part.lock: the small blocks in it */
	GP_RANK_CACHE,        /* one thread's cache, cache.c */
	GP_RANK_LAUNCH, /* gp_stream.launch; a graph launch of the program */
	GP_RANK_ORDER,  /* gp_order.lock; driver calls that do not wait */
};

struct gp_lock {
	pthread_mutex_t mutex;
	enum gp_rank rank;
};

#ifdef GP_DEBUG
void gp_rank_enter(enum gp_rank rank);
void gp_rank_leave(enum gp_rank rank);
void gp_rank_assert_none(void);
#else
static inline void gp_rank_enter(enum gp_rank rank)
{
	(void)rank;
}
static inline void gp_rank_leave(enum gp_rank rank)
{
	(void)rank;
}
static inline void gp_rank_assert_none(void)
{
}
#endif

static inline void gp_lock_init(struct gp_lock *lock, enum gp_rank rank)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->rank = rank;
}

static inline void gp_lock(struct gp_lock *lock)
{
	gp_rank_enter(lock->rank);
	pthread_mutex_lock(&lock->mutex);
}

/* False: somebody has it. */
static inline bool gp_try_lock(struct gp_lock *lock)
{
	gp_rank_enter(lock->rank);
	if (!pthread_mutex_trylock(&lock->mutex))
		return true;
	gp_rank_leave(lock->rank);
	return false;
}

static inline void gp_unlock(struct gp_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
	gp_rank_leave(lock->rank);
}

#endif
