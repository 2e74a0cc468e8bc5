/*
 * The bins of free ranges and their trees; see ranges.h.
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

static unsigned bin_of(uint32_t granules)
{
	uint32_t units = granules / GP_UNIT_GRANULES;

	return units < GP_RANGES_BINS ? units : GP_RANGES_BINS - 1;
}

static struct gp_block *lowest(struct gp_block *at)
{
	while (at->left)
		at = at->left;
	return at;
}

/* The lowest range of the first bin from this one on, or NULL. */
static inline struct gp_block *first_from(const struct gp_ranges *ranges,
					  unsigned bin)
{
	unsigned word = bin / 64;
	uint64_t bits;

	if (bin == GP_RANGES_BINS)
		return NULL;
	bits = ranges->used[word] & ~0ull << bin % 64;
	if (!bits) {
		uint64_t more = ranges->summary & ~1ull << word;

		if (!more)
			return NULL;
		word = (unsigned)__builtin_ctzll(more);
		bits = ranges->used[word];
	}
	return lowest(
		ranges->bins[word * 64 + (unsigned)__builtin_ctzll(bits)]);
}

void gp_ranges_insert(struct gp_ranges *ranges, struct gp_block *b)
{
	unsigned bin = bin_of(b->granules);
	struct gp_block **link = &ranges->bins[bin];

	ranges->count++;
	ranges->granules += b->granules;
	if (!*link) {
		ranges->used[bin / 64] |= 1ull << bin % 64;
		ranges->summary |= 1ull << bin / 64;
		b->left = b->right = NULL;
		*link = b;
		return;
	}

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
}

void gp_ranges_remove(struct gp_ranges *ranges, struct gp_block *b)
{
	unsigned bin = bin_of(b->granules);
	struct gp_block **link = &ranges->bins[bin];

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
	if (!ranges->bins[bin]) {
		ranges->used[bin / 64] &= ~(1ull << bin % 64);
		if (!ranges->used[bin / 64])
			ranges->summary &= ~(1ull << bin / 64);
	}
	ranges->count--;
	ranges->granules -= b->granules;
}

struct gp_block *gp_ranges_best(const struct gp_ranges *ranges,
				uint32_t granules)
{
	unsigned bin = bin_of(granules);
	struct gp_block *at = ranges->bins[bin], *best = NULL;

	while (at) {
		if (at->granules >= granules) {
			best = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return best ? best : first_from(ranges, bin + 1);
}

struct gp_block *gp_ranges_next(const struct gp_ranges *ranges,
				const struct gp_block *b)
{
	unsigned bin = bin_of(b->granules);
	struct gp_block *at = ranges->bins[bin], *next = NULL;

	if (b->right)
		return lowest(b->right);
	while (at != b) {
		if (before(b, at)) {
			next = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return next ? next : first_from(ranges, bin + 1);
}
