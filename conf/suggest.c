/*
 * "Did you mean": the known key at the smallest edit distance.
 */
#include <string.h>

#include "conf/value.h"

#define MAX_KEY 48

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn one
 * into the other; both at most MAX_KEY long. */
static size_t distance(struct gp_span a, struct gp_span b)
{
	unsigned char rows[3][MAX_KEY + 1];
	unsigned char *before = rows[0], *above = rows[1], *here = rows[2];

	for (size_t j = 0; j <= b.len; j++)
		above[j] = (unsigned char)j;
	for (size_t i = 1; i <= a.len; i++) {
		unsigned char *oldest = before;

		here[0] = (unsigned char)i;
		for (size_t j = 1; j <= b.len; j++) {
			const char x = a.at[i - 1], y = b.at[j - 1];
			size_t best = above[j - 1] + (size_t)(x != y);

			best = min(best, min(above[j], here[j - 1]) + 1u);
			if (i > 1 && j > 1 && x == b.at[j - 2] &&
			    a.at[i - 2] == y)
				best = min(best, before[j - 2] + 1u);
			here[j] = (unsigned char)best;
		}
		before = above;
		above = here;
		here = oldest;
	}
	return above[b.len];
}

static void consider(struct gp_span key, const char *known, size_t *best,
		     const char **nearest)
{
	const struct gp_span other = {known, strlen(known)};
	const size_t apart =
		key.len < other.len ? other.len - key.len : key.len - other.len;
	size_t cost = *best;

	/* "roundup" is near, whatever the distance: the key is only cut. */
	if (key.len >= 4 && other.len > key.len &&
	    !memcmp(key.at, known, key.len))
		cost = 1;
	if (apart < cost)
		cost = min(cost, distance(key, other));
	if (cost < *best) {
		*best = cost;
		*nearest = known;
	}
}

const char *gp_conf_suggest(struct gp_span key)
{
	char lowered[MAX_KEY];
	const char *nearest = NULL;
	size_t best = key.len / 3 + 2; /* farther is no likeness */

	if (key.len > MAX_KEY)
		return NULL;
	for (size_t i = 0; i < key.len; i++) {
		const char c = key.at[i];

		lowered[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
	}
	key.at = lowered;
	for (size_t i = 0; i < gp_conf_count(); i++)
		consider(key, gp_conf_option(i)->key, &best, &nearest);
	for (size_t i = 0; i < gp_conf_num_foreign; i++)
		consider(key, gp_conf_foreigners[i].key, &best, &nearest);
	return nearest;
}
