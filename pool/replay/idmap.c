/*
 * Linear probing at a load of at most one half; removal shifts the following
 * entries back, so that there are no tombstones to pile up in a long trace.
 */
#include "pool/replay/idmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t home(const struct gp_idmap *map, uint64_t id)
{
	/* Fibonacci hashing: ids are mostly consecutive or addresses. */
	return (size_t)((id * 0x9e3779b97f4a7c15ull) >> 20) &
	       (map->capacity - 1);
}

static struct gp_idmap_entry *find(const struct gp_idmap *map, uint64_t id)
{
	size_t i;

	if (!map->capacity)
		return NULL;
	for (i = home(map, id); map->entries[i].used;
	     i = (i + 1) & (map->capacity - 1)) {
		if (map->entries[i].id == id)
			return &map->entries[i];
	}
	return NULL;
}

static void place(struct gp_idmap *map, uint64_t id, uint32_t index)
{
	size_t i = home(map, id);

	while (map->entries[i].used)
		i = (i + 1) & (map->capacity - 1);
	map->entries[i].id = id;
	map->entries[i].index = index;
	map->entries[i].used = true;
}

static int grow(struct gp_idmap *map)
{
	struct gp_idmap bigger = {
		.capacity = map->capacity ? 2 * map->capacity : 256,
		.count = map->count,
	};
	size_t i;

	bigger.entries = calloc(bigger.capacity, sizeof(*bigger.entries));
	if (!bigger.entries)
		return -ENOMEM;
	for (i = 0; i < map->capacity; i++) {
		if (map->entries[i].used)
			place(&bigger, map->entries[i].id,
			      map->entries[i].index);
	}
	free(map->entries);
	*map = bigger;
	return 0;
}

bool gp_idmap_get(const struct gp_idmap *map, uint64_t id, uint32_t *index)
{
	struct gp_idmap_entry *entry = find(map, id);

	if (!entry)
		return false;
	*index = entry->index;
	return true;
}

bool gp_idmap_take(struct gp_idmap *map, uint64_t id, uint32_t *index)
{
	struct gp_idmap_entry *entry = find(map, id);
	size_t mask = map->capacity - 1, hole, i;

	if (!entry)
		return false;
	*index = entry->index;
	hole = (size_t)(entry - map->entries);
	for (i = (hole + 1) & mask; map->entries[i].used; i = (i + 1) & mask) {
		/* Entry i may move back unless its home is behind the hole. */
		if (((i - home(map, map->entries[i].id)) & mask) >=
		    ((i - hole) & mask)) {
			map->entries[hole] = map->entries[i];
			hole = i;
		}
	}
	map->entries[hole].used = false;
	map->count--;
	return true;
}

int gp_idmap_put(struct gp_idmap *map, uint64_t id, uint32_t index)
{
	if (2 * (map->count + 1) > map->capacity && grow(map))
		return -ENOMEM;
	place(map, id, index);
	map->count++;
	return 0;
}

void gp_idmap_clear(struct gp_idmap *map)
{
	free(map->entries);
	memset(map, 0, sizeof(*map));
}
