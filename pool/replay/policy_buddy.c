/*
 * A buddy system: every size a power of two, a block is split in halves until
 * it fits and merged with its other half as soon as that is free. Finding,
 * splitting and merging cost a handful of steps; rounding up costs memory.
 *
 * Memory comes from the driver in blocks of 32 MiB, or of the request's power
 * of two where that is larger.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "pool/replay/policy.h"

#define MIN_ORDER 9  /* 512 B */
#define TOP_ORDER 25 /* 32 MiB */
#define MAX_ORDER 49

/* A node of the tree of halves. Only leaves hold memory. */
struct buddy {
	struct buddy *parent, *half[2]; /* half: NULL in a leaf */
	struct buddy *prev, *next;      /* in the list of free ones */
	uint64_t va;
	uint8_t order;
	bool is_free;
};

struct buddies {
	struct gp_driver driver;
	struct buddy *free[MAX_ORDER + 1]; /* lists by order */
};

static void push(struct buddies *s, struct buddy *b)
{
	b->is_free = true;
	b->prev = NULL;
	b->next = s->free[b->order];
	if (b->next)
		b->next->prev = b;
	s->free[b->order] = b;
}

static void pull(struct buddies *s, struct buddy *b)
{
	b->is_free = false;
	if (b->prev)
		b->prev->next = b->next;
	else
		s->free[b->order] = b->next;
	if (b->next)
		b->next->prev = b->prev;
}

static struct buddy *node_new(struct buddy *parent, uint64_t va, unsigned order)
{
	struct buddy *b = calloc(1, sizeof(*b));

	if (!b)
		abort();
	b->parent = parent;
	b->va = va;
	b->order = (uint8_t)order;
	return b;
}

static void give_back(struct buddies *s)
{
	unsigned order;

	for (order = TOP_ORDER; order <= MAX_ORDER; order++) {
		struct buddy *b = s->free[order], *next;

		for (; b; b = next) {
			next = b->next;
			if (b->parent)
				continue;
			pull(s, b);
			s->driver.ops->segment_free(s->driver.dev, b->va,
						    1ull << order);
			free(b);
		}
	}
}

static int new_top(struct buddies *s, unsigned order, struct buddy **b)
{
	const struct gp_driver *d = &s->driver;
	uint64_t va;
	int err;

	if (order < TOP_ORDER)
		order = TOP_ORDER;
	err = d->ops->segment_alloc(d->dev, 1ull << order, &va);
	if (err == -ENOMEM) {
		give_back(s);
		err = d->ops->segment_alloc(d->dev, 1ull << order, &va);
	}
	if (!err)
		*b = node_new(NULL, va, order);
	return err;
}

static int buddy_alloc(void *state, uint64_t bytes, uint32_t stream,
		       struct gp_placement *placement)
{
	struct buddies *s = state;
	unsigned want = MIN_ORDER, order;
	struct buddy *b = NULL;
	int err;

	(void)stream;
	while ((1ull << want) < bytes)
		want++;
	for (order = want; order <= MAX_ORDER && !s->free[order]; order++)
		;
	if (order <= MAX_ORDER) {
		b = s->free[order];
		pull(s, b);
	} else {
		err = new_top(s, want, &b);
		if (err)
			return err;
	}
	while (b->order > want) {
		uint64_t size = 1ull << (b->order - 1);

		b->half[0] = node_new(b, b->va, b->order - 1u);
		b->half[1] = node_new(b, b->va + size, b->order - 1u);
		push(s, b->half[1]);
		b = b->half[0];
	}
	placement->va = b->va;
	placement->block = b;
	return 0;
}

static int buddy_free(void *state, const struct gp_placement *placement,
		      bool idle)
{
	struct buddies *s = state;
	struct buddy *b = placement->block, *parent, *other;

	(void)idle;
	while ((parent = b->parent)) {
		other = parent->half[parent->half[0] == b];
		if (!other->is_free)
			break;
		pull(s, other);
		free(parent->half[0]);
		free(parent->half[1]);
		parent->half[0] = parent->half[1] = NULL;
		b = parent;
	}
	push(s, b);
	return 0;
}

static int buddy_create(const struct gp_driver *driver,
			const struct gp_conf *conf, void **state)
{
	struct buddies *s = calloc(1, sizeof(*s));

	(void)conf;
	if (!s)
		return -ENOMEM;
	s->driver = *driver;
	*state = s;
	return 0;
}

static void buddy_destroy(void *state)
{
	/* All blocks are free, and so merged to their tops. */
	give_back(state);
	free(state);
}

const struct gp_policy gp_policy_buddy = {
	.name = "buddy",
	.help = "a buddy system: powers of two from 32 MiB blocks",
	.create = buddy_create,
	.destroy = buddy_destroy,
	.alloc = buddy_alloc,
	.free = buddy_free,
};
