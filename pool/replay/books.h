/*
 * Numbered ranges in an ordered set: the cost driver's books.
 */
#ifndef GP_REPLAY_BOOKS_H
#define GP_REPLAY_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/replay/sorted.h"

/* A range of addresses: a reservation, a mapping or a segment; or a handle,
 * whose start is its number. */
struct gp_entry {
	struct gp_sorted_node node;
	uint64_t start, bytes;
	uint64_t handle; /* mappings */
	bool mapped;     /* handles: is mapped */
	bool was_mapped; /* handles: has ever been */
};

void gp_books_init(struct gp_sorted *set);
/* The range that starts at `start`, else NULL. */
struct gp_entry *gp_books_at(struct gp_sorted *set, uint64_t start);
/* The last range that starts at or before `address`, else NULL. */
struct gp_entry *gp_books_before(struct gp_sorted *set, uint64_t address);
/* NULL: out of host memory. The set owns it. */
struct gp_entry *gp_books_add(struct gp_sorted *set, uint64_t start,
			      uint64_t bytes);
void gp_books_drop(struct gp_sorted *set, struct gp_entry *range);
void gp_books_clear(struct gp_sorted *set);

#endif
