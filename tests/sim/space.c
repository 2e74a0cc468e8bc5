/*
 * The address space of the devices: who has which addresses.
 *
 * One window for all devices, taken from the kernel without access, so that
 * no host memory can ever lie in it and touching it from the host is a crash.
 * Addresses that come back are given out again first, the last one first:
 * like the real driver, and hard on whoever keeps a stale one.
 *
 * Regions and mappings are in libc's trees; the comparison calls two
 * overlapping ranges equal, so a search for one byte finds what holds it.
 */
#define _GNU_SOURCE
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/sim/sim.h"

#define WINDOW_MAX (16ull << 40)
#define WINDOW_MIN (1ull << 39)

/* Far from where the kernel puts mappings, and in nobody's way. */
#define WINDOW_AT  0x400000000000ull

static uint64_t window, window_end, next_granule; /* next: never given out */
static uint64_t small_next, small_end;            /* the part-used granule */
static void *regions, *maps, *bins;

/* Addresses that came back, by size and alignment. */
struct bin {
	uint64_t span, align;
	size_t n, room;
	CUdeviceptr *va;
};

struct range {
	CUdeviceptr va;
	uint64_t bytes;
};

/* The trees hold these; the owner is found through the address. */
struct node {
	struct range range;
	void *owner;
};

static int compare_ranges(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	if (a->va + a->bytes <= b->va)
		return -1;
	return a->va >= b->va + b->bytes;
}

static int compare_bins(const void *left, const void *right)
{
	const struct bin *a = left, *b = right;

	if (a->span != b->span)
		return a->span < b->span ? -1 : 1;
	if (a->align != b->align)
		return a->align < b->align ? -1 : 1;
	return 0;
}

/* Not mmap(): a sanitizer's wrapper would want to shadow it. */
static uint64_t reserve(uint64_t at, uint64_t bytes)
{
	long got = syscall(SYS_mmap, at, bytes, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				   (at ? MAP_FIXED_NOREPLACE : 0),
			   -1, 0);

	return got == -1 ? 0 : (uint64_t)got;
}

int sim_space_init(void)
{
	uint64_t bytes = WINDOW_MAX;
	uint64_t at = reserve(WINDOW_AT, bytes);

	/* Under the thread sanitizer little is left: take what there is. */
	while (!at && bytes >= WINDOW_MIN) {
		at = reserve(0, bytes);
		if (!at)
			bytes /= 2;
	}
	if (!at)
		return -1;
	window = at;
	window_end = at + bytes;
	next_granule = (at + SIM_GRANULE - 1) & ~(SIM_GRANULE - 1);
	return 0;
}

bool sim_is_device_va(CUdeviceptr va)
{
	return va >= window && va < window_end;
}

static CUdeviceptr fresh(uint64_t span, uint64_t align)
{
	CUdeviceptr va = (next_granule + align - 1) & ~(align - 1);

	if (span > window_end - window || va + span > window_end)
		return 0;
	next_granule = va + ((span + SIM_GRANULE - 1) & ~(SIM_GRANULE - 1));
	return va;
}

static CUdeviceptr fresh_small(uint64_t span, uint64_t align)
{
	CUdeviceptr va = (small_next + align - 1) & ~(align - 1);

	if (!small_next || va + span > small_end) {
		va = fresh(SIM_GRANULE, SIM_GRANULE);
		if (!va)
			return 0;
		small_end = va + SIM_GRANULE;
	}
	small_next = va + span;
	return va;
}

CUdeviceptr sim_va_take(uint64_t span, uint64_t align)
{
	struct bin key = {.span = span, .align = align}, **found;

	found = tfind(&key, &bins, compare_bins);
	if (found && (*found)->n)
		return (*found)->va[--(*found)->n];
	return span <= SIM_SMALL ? fresh_small(span, align)
				 : fresh(span, align);
}

void sim_va_give(CUdeviceptr va, uint64_t span, uint64_t align)
{
	struct bin key = {.span = span, .align = align}, **found, *bin;

	found = tfind(&key, &bins, compare_bins);
	bin = found ? *found : NULL;
	if (!bin) {
		bin = calloc(1, sizeof(*bin));
		if (!bin)
			return; /* addresses are plenty */
		*bin = key;
		if (!tsearch(bin, &bins, compare_bins)) {
			free(bin);
			return;
		}
	}
	if (bin->n == bin->room) {
		size_t room = bin->room ? bin->room * 2 : 8;
		CUdeviceptr *more = realloc(bin->va, room * sizeof(*more));

		if (!more)
			return;
		bin->va = more;
		bin->room = room;
	}
	bin->va[bin->n++] = va;
}

static void *find_within(void **tree, CUdeviceptr va, uint64_t bytes)
{
	struct range key = {va, bytes};
	struct node **found = tfind(&key, tree, compare_ranges);

	return found ? (*found)->owner : NULL;
}

static void *find(void **tree, CUdeviceptr va)
{
	return find_within(tree, va, 1);
}

static bool insert(void **tree, CUdeviceptr va, uint64_t bytes, void *owner)
{
	struct node *node = calloc(1, sizeof(*node)), **found;

	if (!node)
		return false;
	node->range.va = va;
	node->range.bytes = bytes;
	node->owner = owner;
	found = tsearch(node, tree, compare_ranges);
	if (found && *found == node)
		return true;
	free(node);
	return false;
}

static void erase(void **tree, CUdeviceptr va)
{
	struct range key = {va, 1};
	struct node **found = tfind(&key, tree, compare_ranges), *node;

	if (!found)
		return;
	node = *found;
	tdelete(&key, tree, compare_ranges);
	free(node);
}

struct sim_region *sim_region_at(CUdeviceptr va)
{
	return find(&regions, va);
}

struct sim_map *sim_map_at(CUdeviceptr va)
{
	return find(&maps, va);
}

bool sim_map_within(CUdeviceptr va, uint64_t bytes)
{
	return find_within(&maps, va, bytes);
}

bool sim_region_add(struct sim_region *region)
{
	return insert(&regions, region->va, region->span, region);
}

void sim_region_remove(struct sim_region *region)
{
	erase(&regions, region->va);
}

bool sim_map_add(struct sim_map *map)
{
	return insert(&maps, map->va, map->bytes, map);
}

void sim_map_remove(struct sim_map *map)
{
	erase(&maps, map->va);
}
