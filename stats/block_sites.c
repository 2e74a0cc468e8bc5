/* Stacks of live blocks; see block_sites.h. */
#include "stats/block_sites.h"

#include <string.h>

#define SLOTS (2ull * GP_BLOCK_FRAMES) /* a power of two */

void gp_block_sites_clear(struct gp_block_sites *sites)
{
	/* Pages that nobody wrote to stay untouched. */
	if (sites->num_sites) {
		memset(sites->numbers, 0, sizeof(sites->numbers));
		memset(sites->slots, 0, sizeof(sites->slots));
	}
	sites->num_sites = 1;
	sites->num_frames = sites->left_out = 0;
	sites->ends[0] = 0;
}

/* From 1; 0: there is no room. */
static uint16_t number_of_frame(struct gp_block_sites *sites, uint64_t frame)
{
	uint64_t i = (frame * 0x9e3779b97f4a7c15ull >> 32) % SLOTS;

	for (; sites->slots[i]; i = (i + 1) % SLOTS)
		if (sites->frames[sites->slots[i] - 1] == frame)
			return sites->slots[i];
	if (sites->num_frames == GP_BLOCK_FRAMES)
		return 0;
	sites->frames[sites->num_frames++] = frame;
	sites->slots[i] = (uint16_t)sites->num_frames;
	return sites->slots[i];
}

static uint16_t number_of_stack(struct gp_block_sites *sites,
				const struct gp_stack *stack)
{
	uint32_t end = sites->ends[sites->num_sites - 1];

	for (unsigned i = 0; i < stack->python + stack->native; i++) {
		uint16_t frame = number_of_frame(sites, stack->frames[i]);

		if (frame)
			sites->stacks[end++] = frame - 1u;
		else
			sites->left_out++;
	}
	sites->ends[sites->num_sites] = end;
	return (uint16_t)sites->num_sites++;
}

void gp_block_sites_add(struct gp_block_sites *sites,
			struct gp_layout_range *blocks, size_t n)
{
	struct gp_stack stack;

	for (size_t i = 0; i < n; i++) {
		uint64_t site = blocks[i].site;

		if (site && !sites->numbers[site]) {
			gp_sites_numbered((uint32_t)site, &stack);
			sites->numbers[site] = number_of_stack(sites, &stack);
		}
		blocks[i].site = sites->numbers[site];
	}
}
