/* Notes of live blocks; see notes.h. */
#include "pool/notes.h"

#include <errno.h>

#include "pool/aids.h"
#include "pool/reclaim.h"
#include "pool/state.h"

/* Far from the numbers that the driver gives its own allocations. */
#define FIRST_ID (1ull << 48)

static uint64_t ids = FIRST_ID; /* atomic */

void gp_notes_init(struct gp_notes *notes)
{
	gp_objects_init(&notes->objects, sizeof(struct gp_note));
}

void gp_notes_exit(struct gp_notes *notes)
{
	gp_objects_exit(&notes->objects);
}

static struct gp_note **bucket(struct gp_pool *pool, uint64_t granule)
{
	uint64_t hash = granule * 0x9e3779b97f4a7c15ull >> 32;

	return &pool->notes.buckets[hash % GP_NOTE_BUCKETS];
}

static struct gp_note **find(struct gp_pool *pool, uint64_t granule)
{
	struct gp_note **link = bucket(pool, granule);

	while (*link && (*link)->granule != granule)
		link = &(*link)->next;
	return link;
}

static void drop(struct gp_pool *pool, struct gp_note **link)
{
	struct gp_note *note = *link;

	*link = note->next;
	gp_objects_put(&pool->notes.objects, note);
}

/* The block that starts at a granule, whatever it is. */
static struct gp_block *block_at(const struct gp_pool *pool, uint64_t granule)
{
	struct gp_slab *slab;
	struct gp_block *b = gp_arena_at(&pool->arena, granule, &slab);

	return slab ? gp_slab_at(slab, granule) : b;
}

/* ---- live blocks ----------------------------------------------------------------- */

/* The note of the live block at a granule, made if need be. Under the lock; a
 * free needs none to take the block meanwhile. */
static int note_of(struct gp_pool *pool, uint64_t granule,
		   struct gp_note **result)
{
	struct gp_note *note = *find(pool, granule);
	uint64_t live = gp_tag(granule, gp_aids_live(pool));
	struct gp_block *b;

	if (note) {
		*result = note;
		return note->freed ? -ENOENT : 0;
	}
	if (gp_objects_reserve(&pool->notes.objects, 1))
		return -ENOMEM;
	b = block_at(pool, granule);
	if (!b || !__atomic_compare_exchange_n(
			  &b->tag, &live, gp_tag(granule, GP_NOTED), false,
			  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return -ENOENT;
	note = gp_objects_get(&pool->notes.objects);
	*note = (struct gp_note){
		.granule = granule,
		.block = b,
		.id = __atomic_fetch_add(&ids, 1, __ATOMIC_RELAXED),
		.next = *bucket(pool, granule),
	};
	*bucket(pool, granule) = note;
	*result = note;
	return 0;
}

/* Finds the granule at which the allocation around va starts. */
static int start_of(struct gp_pool *pool, uint64_t va, uint64_t *granule)
{
	uint64_t base, bytes, beyond;

	if (gp_pool_find(pool, va, &base, &bytes) ||
	    !gp_pool_granule(pool, base - gp_aids_front(pool, bytes), granule,
			     &beyond))
		return -ENOENT;
	return 0;
}

int gp_pool_id(struct gp_pool *pool, uint64_t va, uint64_t *id)
{
	struct gp_note *note;
	uint64_t granule;
	int rc = start_of(pool, va, &granule);

	if (rc)
		return rc;
	gp_lock(&pool->lock);
	rc = note_of(pool, granule, &note);
	if (!rc)
		*id = note->id;
	gp_unlock(&pool->lock);
	return rc;
}

int gp_pool_sync_memops(struct gp_pool *pool, uint64_t va, bool *sync)
{
	const struct gp_note *note;
	uint64_t granule;
	int rc = start_of(pool, va, &granule);

	if (rc)
		return rc;
	gp_lock(&pool->lock);
	note = *find(pool, granule);
	*sync = note && !note->freed && note->sync_memops;
	gp_unlock(&pool->lock);
	return 0;
}

int gp_pool_set_sync_memops(struct gp_pool *pool, uint64_t va, bool sync)
{
	struct gp_note *note;
	uint64_t granule;
	int rc = start_of(pool, va, &granule);

	if (rc)
		return rc;
	gp_lock(&pool->lock);
	rc = note_of(pool, granule, &note);
	if (!rc)
		note->sync_memops = sync;
	gp_unlock(&pool->lock);
	return rc;
}

/* ---- memory that other processes map ------------------------------------------ */

static int list_pieces(const struct gp_pool *pool, const struct gp_block *b,
		       struct gp_pool_piece *pieces, size_t max, size_t *n)
{
	uint64_t at = gp_block_granule(b), end = gp_block_end(b);

	for (*n = 0; at < end; ++*n) {
		const struct gp_handle *h = gp_backing_at(pool, at);

		if (*n == max)
			return -E2BIG;
		pieces[*n].handle = h->id;
		pieces[*n].bytes = (uint64_t)h->granules << GP_GRANULE_SHIFT;
		at = h->granule + h->granules;
	}
	return 0;
}

/* The note of that id, of the allocation that starts at `base`, freed or not;
 * where its block starts depends on its size. A link to NULL: none. Under the
 * lock. */
static struct gp_note **find_base(struct gp_pool *pool, uint64_t base,
				  uint64_t id)
{
	static struct gp_note *none;
	const uint64_t fronts[] = {gp_aids_front(pool, 1),
				   gp_aids_front(pool, GP_LARGE_FROM)};
	uint64_t granule, beyond;
	struct gp_note **link;

	for (int i = 0; i < 2; i++) {
		if (!gp_pool_granule(pool, base - fronts[i], &granule,
				     &beyond) ||
		    beyond)
			continue;
		link = find(pool, granule);
		if (*link && (*link)->id == id)
			return link;
	}
	return &none;
}

int gp_pool_hold(struct gp_pool *pool, uint64_t base, uint64_t id,
		 struct gp_pool_piece *pieces, size_t max, size_t *n,
		 uint64_t *offset, uint64_t *bytes)
{
	uint64_t granule;
	struct gp_note *note;
	int rc = -ENOENT;

	gp_lock(&pool->lock);
	note = *find_base(pool, base, id);
	if (note && !note->freed)
		rc = list_pieces(pool, note->block, pieces, max, n);
	if (!rc) {
		note->holders++;
		*bytes = __atomic_load_n(&note->block->requested,
					 __ATOMIC_RELAXED);
		granule = note->granule;
		*offset = ((granule - gp_backing_at(pool, granule)->granule)
			   << GP_GRANULE_SHIFT) +
			  gp_aids_front(pool, *bytes);
	}
	gp_unlock(&pool->lock);
	return rc;
}

/* Nobody has it any more: as any free block. */
static void come_back(struct gp_pool *pool, struct gp_block *b)
{
	if (gp_order_keeps_back(&pool->order, b->stamp)) {
		gp_reclaim_set_aside(pool, b);
		return;
	}
	gp_lock(&pool->lock);
	gp_reclaim_block(pool, b);
	gp_unlock(&pool->lock);
}

void gp_pool_let_go(struct gp_pool *pool, uint64_t base, uint64_t id)
{
	struct gp_block *b = NULL, **at;
	struct gp_note **link, *note;

	gp_lock(&pool->lock);
	link = find_base(pool, base, id);
	note = *link;
	if (note && note->holders && !--note->holders && note->freed) {
		if (note->lent) {
			b = note->block;
			for (at = &pool->notes.lent; *at != b;)
				at = &(*at)->right;
			*at = b->right;
			b->right = NULL;
			gp_block_set_state(b, GP_CACHED);
		}
		drop(pool, link);
	}
	gp_unlock(&pool->lock);
	if (b)
		come_back(pool, b);
}

/* ---- frees ------------------------------------------------------------------------- */

struct gp_block *gp_notes_claim(struct gp_pool *pool, uint64_t granule,
				bool *lent)
{
	struct gp_note **link, *note;
	struct gp_block *b = NULL;

	gp_lock(&pool->lock);
	link = find(pool, granule);
	note = *link;
	if (note && !note->freed) {
		b = note->block;
		gp_block_set_state(b, GP_CACHED);
		note->freed = true;
		*lent = note->holders > 0;
		if (!*lent)
			drop(pool, link);
	}
	gp_unlock(&pool->lock);
	return b;
}

void gp_notes_lend(struct gp_pool *pool, struct gp_block *b)
{
	struct gp_note *note;

	gp_lock(&pool->lock);
	note = *find(pool, gp_block_granule(b));
	if (note) {
		note->lent = true;
		gp_block_set_state(b, GP_LENT);
		b->right = pool->notes.lent;
		pool->notes.lent = b;
	}
	gp_unlock(&pool->lock);
	if (!note) /* the last one let go meanwhile */
		come_back(pool, b);
}
