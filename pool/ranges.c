/*
 * The bins of free ranges and their lists; see ranges.h.
 */
#include "pool/ranges.h"

#include <stddef.h>

/* The bin of ranges of at least so many granules. */
static unsigned bin_from(uint32_t granules)
{
	uint32_t units = (granules + GP_UNIT_GRANULES - 1) / GP_UNIT_GRANULES;

	return units < GP_RANGES_BINS ? units : GP_RANGES_BINS - 1;
}

/* The first range of the first bin from this one on, or NULL. */
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
	return ranges->bins[word * 64 + (unsigned)__builtin_ctzll(bits)];
}

void gp_ranges_insert(struct gp_ranges *ranges, struct gp_block *b)
{
	unsigned bin = bin_from(b->granules);
	struct gp_block **link = &ranges->bins[bin];
	struct gp_block *before = NULL, *after = *link;

	ranges->used[bin / 64] |= 1ull << bin % 64;
	ranges->summary |= 1ull << bin / 64;
	while (after && (after->granules < b->granules ||
			 (!before && after->granules == b->granules &&
			  gp_block_granule(after) < gp_block_granule(b)))) {
		before = after;
		link = &before->right;
		after = *link;
	}
	b->left = before;
	b->right = after;
	if (after)
		after->left = b;
	*link = b;
}

void gp_ranges_remove(struct gp_ranges *ranges, struct gp_block *b)
{
	if (b->right)
		b->right->left = b->left;
	if (b->left) {
		b->left->right = b->right;
	} else {
		unsigned bin = bin_from(b->granules);

		ranges->bins[bin] = b->right;
		if (!b->right) {
			ranges->used[bin / 64] &= ~(1ull << bin % 64);
			if (!ranges->used[bin / 64])
				ranges->summary &= ~(1ull << bin / 64);
		}
	}
	b->left = b->right = NULL;
}

struct gp_block *gp_ranges_best(const struct gp_ranges *ranges,
				uint32_t granules)
{
	unsigned bin = bin_from(granules);
	struct gp_block *at;

	if (bin < GP_RANGES_BINS - 1)
		return first_from(ranges, bin);
	at = ranges->bins[bin];
	while (at && at->granules < granules)
		at = at->right;
	return at;
}

struct gp_block *gp_ranges_next(const struct gp_ranges *ranges,
				const struct gp_block *b)
{
	return b->right ? b->right
			: first_from(ranges, bin_from(b->granules) + 1);
}
