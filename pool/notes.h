/*
 * What is known of a live block besides its place and size.
 *
 * Few blocks have such a note: those whose id was asked for, that are to be
 * copied synchronously, or that other processes may map. Such a block is NOTED
 * instead of LIVE, so that the quick way of a free does not find it, and costs
 * nothing for all the others.
 *
 * Memory that other processes have mapped does not come back while they do:
 * its block is LENT from the free on until the last of them lets go. A live or
 * lent block keeps its handles in use, so they are neither moved nor given
 * back to the driver meanwhile.
 *
 * All functions are thread-safe; -ENOENT: no live allocation is there; -ENOMEM:
 * the host has no memory for the note.
 */
#ifndef GP_POOL_NOTES_H
#define GP_POOL_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/objects.h"

struct gp_block;
struct gp_pool;

#define GP_NOTE_BUCKETS 256u

struct gp_note {
	uint64_t granule; /* the block's */
	struct gp_block *block;
	uint64_t id;
	uint32_t holders; /* other processes that have it mapped */
	bool sync_memops;
	bool freed; /* by the program */
	bool lent;  /* the block is on the list */
	struct gp_note *next;
	void *link; /* objects.h */
};

/* Guarded by the pool's lock. */
struct gp_notes {
	struct gp_note *buckets[GP_NOTE_BUCKETS]; /* by granule */
	struct gp_objects objects;
	struct gp_block *lent; /* LENT, linked by right */
};

void gp_notes_init(struct gp_notes *notes);
void gp_notes_exit(struct gp_notes *notes);

/* The number of the allocation around va, which no other allocation of this
 * process ever has. */
int gp_pool_id(struct gp_pool *pool, uint64_t va, uint64_t *id);

/* Is the allocation around va marked to be copied synchronously? The pool only
 * remembers it. */
int gp_pool_sync_memops(struct gp_pool *pool, uint64_t va, bool *sync);
int gp_pool_set_sync_memops(struct gp_pool *pool, uint64_t va, bool sync);

/* ---- memory that other processes map ---------------------------------------- */

struct gp_pool_piece {
	uint64_t handle; /* the driver's */
	uint64_t bytes;
};

/* One more process maps the allocation that starts at `base` and has that id.
 * Its handles, in order, come to pieces[0..max), and stay what they are until
 * gp_pool_let_go(): *n, their number; *offset, where in the first it starts;
 * *bytes, its requested size. -ENOENT: it was freed. -E2BIG: it has more pieces
 * than max. */
int gp_pool_hold(struct gp_pool *pool, uint64_t base, uint64_t id,
		 struct gp_pool_piece *pieces, size_t max, size_t *n,
		 uint64_t *offset, uint64_t *bytes);

/* That process has it mapped no longer, and its work is over. */
void gp_pool_let_go(struct gp_pool *pool, uint64_t base, uint64_t id);

/* ---- within the pool ---------------------------------------------------------- */

/* Takes a noted block from the program: it is CACHED. NULL: none starts at that
 * granule. *lent: others have it mapped; gp_notes_lend() comes next. */
struct gp_block *gp_notes_claim(struct gp_pool *pool, uint64_t granule,
				bool *lent);

/* The block is LENT from here on, or comes back at once if nobody has it mapped
 * any more. Its stamp is set. */
void gp_notes_lend(struct gp_pool *pool, struct gp_block *b);

#endif
