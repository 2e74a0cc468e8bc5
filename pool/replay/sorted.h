/*
 * An ordered set of nodes that live inside other structures (a treap). Not
 * thread-safe. The order is the owner's; equal elements must not be inserted.
 */
#ifndef GP_REPLAY_SORTED_H
#define GP_REPLAY_SORTED_H

#include <stddef.h>
#include <stdint.h>

struct gp_sorted_node {
	struct gp_sorted_node *parent, *left, *right;
	uint32_t priority; /* a parent's is at least its children's */
};

typedef int gp_sorted_compare(const struct gp_sorted_node *a,
			      const struct gp_sorted_node *b);

struct gp_sorted {
	struct gp_sorted_node *root;
	gp_sorted_compare *compare;
	uint32_t random; /* state of the priorities; a fixed start: replays
			  * are the same every time */
};

#define gp_sorted_entry(node, type, member) \
	((type *)(void *)((char *)(node)-offsetof(type, member)))

void gp_sorted_init(struct gp_sorted *set, gp_sorted_compare *compare);
void gp_sorted_insert(struct gp_sorted *set, struct gp_sorted_node *node);
void gp_sorted_erase(struct gp_sorted *set, struct gp_sorted_node *node);

/* The first node that is not before key; NULL if all are. */
struct gp_sorted_node *gp_sorted_lower_bound(const struct gp_sorted *set,
					     const struct gp_sorted_node *key);
/* NULL at the end, and for an empty set. */
struct gp_sorted_node *gp_sorted_first(const struct gp_sorted *set);
struct gp_sorted_node *gp_sorted_last(const struct gp_sorted *set);
struct gp_sorted_node *gp_sorted_next(struct gp_sorted_node *node);
struct gp_sorted_node *gp_sorted_prev(struct gp_sorted_node *node);

#endif
