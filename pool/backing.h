/*
 * The physical memory behind the arena: handles, where each is mapped, and
 * which are wholly free.
 *
 * A handle covers whole chunks (the driver's granularity). It knows how much
 * of it is in use, so that wholly free ones are found at once, by size and by
 * how long they have been idle: they can move, or go back to the driver.
 * With plain segments a handle is a segment, which never moves.
 *
 * All under the pool's lock, but gp_backing_at().
 */
#ifndef GP_POOL_BACKING_H
#define GP_POOL_BACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/objects.h"

#define GP_BACKING_BUCKETS 24 /* idle handles by power of two chunks */

struct gp_block;
struct gp_pool;

/* Where an operation in progress has left a handle. */
enum gp_where {
	GP_AT_OLD,  /* still mapped where it was */
	GP_NOWHERE, /* exists, not mapped */
	GP_AT_NEW,  /* mapped at the operation's place */
	GP_GONE,    /* does not exist (yet, or any more) */
};

/* Guarded by the pool's lock. While something live is in it, lookups read its
 * first three without: they do not change then. */
struct gp_handle {
	uint64_t id;         /* the driver's; of a segment its address */
	uint64_t granule;    /* where mapped */
	uint32_t granules;   /* size */
	uint32_t used;       /* granules that are not FREE */
	uint64_t stamp;      /* of all that was ever freed in it, the latest */
	uint64_t idle_since; /* the pool's clock, ns, when `used` fell to 0 */
	struct gp_handle *prev, *next; /* bucket, orphans, or an operation's */
	struct gp_block *from, *to; /* an operation's tiles: old, new place */
	uint8_t where;              /* enum gp_where, of the operation */
	uint8_t class;              /* enum gp_class that it counts for */
	bool segment;
	struct gp_pool *pool; /* of a segment; constant */
	bool fresh;           /* made by the operation in progress */
	void *link;           /* objects.h */
};

/* The newest first. */
struct gp_handle_list {
	struct gp_handle *head, *tail;
};

/* Guarded by the pool's lock, but `map`, which lookups read. */
struct gp_backing {
	struct gp_handle **map; /* by chunk; atomic */
	uint64_t chunks;
	unsigned chunk_shift; /* granules to chunks */
	struct gp_objects handles;
	struct gp_handle_list idle[GP_BACKING_BUCKETS];
	uint64_t idle_granules;
	struct gp_handle_list orphans; /* not mapped: left by a failed call */
	uint64_t orphan_granules;
	uint64_t granules; /* held from the driver */
	uint64_t count;
};

/* `granularity` bytes a chunk, a power of two from 64 KiB. 0 or -ENOMEM. */
int gp_backing_init(struct gp_backing *backing, uint64_t arena_bytes,
		    uint64_t granularity);
void gp_backing_exit(struct gp_backing *backing);

static inline uint32_t gp_backing_chunk(const struct gp_backing *backing)
{
	return 1u << backing->chunk_shift;
}

/* Up to whole chunks. */
static inline uint32_t gp_backing_round(const struct gp_backing *backing,
					uint32_t granules)
{
	uint32_t chunk = gp_backing_chunk(backing);

	return (granules + chunk - 1) / chunk * chunk;
}

/* A part of the arena came into, or went out of, use; `stamp` says when its
 * last use is over (order.h). */
void gp_backing_use(struct gp_pool *pool, uint64_t granule, uint32_t granules);
void gp_backing_unuse(struct gp_pool *pool, uint64_t granule, uint32_t granules,
		      uint64_t stamp);

/* An idle handle has really been idle since an earlier time. */
void gp_backing_age(struct gp_pool *pool, struct gp_handle *handle,
		    uint64_t since);

/* A handle is now mapped there, all of it in use; or no longer. */
void gp_backing_attach(struct gp_pool *pool, struct gp_handle *handle,
		       uint64_t granule);
void gp_backing_detach(struct gp_pool *pool, struct gp_handle *handle);

/* An idle handle to take for `granules` still wanted: the largest that is not
 * more, else the smallest; never one above `most`. NULL: none. */
struct gp_handle *gp_backing_pick(struct gp_pool *pool, uint32_t granules,
				  uint32_t most);

/* Granules of idle handles that can be moved now; stops to count at
 * `enough`. */
uint64_t gp_backing_movable(const struct gp_pool *pool, uint64_t enough);

/* The handle that has been idle longest, since `before` or earlier; or NULL.*/
struct gp_handle *gp_backing_oldest(struct gp_pool *pool, uint64_t before);

/* The pool holds one more handle, or one less. */
void gp_backing_count(struct gp_pool *pool, struct gp_handle *handle);
void gp_backing_discount(struct gp_pool *pool, struct gp_handle *handle);

/* Unmapped and still held: kept for the next growth or trim. */
void gp_backing_orphan(struct gp_pool *pool, struct gp_handle *handle);
struct gp_handle *gp_backing_adopt(struct gp_pool *pool);

#endif
