/* Handles and their use; see backing.h. */
#include "pool/backing.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "pool/block.h"
#include "pool/state.h"

/* How many handles of a bucket a pick looks at. */
#define LOOKS 64

int gp_backing_init(struct gp_backing *backing, uint64_t arena_bytes,
		    uint64_t granularity)
{
	unsigned shift = (unsigned)__builtin_ctzll(granularity);

	*backing = (struct gp_backing){
		.chunks = arena_bytes >> shift,
		.chunk_shift = shift - GP_GRANULE_SHIFT,
	};
	gp_objects_init(&backing->handles, sizeof(struct gp_handle));
	void *map = mmap(NULL, backing->chunks * sizeof(void *),
			 PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return -ENOMEM;
	backing->map = map;
	return 0;
}

void gp_backing_exit(struct gp_backing *backing)
{
	if (backing->map)
		munmap(backing->map, backing->chunks * sizeof(void *));
	gp_objects_exit(&backing->handles);
	*backing = (struct gp_backing){0};
}

/* ---- idle handles --------------------------------------------------------- */

static unsigned bucket_of(const struct gp_backing *backing, uint32_t granules)
{
	uint32_t chunks = granules >> backing->chunk_shift;
	unsigned log = 31 - (unsigned)__builtin_clz(chunks | 1);

	return log < GP_BACKING_BUCKETS ? log : GP_BACKING_BUCKETS - 1;
}

static void push(struct gp_handle_list *list, struct gp_handle *handle)
{
	handle->prev = NULL;
	handle->next = list->head;
	if (list->head)
		list->head->prev = handle;
	else
		list->tail = handle;
	list->head = handle;
}

static void drop(struct gp_handle_list *list, struct gp_handle *handle)
{
	if (handle->next)
		handle->next->prev = handle->prev;
	else
		list->tail = handle->prev;
	if (handle->prev)
		handle->prev->next = handle->next;
	else
		list->head = handle->next;
	handle->prev = handle->next = NULL;
}

static void become_idle(struct gp_pool *pool, struct gp_handle *handle)
{
	struct gp_backing *backing = &pool->backing;

	handle->idle_since = pool->clock;
	push(&backing->idle[bucket_of(backing, handle->granules)], handle);
	backing->idle_granules += handle->granules;
}

/* To the end of its list, which is the oldest first from there. */
void gp_backing_age(struct gp_pool *pool, struct gp_handle *handle,
		    uint64_t since)
{
	struct gp_handle_list *list =
		&pool->backing
			 .idle[bucket_of(&pool->backing, handle->granules)];

	if (handle->used || handle->idle_since <= since)
		return;
	drop(list, handle);
	handle->idle_since = since;
	handle->prev = list->tail;
	if (list->tail)
		list->tail->next = handle;
	else
		list->head = handle;
	list->tail = handle;
}

static void become_used(struct gp_backing *backing, struct gp_handle *handle)
{
	drop(&backing->idle[bucket_of(backing, handle->granules)], handle);
	backing->idle_granules -= handle->granules;
}

/* Where the part of [granule, end) that lies in the handle at granule ends. */
static uint64_t part_end(const struct gp_handle *handle, uint64_t end)
{
	uint64_t stop = handle->granule + handle->granules;

	return stop < end ? stop : end;
}

void gp_backing_use(struct gp_pool *pool, uint64_t granule, uint32_t granules)
{
	uint64_t end = granule + granules;

	while (granule < end) {
		struct gp_handle *h = gp_backing_at(pool, granule);
		uint64_t stop = part_end(h, end);

		if (h->used == 0)
			become_used(&pool->backing, h);
		h->used += (uint32_t)(stop - granule);
		granule = stop;
	}
}

void gp_backing_unuse(struct gp_pool *pool, uint64_t granule, uint32_t granules,
		      uint64_t stamp)
{
	uint64_t end = granule + granules;

	while (granule < end) {
		struct gp_handle *h = gp_backing_at(pool, granule);
		uint64_t stop = part_end(h, end);

		if (h->stamp < stamp)
			h->stamp = stamp;
		h->used -= (uint32_t)(stop - granule);
		if (h->used == 0)
			become_idle(pool, h);
		granule = stop;
	}
}

/* [12] Nothing of what it held is in use on the device any more. Its own stamp
 * says so: that of the free range around it may be a neighbour's. */
static bool finished(const struct gp_pool *pool, const struct gp_handle *h)
{
	return gp_order_idle(&pool->order, h->stamp);
}

/* What taking an idle handle away leaves of the free range around it: parts that
 * vacant addresses hold apart. Less where there are such addresses already. */
static int scar(const struct gp_pool *pool, const struct gp_handle *h)
{
	const struct gp_block *b = gp_arena_around(&pool->arena, h->granule);
	int sides = 0;

	if (gp_block_granule(b) < h->granule)
		sides += 2;
	else if (b->prev && gp_block_state(b->prev) == GP_VACANT)
		sides--;
	if (gp_block_end(b) > h->granule + h->granules)
		sides += 2;
	else if (b->next && gp_block_state(b->next) == GP_VACANT)
		sides--;
	return sides;
}

static struct gp_handle *largest(const struct gp_pool *pool,
				 struct gp_handle *h, uint32_t most)
{
	struct gp_handle *best = NULL;

	for (int i = 0; h && i < LOOKS; h = h->next, i++) {
		if (h->granules > most || !finished(pool, h))
			continue;
		if (!best || h->granules > best->granules ||
		    (h->granules == best->granules &&
		     scar(pool, h) < scar(pool, best)))
			best = h;
	}
	return best;
}

static struct gp_handle *smallest(const struct gp_pool *pool,
				  struct gp_handle *h, uint32_t most)
{
	struct gp_handle *best = NULL;

	for (int i = 0; h && i < LOOKS; h = h->next, i++)
		if (h->granules <= most && finished(pool, h) &&
		    (!best || h->granules < best->granules))
			best = h;
	return best;
}

struct gp_handle *gp_backing_pick(struct gp_pool *pool, uint32_t granules,
				  uint32_t most)
{
	struct gp_backing *backing = &pool->backing;
	int fit = (int)bucket_of(backing, granules);
	struct gp_handle *h = NULL;

	if (granules > most)
		granules = most;
	for (int i = fit; i >= 0 && !h; i--)
		h = largest(pool, backing->idle[i].head, granules);
	for (int i = fit; i < GP_BACKING_BUCKETS && !h; i++)
		h = smallest(pool, backing->idle[i].head, most);
	return h;
}

uint64_t gp_backing_movable(const struct gp_pool *pool, uint64_t enough)
{
	uint64_t sum = 0;

	for (int i = GP_BACKING_BUCKETS - 1; i >= 0; i--)
		for (const struct gp_handle *h = pool->backing.idle[i].head;
		     h && sum < enough; h = h->next)
			if (finished(pool, h))
				sum += h->granules;
	return sum;
}

struct gp_handle *gp_backing_oldest(struct gp_pool *pool, uint64_t before)
{
	struct gp_handle *oldest = NULL;

	for (int i = 0; i < GP_BACKING_BUCKETS; i++) {
		struct gp_handle *h = pool->backing.idle[i].tail;

		while (h && h->idle_since <= before && !finished(pool, h))
			h = h->prev;
		if (h && h->idle_since <= before &&
		    (!oldest || h->idle_since < oldest->idle_since))
			oldest = h;
	}
	return oldest;
}

/* ---- mapped or not -------------------------------------------------------- */

static void set_map(struct gp_backing *backing, const struct gp_handle *h,
		    struct gp_handle *value)
{
	uint64_t first = h->granule >> backing->chunk_shift;
	uint64_t n = h->granules >> backing->chunk_shift;

	for (uint64_t i = 0; i < n; i++)
		__atomic_store_n(&backing->map[first + i], value,
				 __ATOMIC_RELEASE);
}

static uint64_t bytes_of(const struct gp_handle *handle)
{
	return (uint64_t)handle->granules << GP_GRANULE_SHIFT;
}

/* The handle counts for that part of the arena, no longer for another. */
static void belong(struct gp_pool *pool, struct gp_handle *handle,
		   enum gp_class class)
{
	struct gp_account *account = &pool->account;

	if (handle->class == class)
		return;
	if (handle->class) {
		gp_stat_sub(&account->class_reserved[handle->class],
			    bytes_of(handle));
		gp_stat_sub(&account->class_segments[handle->class], 1);
	}
	if (class) {
		gp_stat_add(&account->class_reserved[class], bytes_of(handle));
		gp_stat_add(&account->class_segments[class], 1);
	}
	handle->class = (uint8_t) class;
}

void gp_backing_attach(struct gp_pool *pool, struct gp_handle *handle,
		       uint64_t granule)
{
	belong(pool, handle,
	       granule < pool->regions[GP_REGION_LARGE].end ? GP_CLASS_LARGE
							    : GP_CLASS_SMALL);
	handle->granule = granule;
	handle->used = handle->granules;
	set_map(&pool->backing, handle, handle);
}

void gp_backing_detach(struct gp_pool *pool, struct gp_handle *handle)
{
	set_map(&pool->backing, handle, NULL);
}

void gp_backing_count(struct gp_pool *pool, struct gp_handle *handle)
{
	pool->backing.granules += handle->granules;
	pool->backing.count++;
	gp_stat_add(&pool->account.reserved, bytes_of(handle));
	gp_stat_add(&pool->account.segments, 1);
	if (pool->account.reserved.current > pool->account.most_reserved)
		pool->account.most_reserved = pool->account.reserved.current;
	if (pool->account.reserved.current > pool->account.section.reserved)
		pool->account.section.reserved = pool->account.reserved.current;
	if (bytes_of(handle) >= pool->config.max_split_size && handle->segment)
		gp_stat_add(&pool->account.oversize_segments, 1);
	__atomic_store_n(&pool->reserved, pool->account.reserved.current,
			 __ATOMIC_RELAXED);
}

void gp_backing_discount(struct gp_pool *pool, struct gp_handle *handle)
{
	pool->backing.granules -= handle->granules;
	pool->backing.count--;
	belong(pool, handle, GP_CLASS_ALL);
	gp_stat_sub(&pool->account.reserved, bytes_of(handle));
	gp_stat_sub(&pool->account.segments, 1);
	if (bytes_of(handle) >= pool->config.max_split_size && handle->segment)
		gp_stat_sub(&pool->account.oversize_segments, 1);
	__atomic_store_n(&pool->reserved, pool->account.reserved.current,
			 __ATOMIC_RELAXED);
}

void gp_backing_orphan(struct gp_pool *pool, struct gp_handle *handle)
{
	push(&pool->backing.orphans, handle);
	pool->backing.orphan_granules += handle->granules;
}

struct gp_handle *gp_backing_adopt(struct gp_pool *pool)
{
	struct gp_handle *handle = pool->backing.orphans.head;

	if (handle) {
		drop(&pool->backing.orphans, handle);
		pool->backing.orphan_granules -= handle->granules;
	}
	return handle;
}
