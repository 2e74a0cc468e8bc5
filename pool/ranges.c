/*
 * The tree of free ranges; see ranges.h.
 *
 * A node's priority is a hash of its descriptor's address: nothing to store,
 * and no pattern of requests can unbalance it. No recursion.
 */
#include "pool/ranges.h"

#include <stdbool.h>
#include <stddef.h>

static uint64_t priority(const struct gp_block *b)
{
	uint64_t x = (uint64_t)(uintptr_t)b;

	x ^= x >> 31;
	x *= 0x9e3779b97f4a7c15ull;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

/* Size first, then address. */
static bool before(const struct gp_block *a, const struct gp_block *b)
{
	if (a->granules != b->granules)
		return a->granules < b->granules;
	return gp_block_granule(a) < gp_block_granule(b);
}

void gp_ranges_insert(struct gp_ranges *ranges, struct gp_block *b)
{
	struct gp_block **link = &ranges->root;
	uint64_t mine = priority(b);

	while (*link && priority(*link) >= mine)
		link = before(b, *link) ? &(*link)->left : &(*link)->right;

	/* What hangs here is split around b. */
	struct gp_block *rest = *link;
	struct gp_block **below = &b->left, **above = &b->right;

	*link = b;
	while (rest) {
		if (before(rest, b)) {
			*below = rest;
			below = &rest->right;
			rest = rest->right;
		} else {
			*above = rest;
			above = &rest->left;
			rest = rest->left;
		}
	}
	*below = *above = NULL;
	ranges->count++;
	ranges->granules += b->granules;
}

void gp_ranges_remove(struct gp_ranges *ranges, struct gp_block *b)
{
	struct gp_block **link = &ranges->root;

	while (*link != b)
		link = before(b, *link) ? &(*link)->left : &(*link)->right;

	/* Its two subtrees are merged in its place. */
	struct gp_block *left = b->left, *right = b->right;

	while (left && right) {
		if (priority(left) >= priority(right)) {
			*link = left;
			link = &left->right;
			left = left->right;
		} else {
			*link = right;
			link = &right->left;
			right = right->left;
		}
	}
	*link = left ? left : right;
	b->left = b->right = NULL;
	ranges->count--;
	ranges->granules -= b->granules;
}

struct gp_block *gp_ranges_best(const struct gp_ranges *ranges,
				uint32_t granules)
{
	struct gp_block *at = ranges->root, *best = NULL;

	while (at) {
		if (at->granules >= granules) {
			best = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return best;
}

struct gp_block *gp_ranges_next(const struct gp_ranges *ranges,
				const struct gp_block *b)
{
	struct gp_block *at = ranges->root, *next = NULL;

	while (at) {
		if (before(b, at)) {
			next = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return next;
}

struct gp_block *gp_ranges_largest(const struct gp_ranges *ranges)
{
	struct gp_block *at = ranges->root;

	while (at && at->right)
		at = at->right;
	return at;
}
