#include "tests/sim/graph_pages.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/bodies.h"

struct sim_page {
	struct sim_phys *phys;
	unsigned mapped;       /* slots that it is behind */
	unsigned held;         /* of them, those with held memory */
	uint64_t stream;       /* whose launches share it; of a mapped one */
	uint64_t wanted;       /* the search that has chosen it */
	struct sim_run **runs; /* owned: work with it; references */
	size_t num_runs;
	struct sim_list link;
};

/* Of each device. Bytes. */
static struct graph_pool {
	struct sim_list pages, slots; /* slots: mapped ones */
	uint64_t reserved, reserved_high, used, used_high;
} pools[SIM_DEVICES_MAX];

static struct graph_pool *pool_of(const struct sim_device *device)
{
	struct graph_pool *pool = &pools[device->ordinal];

	if (!pool->pages.next) {
		sim_list_init(&pool->pages);
		sim_list_init(&pool->slots);
	}
	return pool;
}

static uint64_t num_pages(const struct sim_slot *slot)
{
	return slot->bytes / SIM_GRANULE;
}

/* ---- runs --------------------------------------------------------------------- */

void sim_run_unref(struct sim_run *run)
{
	if (!--run->refs)
		free(run);
}

void sim_run_done(struct sim_run *run)
{
	run->done = true;
}

/* Is any of the work not done? */
static bool busy(struct sim_page *page)
{
	size_t left = 0;

	for (size_t i = 0; i < page->num_runs; i++) {
		if (page->runs[i]->done)
			sim_run_unref(page->runs[i]);
		else
			page->runs[left++] = page->runs[i];
	}
	page->num_runs = left;
	return left;
}

static void use(struct sim_page *page, struct sim_run *run)
{
	void *more;

	busy(page); /* forgets what is done */
	more = realloc(page->runs, (page->num_runs + 1) * sizeof(*page->runs));
	if (!more)
		abort();
	page->runs = more;
	page->runs[page->num_runs++] = run;
	run->refs++;
}

/* ---- pages ---------------------------------------------------------------------- */

static struct sim_page *new_page(struct sim_device *device)
{
	struct graph_pool *pool = pool_of(device);
	struct sim_page *page = calloc(1, sizeof(*page));

	if (!page ||
	    sim_phys_create(device, SIM_GRANULE, false, true, &page->phys)) {
		free(page);
		return NULL;
	}
	sim_list_add(&pool->pages, &page->link);
	pool->reserved += SIM_GRANULE;
	return page;
}

static void free_page(struct graph_pool *pool, struct sim_page *page)
{
	sim_list_del(&page->link);
	pool->reserved -= SIM_GRANULE;
	sim_phys_unref(page->phys);
	free(page->runs);
	free(page);
}

static void map_page(struct sim_slot *slot, uint64_t i, struct sim_page *page)
{
	struct graph_pool *pool = pool_of(slot->device);
	struct sim_map *map = &slot->map[i];

	*map = (struct sim_map){
		.va = slot->va + i * SIM_GRANULE,
		.bytes = SIM_GRANULE,
		.phys = page->phys,
	};
	sim_map_add(map);
	slot->page[i] = page;
	page->held += slot->held > 0;
	if (!page->mapped++)
		pool->used += SIM_GRANULE;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
}

void sim_slot_unmap(struct sim_slot *slot)
{
	struct graph_pool *pool = pool_of(slot->device);

	if (!slot->page)
		return;
	for (uint64_t i = 0; i < num_pages(slot); i++) {
		struct sim_page *page = slot->page[i];

		sim_map_remove(&slot->map[i]);
		page->held -= slot->held > 0;
		if (!--page->mapped)
			pool->used -= SIM_GRANULE;
	}
	sim_list_del(&slot->link);
	free(slot->page);
	free(slot->map);
	slot->page = NULL;
	slot->map = NULL;
}

void sim_slot_hold(struct sim_slot *slot, int by)
{
	bool before = slot->held > 0, now;

	slot->held += (unsigned)by;
	now = slot->held > 0;
	for (uint64_t i = 0; slot->page && now != before && i < num_pages(slot);
	     i++)
		slot->page[i]->held += now ? 1u : -1u;
}

static bool in_use(const struct sim_slot *slot)
{
	for (uint64_t i = 0; i < num_pages(slot); i++)
		if (slot->page[i]->held || busy(slot->page[i]))
			return true;
	return false;
}

bool sim_graphs_trim(struct sim_device *device)
{
	struct graph_pool *pool = pool_of(device);
	uint64_t before = pool->reserved;
	struct sim_list *l, *next;

	for (l = pool->slots.next; l != &pool->slots; l = next) {
		struct sim_slot *slot = sim_entry(l, struct sim_slot, link);

		next = l->next;
		if (!in_use(slot))
			sim_slot_unmap(slot);
	}
	for (l = pool->pages.next; l != &pool->pages; l = next) {
		struct sim_page *page = sim_entry(l, struct sim_page, link);

		next = l->next;
		if (!page->mapped && !busy(page))
			free_page(pool, page);
	}
	return pool->reserved < before;
}

/* ---- slots ------------------------------------------------------------------------ */

struct sim_slot *sim_slot_new(struct sim_device *device, uint64_t bytes)
{
	struct sim_slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return NULL;
	slot->va = sim_va_take(bytes, SIM_GRANULE);
	if (!slot->va) {
		free(slot);
		return NULL;
	}
	slot->refs = 1;
	slot->device = device;
	slot->bytes = bytes;
	sim_list_init(&slot->link);
	return slot;
}

void sim_slot_unref(struct sim_slot *slot)
{
	if (--slot->refs)
		return;
	sim_slot_unmap(slot);
	sim_va_give(slot->va, slot->bytes, SIM_GRANULE);
	free(slot);
}

/* May a graph that is launched into this stream have the page? */
static bool fits(struct sim_page *page, uint64_t stream)
{
	if (page->held)
		return false;
	return page->mapped ? page->stream == stream : !busy(page);
}

/* Chooses as many pages as the slot has, of those that this search has not
 * chosen yet, and new ones. False: the device has no more. */
static bool choose(struct sim_slot *slot, uint64_t stream, uint64_t search,
		   struct sim_page **chosen)
{
	struct graph_pool *pool = pool_of(slot->device);
	uint64_t n = 0;
	struct sim_list *l;

	for (l = pool->pages.next; l != &pool->pages && n < num_pages(slot);
	     l = l->next) {
		struct sim_page *page = sim_entry(l, struct sim_page, link);

		if (page->wanted != search && fits(page, stream))
			chosen[n++] = page;
	}
	for (; n < num_pages(slot); n++) {
		chosen[n] = new_page(slot->device);
		if (!chosen[n])
			return false;
	}
	for (uint64_t i = 0; i < n; i++)
		chosen[i]->wanted = search;
	return true;
}

bool sim_slot_choose(struct sim_slot *slot, uint64_t stream, uint64_t search)
{
	slot->chosen = calloc(num_pages(slot), sizeof(*slot->chosen));
	if (slot->chosen && choose(slot, stream, search, slot->chosen))
		return true;
	sim_slot_forgo(slot);
	return false;
}

void sim_slot_claim(struct sim_slot *slot, uint64_t search)
{
	for (uint64_t i = 0; i < num_pages(slot); i++)
		slot->page[i]->wanted = search;
}

void sim_slot_forgo(struct sim_slot *slot)
{
	free(slot->chosen);
	slot->chosen = NULL;
}

bool sim_slot_map(struct sim_slot *slot, uint64_t stream)
{
	struct sim_map *map = calloc(num_pages(slot), sizeof(*map));

	if (!map)
		return false;
	sim_slot_unmap(slot);
	slot->map = map;
	slot->page = slot->chosen;
	slot->chosen = NULL;
	sim_list_add(&pool_of(slot->device)->slots, &slot->link);
	for (uint64_t i = 0; i < num_pages(slot); i++) {
		map_page(slot, i, slot->page[i]);
		slot->page[i]->stream = stream;
	}
	return true;
}

bool sim_slot_is_mapped(struct sim_slot *slot, uint64_t stream)
{
	for (uint64_t i = 0; slot->page && i < num_pages(slot); i++) {
		struct sim_page *page = slot->page[i];

		if (slot->held)
			page->stream = stream;
		if (page->stream != stream || page->held > (slot->held > 0))
			return false;
	}
	return slot->page;
}

void sim_slot_use(struct sim_slot *slot, struct sim_run *run)
{
	for (uint64_t i = 0; slot->page && i < num_pages(slot); i++)
		use(slot->page[i], run);
}

/* ---- as the program sees it ------------------------------------------------------------------ */

static uint64_t *field(struct graph_pool *pool, CUgraphMem_attribute attribute)
{
	switch (attribute) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		return &pool->reserved;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	default:
		return NULL;
	}
}

CUresult sim_graph_mem_get(CUdevice dev, CUgraphMem_attribute attribute,
			   void *value)
{
	struct sim_device *device = sim_device_of(dev);
	uint64_t *from;

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	from = field(pool_of(device), attribute);
	if (from)
		memcpy(value, from, sizeof(*from));
	sim_unlock();
	return from ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A high mark can only be taken back. */
CUresult sim_graph_mem_set(CUdevice dev, CUgraphMem_attribute attribute,
			   void *value)
{
	struct sim_device *device = sim_device_of(dev);
	struct graph_pool *pool;
	uint64_t zero = 1;

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (value)
		memcpy(&zero, value, sizeof(zero));
	if (zero)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
	    attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	pool = pool_of(device);
	*field(pool, attribute) = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
					  ? pool->used
					  : pool->reserved;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_graph_mem_trim(CUdevice dev)
{
	struct sim_device *device = sim_device_of(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	sim_graphs_trim(device);
	sim_unlock();
	return CUDA_SUCCESS;
}
