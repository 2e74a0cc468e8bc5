/*
 * Between model_driver.c and model_calls.c.
 */
#ifndef GP_TESTS_MODEL_IMPL_H
#define GP_TESTS_MODEL_IMPL_H

#include <pthread.h>
#include <stdlib.h>

#include "tests/support/model_driver.h"

#define GRANULE       512ull
#define MAX_RESERVES  64
#define FIRST_VA      0x100000000000ull
#define FIRST_SEGMENT 0x200000000000ull
#define SEGMENT_ALIGN (2ull << 20)

/* A piece of physical memory: a handle or a segment. Id = index + 1. */
struct piece {
	uint64_t bytes;
	uint64_t va; /* where mapped, 0 = nowhere */
	uint64_t *tags;
	bool alive, segment, access;
};

struct reserve {
	uint64_t va, bytes;
	uint32_t *pages; /* per granularity: piece id, 0 = nothing mapped */
};

struct model {
	void (*hook)(void *arg, enum model_call call); /* called unlocked */
	void *hook_arg;

	pthread_mutex_t lock; /* guards all below; a call is short */
	struct model_config config;
	struct reserve reserves[MAX_RESERVES];
	struct piece *pieces;
	uint32_t num_pieces, max_pieces;
	uint32_t *spare; /* ids of dead pieces */
	uint32_t num_spare;
	uint32_t *segment_pages; /* piece id by 2 MiB page of segment space */
	uint64_t max_segment_pages, next_segment;

	uint64_t used, objects, mappings;
	uint64_t calls[MODEL_NUM_CALLS], clock;
	bool capturing;
	uint64_t fail_at[MODEL_NUM_CALLS + 1];
	int fail_error[MODEL_NUM_CALLS + 1];
	double fail_probability;
	uint64_t random;
	char error[256];
};

static inline void *must(void *pointer)
{
	if (!pointer)
		abort();
	return pointer;
}

/* What the pool calls. */
extern const struct gp_driver_ops model_ops;

/* All of these need the lock. A rule is broken; the first is kept. */
void model_broken(struct model *m, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* NULL if there is none: of that id, around that range, at that address. */
struct piece *model_piece(struct model *m, uint64_t id);
struct reserve *model_reserve_of(struct model *m, uint64_t va, uint64_t bytes);
struct piece *model_segment_of(struct model *m, uint64_t va);

#endif
