/*
 * The arena's tiles and tables; see arena.h.
 *
 * The tables are mapped in one piece without swap behind it and touched only
 * where the arena is used: 8 bytes for each 64 KiB.
 */
#include "pool/arena.h"

#include <errno.h>
#include <sys/mman.h>

#include "pool/mutation.h"

static void *map_table(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static uint64_t unit_of(const struct gp_block *b)
{
	return gp_block_granule(b) / GP_UNIT_GRANULES;
}

static void set_word(struct gp_arena *arena, uint64_t unit, uintptr_t word)
{
	__atomic_store_n(&arena->table[unit], word, __ATOMIC_RELEASE);
}

/* ---- starts --------------------------------------------------------------- */

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void mark(struct gp_arena *arena, uint64_t unit)
{
	for (int level = 0; level < GP_ARENA_LEVELS; level++) {
		uint64_t *word = &arena->starts[level][unit / 64];
		uint64_t old = load(word);

		__atomic_store_n(word, old | 1ull << unit % 64,
				 __ATOMIC_RELAXED);
		if (old)
			return;
		unit /= 64;
	}
}

static void unmark(struct gp_arena *arena, uint64_t unit)
{
	for (int level = 0; level < GP_ARENA_LEVELS; level++) {
		uint64_t *word = &arena->starts[level][unit / 64];
		uint64_t left = load(word) & ~(1ull << unit % 64);

		__atomic_store_n(word, left, __ATOMIC_RELAXED);
		if (left)
			return;
		unit /= 64;
	}
}

/* The highest marked unit up to this one, or UINT64_MAX. */
static uint64_t marked_before(const struct gp_arena *arena, uint64_t unit)
{
	uint64_t at = unit;
	uint64_t mask = ~0ull >> (63 - at % 64);
	int level = 0;

	while (!(load(&arena->starts[level][at / 64]) & mask)) {
		if (++level == GP_ARENA_LEVELS)
			return UINT64_MAX;
		at /= 64;
		mask = (1ull << at % 64) - 1;
	}
	for (;; level--) {
		uint64_t word = load(&arena->starts[level][at / 64]) & mask;

		if (!word)
			return UINT64_MAX;
		at = at / 64 * 64 + (63 - (unsigned)__builtin_clzll(word));
		if (level == 0)
			return at;
		at = at * 64 + 63;
		mask = ~0ull;
	}
}

struct gp_block *gp_arena_around(const struct gp_arena *arena, uint64_t granule)
{
	uint64_t unit = marked_before(arena, granule / GP_UNIT_GRANULES);

	if (unit == UINT64_MAX)
		return NULL;
	uintptr_t word = __atomic_load_n(&arena->table[unit], __ATOMIC_ACQUIRE);

	return word & 1 ? NULL : (struct gp_block *)word;
}

/* ---- tiles ------------------------------------------------------------------ */

static void begin(struct gp_arena *arena, struct gp_block *b)
{
	set_word(arena, unit_of(b), (uintptr_t)b);
	mark(arena, unit_of(b));
}

int gp_arena_init(struct gp_arena *arena, uint64_t bytes)
{
	*arena = (struct gp_arena){.units = bytes >> GP_UNIT_SHIFT};
	gp_objects_init(&arena->blocks, sizeof(struct gp_block));

	size_t words[GP_ARENA_LEVELS];
	uint64_t n = arena->units;

	for (int level = 0; level < GP_ARENA_LEVELS; level++) {
		n = n / 64 + 1;
		words[level] = n;
		arena->starts_bytes += n * sizeof(uint64_t);
	}
	arena->table_bytes = arena->units * sizeof(uintptr_t);
	arena->table = map_table(arena->table_bytes);
	uint64_t *starts = map_table(arena->starts_bytes);

	arena->starts[0] = starts;
	if (!arena->table || !starts || gp_objects_reserve(&arena->blocks, 1)) {
		gp_arena_exit(arena);
		return -ENOMEM;
	}
	for (int level = 0; level < GP_ARENA_LEVELS; level++) {
		arena->starts[level] = starts;
		starts += words[level];
	}
	arena->first = gp_objects_get(&arena->blocks);
	arena->first->granules = (uint32_t)(bytes >> GP_GRANULE_SHIFT);
	arena->first->tag = gp_tag(0, GP_VACANT);
	begin(arena, arena->first);
	return 0;
}

void gp_arena_exit(struct gp_arena *arena)
{
	if (arena->table)
		munmap(arena->table, arena->table_bytes);
	if (arena->starts[0])
		munmap(arena->starts[0], arena->starts_bytes);
	gp_objects_exit(&arena->blocks);
	*arena = (struct gp_arena){0};
}

struct gp_block *gp_tile_split(struct gp_arena *arena, struct gp_block *b,
			       uint32_t granules)
{
	struct gp_block *rest = gp_objects_get(&arena->blocks);

	rest->requested = 0;
	rest->owner = 0;
	rest->stamp = b->stamp;
	rest->granules = b->granules - granules;
	b->granules = granules;
	__atomic_store_n(&rest->tag, gp_tag(gp_block_end(b), gp_block_state(b)),
			 __ATOMIC_RELAXED);
	rest->prev = b;
	rest->next = b->next;
	rest->left = rest->right = NULL;
	if (b->next)
		b->next->prev = rest;
	b->next = rest;
	begin(arena, rest);
	return rest;
}

void gp_tile_join(struct gp_arena *arena, struct gp_block *b)
{
	struct gp_block *gone = b->next;

	unmark(arena, unit_of(gone));
	set_word(arena, unit_of(gone), 0);
	b->granules += gone->granules;
	if (gone->stamp > b->stamp && GP_HOLDS(JOINED_TAKE_LATEST)) /* [16] */
		b->stamp = gone->stamp;
	b->next = gone->next;
	if (b->next)
		b->next->prev = b;
	gp_objects_put(&arena->blocks, gone);
}

void gp_arena_set_slab(struct gp_arena *arena, struct gp_block *b,
		       struct gp_slab *slab)
{
	uint64_t unit = unit_of(b);

	for (uint32_t i = 0; i < b->granules / GP_UNIT_GRANULES; i++)
		set_word(arena, unit + i, (uintptr_t)slab | 1);
}

void gp_arena_clear_slab(struct gp_arena *arena, struct gp_block *b)
{
	uint64_t unit = unit_of(b);

	for (uint32_t i = 1; i < b->granules / GP_UNIT_GRANULES; i++)
		set_word(arena, unit + i, 0);
	set_word(arena, unit, (uintptr_t)b);
}
