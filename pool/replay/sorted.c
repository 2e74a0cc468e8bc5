/*
 * Treap: a search tree whose shape is that of random insertion, kept by
 * rotations around random priorities.
 */
#include "pool/replay/sorted.h"

void gp_sorted_init(struct gp_sorted *set, gp_sorted_compare *compare)
{
	set->root = NULL;
	set->compare = compare;
	set->random = 2463534242u;
}

static uint32_t next_priority(struct gp_sorted *set)
{
	set->random ^= set->random << 13;
	set->random ^= set->random >> 17;
	set->random ^= set->random << 5;
	return set->random;
}

/* Puts `child` (may be NULL) where `node` hangs. */
static void replace(struct gp_sorted *set, struct gp_sorted_node *node,
		    struct gp_sorted_node *child)
{
	struct gp_sorted_node *parent = node->parent;

	if (!parent)
		set->root = child;
	else if (parent->left == node)
		parent->left = child;
	else
		parent->right = child;
	if (child)
		child->parent = parent;
}

/* Lifts `node` above its parent. */
static void rotate_up(struct gp_sorted *set, struct gp_sorted_node *node)
{
	struct gp_sorted_node *parent = node->parent, *middle;

	replace(set, parent, node);
	if (parent->left == node) {
		middle = node->right;
		node->right = parent;
		parent->left = middle;
	} else {
		middle = node->left;
		node->left = parent;
		parent->right = middle;
	}
	parent->parent = node;
	if (middle)
		middle->parent = parent;
}

void gp_sorted_insert(struct gp_sorted *set, struct gp_sorted_node *node)
{
	struct gp_sorted_node **link = &set->root, *parent = NULL;

	while (*link) {
		parent = *link;
		link = set->compare(node, parent) < 0 ? &parent->left
						      : &parent->right;
	}
	node->parent = parent;
	node->left = node->right = NULL;
	node->priority = next_priority(set);
	*link = node;
	while (node->parent && node->parent->priority < node->priority)
		rotate_up(set, node);
}

void gp_sorted_erase(struct gp_sorted *set, struct gp_sorted_node *node)
{
	while (node->left && node->right)
		rotate_up(set, node->left->priority > node->right->priority
				       ? node->left
				       : node->right);
	replace(set, node, node->left ? node->left : node->right);
}

struct gp_sorted_node *gp_sorted_lower_bound(const struct gp_sorted *set,
					     const struct gp_sorted_node *key)
{
	struct gp_sorted_node *node = set->root, *found = NULL;

	while (node) {
		if (set->compare(node, key) < 0) {
			node = node->right;
		} else {
			found = node;
			node = node->left;
		}
	}
	return found;
}

struct gp_sorted_node *gp_sorted_first(const struct gp_sorted *set)
{
	struct gp_sorted_node *node = set->root;

	while (node && node->left)
		node = node->left;
	return node;
}

struct gp_sorted_node *gp_sorted_last(const struct gp_sorted *set)
{
	struct gp_sorted_node *node = set->root;

	while (node && node->right)
		node = node->right;
	return node;
}

struct gp_sorted_node *gp_sorted_next(struct gp_sorted_node *node)
{
	if (node->right) {
		node = node->right;
		while (node->left)
			node = node->left;
		return node;
	}
	while (node->parent && node->parent->right == node)
		node = node->parent;
	return node->parent;
}

struct gp_sorted_node *gp_sorted_prev(struct gp_sorted_node *node)
{
	if (node->left) {
		node = node->left;
		while (node->right)
			node = node->right;
		return node;
	}
	while (node->parent && node->parent->left == node)
		node = node->parent;
	return node->parent;
}
