/*
 * Ranges by their start.
 */
#include "pool/replay/books.h"

#include <stdlib.h>

static struct gp_entry *range_of(struct gp_sorted_node *node)
{
	return gp_sorted_entry(node, struct gp_entry, node);
}

static int by_start(const struct gp_sorted_node *a,
		    const struct gp_sorted_node *b)
{
	uint64_t x = gp_sorted_entry(a, struct gp_entry, node)->start;
	uint64_t y = gp_sorted_entry(b, struct gp_entry, node)->start;

	return (x > y) - (x < y);
}

void gp_books_init(struct gp_sorted *set)
{
	gp_sorted_init(set, by_start);
}

struct gp_entry *gp_books_at(struct gp_sorted *set, uint64_t start)
{
	struct gp_entry key = {.start = start};
	struct gp_sorted_node *node = gp_sorted_lower_bound(set, &key.node);

	return node && range_of(node)->start == start ? range_of(node) : NULL;
}

struct gp_entry *gp_books_before(struct gp_sorted *set, uint64_t address)
{
	struct gp_entry key = {.start = address + 1};
	struct gp_sorted_node *node = gp_sorted_lower_bound(set, &key.node);

	node = node ? gp_sorted_prev(node) : gp_sorted_last(set);
	return node ? range_of(node) : NULL;
}

struct gp_entry *gp_books_add(struct gp_sorted *set, uint64_t start,
			      uint64_t bytes)
{
	struct gp_entry *range = calloc(1, sizeof(*range));

	if (!range)
		return NULL;
	range->start = start;
	range->bytes = bytes;
	gp_sorted_insert(set, &range->node);
	return range;
}

void gp_books_drop(struct gp_sorted *set, struct gp_entry *range)
{
	gp_sorted_erase(set, &range->node);
	free(range);
}

void gp_books_clear(struct gp_sorted *set)
{
	while (set->root)
		gp_books_drop(set, range_of(set->root));
}
