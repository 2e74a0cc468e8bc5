/*
 * A map from 64-bit ids to 32-bit indices: open addressing, one array. Not
 * thread-safe. Zeroed memory is an empty map.
 */
#ifndef GP_REPLAY_IDMAP_H
#define GP_REPLAY_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_idmap_entry {
	uint64_t id;
	uint32_t index;
	bool used;
};

struct gp_idmap {
	struct gp_idmap_entry *entries;
	size_t capacity; /* a power of two, or 0 */
	size_t count;
};

/* False if the id is not there; *index is then untouched. */
bool gp_idmap_get(const struct gp_idmap *map, uint64_t id, uint32_t *index);
/* As get, and removes the id. */
bool gp_idmap_take(struct gp_idmap *map, uint64_t id, uint32_t *index);
/* Adds an id that is not there. 0 or -ENOMEM. */
int gp_idmap_put(struct gp_idmap *map, uint64_t id, uint32_t index);
/* Frees the entries; the map is empty and may be used again. */
void gp_idmap_clear(struct gp_idmap *map);

#endif
