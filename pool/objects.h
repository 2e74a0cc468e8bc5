/*
 * Fixed-size records of host memory: block and handle descriptors, slabs.
 *
 * From mmap, not from malloc: the pool runs inside the program's allocation
 * calls and must not meet an interposed heap there. Records stay mapped until
 * the pool goes, so a stale pointer to one can always be read.
 * Guarded by the caller.
 */
#ifndef GP_POOL_OBJECTS_H
#define GP_POOL_OBJECTS_H

#include <stddef.h>

struct gp_objects {
	size_t size;     /* bytes of one record, a multiple of 8 */
	size_t spare;    /* records on the free list, and fresh ones */
	void *free_list; /* linked through the records' last word */
	void *regions;   /* mmapped regions, linked through their first word */
	char *fresh;     /* of the newest region, the part never handed out */
	size_t fresh_count;
};

void gp_objects_init(struct gp_objects *objects, size_t size);
void gp_objects_exit(struct gp_objects *objects);

/* Out of line: the rest of gp_objects_reserve(). */
int gp_objects_map(struct gp_objects *objects, size_t count);

/* Makes sure that the next `count` gp_objects_get() succeed. 0 or -ENOMEM. */
static inline int gp_objects_reserve(struct gp_objects *objects, size_t count)
{
	return __builtin_expect(objects->spare >= count, 1)
		       ? 0
		       : gp_objects_map(objects, count);
}

/* A zeroed record the first time, as it was put when it comes again; NULL
 * never after a sufficient gp_objects_reserve(). */
void *gp_objects_get(struct gp_objects *objects);
void gp_objects_put(struct gp_objects *objects, void *object);

#endif
