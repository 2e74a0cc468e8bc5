/*
 * Growth; see grow.h.
 *
 * Reserve, make, commit or roll back. Under the lock a place is chosen and
 * everything that takes part becomes HELD, so nobody else can touch it; the
 * driver calls then run without the lock; the commit puts the result into the
 * books. The place is a stretch of vacant addresses with the free ranges
 * beside it, chosen so that the least memory is missing.
 */
#include "pool/grow.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "pool/backing.h"
#include "pool/flight.h"
#include "pool/large.h"
#include "pool/place.h"
#include "pool/state.h"

/* The parts of what the process holds, and of what is missing, that a handle is
 * to be. */
#define HELD_PARTS    72
#define REQUEST_PARTS 18

/* More hardly helps, bytes: on an H200 copies through handles of 2 MiB took 1.65
 * times as long as through one piece, 16 MiB 1.07, 32 MiB 1.03, 64 MiB 1.02. */
#define ENOUGH        (64u << 20)

/* Moving may cost so much, and one part in so many of the time since. */
#define MOVE_GRACE_NS 200000000ull
#define MOVE_SHARE    50

/* All tiles are HELD, and neighbours in this order. */
struct growth {
	struct gp_block *front;         /* free range before the gap, or NULL */
	struct gp_block *back;          /* free range after it, or NULL */
	struct gp_handle *parts, *last; /* what fills the gap, in order */
	uint32_t gap;                   /* granules */
	uint64_t start;                 /* the first granule of the gap */
	uint32_t extra; /* granules beyond the request: growth_factor */
	bool left;      /* idle memory that did not fit */
	bool moved;     /* some of the parts were elsewhere */
};

/* ---- parts ------------------------------------------------------------------ */

static void append(struct growth *g, struct gp_handle *h, enum gp_where where)
{
	h->where = (uint8_t)where;
	h->next = NULL;
	h->prev = g->last;
	if (g->last)
		g->last->next = h;
	else
		g->parts = h;
	g->last = h;
	g->gap += h->granules;
}

/*
 * Size of the new handles of a growth, at least. Small ones cost bandwidth, large
 * ones are seldom wholly free: it follows what the process holds, and what the
 * request needs.
 */
static uint32_t handle_granules(const struct gp_pool *pool, uint32_t missing)
{
	uint64_t want = (pool->backing.granules + missing) / HELD_PARTS;
	uint64_t size = gp_backing_chunk(&pool->backing);

	if (want < missing / REQUEST_PARTS)
		want = missing / REQUEST_PARTS;
	while (size < ENOUGH >> GP_GRANULE_SHIFT && size < want)
		size *= 2;
	return (uint32_t)size;
}

/* Take idle memory for `missing`, at most `room`; unless `move` only what is
 * mapped nowhere. Returns what is still
 * missing. */
static uint32_t gather(struct gp_pool *pool, struct growth *g, uint32_t missing,
		       uint32_t room, bool move)
{
	while (missing > 0) {
		struct gp_handle *h = pool->backing.orphans.head;

		if (gp_objects_reserve(&pool->arena.blocks, 8))
			break;
		if (h && h->granules <= room) {
			gp_backing_adopt(pool);
			append(g, h, GP_NOWHERE);
			h->from = NULL;
		} else {
			h = move ? gp_backing_pick(pool, missing, room) : NULL;
			if (!h)
				break;
			g->moved = true;
			h->from = gp_large_carve(pool, h->granule, h->granules);
			append(g, h, GP_AT_OLD);
		}
		room -= h->granules;
		missing -= h->granules < missing ? h->granules : missing;
	}
	return missing;
}

/* New handles for the rest, without a small one for what is left over: it would
 * stay. Their descriptors are reserved. */
static void order_new(struct gp_pool *pool, struct growth *g, uint32_t missing)
{
	uint32_t size = handle_granules(pool, missing);
	uint32_t n = missing > size ? missing / size : 1;

	size = gp_backing_round(&pool->backing, (missing + n - 1) / n);
	while (missing > 0) {
		struct gp_handle *h = gp_objects_get(&pool->backing.handles);

		*h = (struct gp_handle){
			.granules = size < missing ? size : missing,
			.fresh = true,
		};
		missing -= h->granules;
		append(g, h, GP_GONE);
	}
}

/* New memory beyond what is missing, at most what `room` leaves. */
static uint32_t beyond(const struct gp_pool *pool, uint32_t missing,
		       double factor, uint32_t room)
{
	double extra = (factor - 1.0) * (double)missing;

	room -= missing;
	return extra < (double)room
		       ? gp_backing_round(&pool->backing, (uint32_t)extra)
		       : room;
}

/* Descriptors for whatever may come. 0 or -ENOMEM. */
static int reserve(struct gp_pool *pool, uint32_t missing, double factor)
{
	double most = factor > 1.0 ? factor * (double)missing : missing;
	size_t handles = (size_t)most / handle_granules(pool, missing) + 3;

	if (gp_objects_reserve(&pool->backing.handles, handles))
		return -ENOMEM;
	return gp_objects_reserve(&pool->arena.blocks, handles + 8);
}

/* One tile for each part: v is cut up, what is not needed stays vacant. */
static int cut(struct gp_pool *pool, struct growth *g, struct gp_block *v,
	       bool at_end)
{
	uint32_t parts = 2;

	for (struct gp_handle *h = g->parts; h; h = h->next)
		parts++;
	if (gp_objects_reserve(&pool->arena.blocks, parts)) {
		gp_large_vacate(pool, v);
		return -ENOMEM;
	}
	if (v->granules > g->gap && at_end) {
		struct gp_block *rest = v;

		v = gp_tile_split(&pool->arena, rest, rest->granules - g->gap);
		gp_large_vacate(pool, rest);
	} else if (v->granules > g->gap) {
		gp_large_vacate(pool, gp_tile_split(&pool->arena, v, g->gap));
	}
	g->start = gp_block_granule(v);
	for (struct gp_handle *h = g->parts; h; h = h->next) {
		h->to = v;
		if (h->next)
			v = gp_tile_split(&pool->arena, v, h->granules);
	}
	return 0;
}

/* Everything that the growth will use becomes HELD. */
static int plan(struct gp_pool *pool, struct gp_region *region,
		struct growth *g, uint32_t granules, double factor, bool move)
{
	struct gp_place place = gp_place_choose(pool, region, granules);
	struct gp_block *v = place.vacant;

	*g = (struct growth){0};
	if (!v || reserve(pool, place.missing, factor))
		return -ENOMEM;
	uint32_t room =
		place.back && !place.at_end ? place.missing : v->granules;

	if (place.front)
		g->front = v->prev;
	if (place.back)
		g->back = v->next;
	gp_large_claim(pool, v);
	if (place.spacer) {
		struct gp_block *spacer = v;

		v = gp_tile_split(&pool->arena, spacer, place.spacer);
		gp_large_vacate(pool, spacer);
		room = v->granules;
	}
	if (g->front)
		gp_large_hold(pool, g->front);
	if (g->back)
		gp_large_hold(pool, g->back);
	/* Large handles stay with large blocks. */
	bool large = region == &pool->regions[GP_REGION_LARGE];
	uint32_t missing = gather(pool, g, place.missing,
				  large ? room : place.missing, move);

	g->left = missing && pool->backing.idle_granules;
	if (missing && factor > 1.0)
		g->extra = beyond(pool, missing, factor, room - g->gap);
	order_new(pool, g, missing + g->extra);
	return cut(pool, g, v, place.at_end);
}

/* ---- driver calls, without the lock --------------------------------------- */

static int make(struct gp_pool *pool, struct gp_handle *h)
{
	uint64_t bytes = (uint64_t)h->granules << GP_GRANULE_SHIFT;
	int rc = 0;

	if (h->where == GP_GONE)
		rc = gp_call_create(pool, bytes, &h->id);
	else if (h->where == GP_AT_OLD)
		rc = gp_call_unmap(pool, gp_pool_address(pool, h->granule),
				   bytes);
	if (!rc)
		h->where = GP_NOWHERE;
	return rc;
}

static int map(struct gp_pool *pool, struct gp_handle *h)
{
	int rc = gp_call_map(pool,
			     gp_pool_address(pool, gp_block_granule(h->to)),
			     gp_block_bytes(h->to), h->id);

	if (!rc)
		h->where = GP_AT_NEW;
	return rc;
}

/* New memory first: nothing has moved when there is none. */
static int fill(struct gp_pool *pool, struct growth *g)
{
	int rc = 0;

	for (struct gp_handle *h = g->parts; h && !rc; h = h->next)
		if (h->where == GP_GONE)
			rc = make(pool, h);
	for (struct gp_handle *h = g->parts; h && !rc; h = h->next)
		if (h->where == GP_AT_OLD)
			rc = make(pool, h);
	for (struct gp_handle *h = g->parts; h && !rc; h = h->next)
		rc = map(pool, h);
	if (!rc)
		rc = gp_call_set_access(pool, gp_pool_address(pool, g->start),
					(uint64_t)g->gap << GP_GRANULE_SHIFT);
	return rc;
}

/* Undo as far as the driver lets us. */
static void empty(struct gp_pool *pool, struct growth *g)
{
	for (struct gp_handle *h = g->parts; h; h = h->next) {
		uint64_t at = gp_block_granule(h->to);
		uint64_t bytes = gp_block_bytes(h->to);

		if (h->where == GP_AT_NEW &&
		    !gp_call_unmap(pool, gp_pool_address(pool, at), bytes))
			h->where = GP_NOWHERE;
		if (h->where == GP_NOWHERE && h->fresh &&
		    !gp_call_release(pool, h->id, bytes))
			h->where = GP_GONE;
	}
}

/* ---- the books -------------------------------------------------------------- */

/* The old place of a handle that was moved. */
static void leave_old(struct gp_pool *pool, struct gp_handle *h)
{
	if (!h->from)
		return;
	gp_backing_detach(pool, h);
	gp_large_vacate(pool, h->from);
	h->from = NULL;
}

/* One HELD tile of front, gap and back. */
static struct gp_block *commit(struct gp_pool *pool, struct growth *g)
{
	struct gp_block *tile = g->front;
	struct gp_handle *next;

	for (struct gp_handle *h = g->parts; h; h = next) {
		next = h->next;
		h->prev = h->next = NULL;
		if (h->from)
			pool->account.remaps++;
		leave_old(pool, h);
		if (h->fresh)
			gp_backing_count(pool, h);
		h->fresh = false;
		gp_backing_attach(pool, h, gp_block_granule(h->to));
		if (tile)
			gp_tile_join(&pool->arena, tile);
		else
			tile = h->to;
		h->to = NULL;
	}
	if (g->back)
		gp_tile_join(&pool->arena, tile);
	return tile;
}

/* Puts one part away after a failure. */
static void put_away(struct gp_pool *pool, struct gp_handle *h)
{
	struct gp_block *tile = h->to;
	bool fresh = h->fresh;

	h->prev = h->next = NULL;
	h->to = NULL;
	h->fresh = false;
	if (h->where == GP_AT_OLD) {
		gp_large_give(pool, h->from);
		h->from = NULL;
	} else {
		leave_old(pool, h);
	}
	if (fresh && h->where != GP_GONE)
		gp_backing_count(pool, h);
	if (h->where == GP_AT_NEW) {
		gp_backing_attach(pool, h, gp_block_granule(tile));
		gp_block_set_state(tile, GP_STUCK);
		tile->right = pool->stuck;
		pool->stuck = tile;
		return;
	}
	if (h->where == GP_NOWHERE)
		gp_backing_orphan(pool, h);
	else if (h->where == GP_GONE)
		gp_objects_put(&pool->backing.handles, h);
	if (tile)
		gp_large_vacate(pool, tile);
}

static void roll_back(struct gp_pool *pool, struct growth *g)
{
	struct gp_handle *next;

	for (struct gp_handle *h = g->parts; h; h = next) {
		next = h->next;
		put_away(pool, h);
	}
	if (g->front)
		gp_large_give(pool, g->front);
	if (g->back)
		gp_large_give(pool, g->back);
}

static int attempt(struct gp_pool *pool, struct gp_region *region,
		   struct growth *g, uint32_t granules, double factor,
		   bool move)
{
	int rc = plan(pool, region, g, granules, factor, move);
	uint64_t start, end;

	if (rc)
		return rc;
	gp_flight_begin(pool);
	start = gp_call_now(pool);
	rc = fill(pool, g);
	if (rc)
		empty(pool, g);
	end = gp_call_now(pool);
	gp_flight_end(pool);
	if (g->moved)
		pool->move_ns += end - start;
	if (end > pool->clock)
		pool->clock = end;
	return rc;
}

/* Who reaches memory without the driver may know where it is. */
static bool may_move(const struct gp_pool *pool)
{
	return !gp_order_is(&pool->order, GP_ORDER_ONLY_IDLE);
}

/* Not once it has cost more than it may: programs that have this and that size
 * in turn could move memory to and fro for ever. */
bool gp_grow_moves(const struct gp_pool *pool)
{
	return pool->has_vmm && may_move(pool) &&
	       pool->move_ns <=
		       MOVE_GRACE_NS + (pool->clock - pool->born) / MOVE_SHARE;
}

/*
 * What is free already; *tile is NULL if nothing is large enough.
 *
 * A plan starts from there being nothing: a place is a stretch with something
 * missing, so the gap is at least one chunk, and every part of it gets a tile of
 * whole units. With a free range as large as the request beside a stretch
 * nothing would be missing, and the cut would leave a tile of no size, which
 * shares its address with another. An attempt releases the lock, so other
 * threads free and give back meanwhile: this is asked before each plan, under
 * the same hold of the lock.
 */
static int find(struct gp_pool *pool, struct gp_region *region,
		uint32_t granules, struct gp_block **tile)
{
	if (gp_objects_reserve(&pool->arena.blocks, 1))
		return -ENOMEM;
	*tile = gp_large_take(pool, region, granules);
	return 0;
}

int gp_grow(struct gp_pool *pool, struct gp_region *region, uint32_t granules,
	    double factor, struct gp_block **tile)
{
	bool move = gp_grow_moves(pool);
	struct growth g;
	int rc = find(pool, region, granules, tile);

	if (rc || *tile)
		return rc;
	rc = attempt(pool, region, &g, granules, factor, move);
	if (rc == -ENOMEM && (g.extra || !move)) {
		roll_back(pool, &g);
		rc = find(pool, region, granules, tile);
		if (rc || *tile)
			return rc;
		rc = attempt(pool, region, &g, granules, 1.0, may_move(pool));
	}
	if (rc) {
		roll_back(pool, &g);
		return rc == -ENOMEM && g.left ? -EAGAIN : rc;
	}
	*tile = commit(pool, &g);
	gp_large_shrink(pool, *tile, granules);
	return 0;
}
