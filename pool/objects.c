/* Fixed-size records from mmapped regions; see objects.h. */
#include "pool/objects.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define REGION ((size_t)256 << 10)

struct region {
	struct region *next;
	size_t bytes;
};

void gp_objects_init(struct gp_objects *objects, size_t size)
{
	*objects = (struct gp_objects){.size = size};
}

void gp_objects_exit(struct gp_objects *objects)
{
	struct region *r = objects->regions;

	while (r) {
		struct region *next = r->next;

		munmap(r, r->bytes);
		r = next;
	}
	*objects = (struct gp_objects){.size = objects->size};
}

static void **link_of(struct gp_objects *objects, void *object)
{
	return (void **)((char *)object + objects->size - sizeof(void *));
}

/* One that nobody had. Its page is touched only now: most processes need few.
 * Caller: there is one. */
static void *fresh(struct gp_objects *objects)
{
	void *object = objects->fresh;

	objects->fresh += objects->size;
	objects->fresh_count--;
	objects->spare--;
	return object;
}

static int more(struct gp_objects *objects)
{
	size_t first = 64; /* records stay on cache line boundaries */
	size_t bytes = REGION;

	if (objects->size > REGION / 8)
		bytes = 8 * objects->size + first;
	bytes = (bytes + 4095) & ~(size_t)4095;
	struct region *r = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r == MAP_FAILED)
		return -ENOMEM;
	r->next = objects->regions;
	r->bytes = bytes;
	objects->regions = r;
	/* What is left of the region before joins the free list. */
	while (objects->fresh_count)
		gp_objects_put(objects, fresh(objects));
	objects->fresh = (char *)r + first;
	objects->fresh_count = (bytes - first) / objects->size;
	objects->spare += objects->fresh_count;
	return 0;
}

__attribute__((noinline, cold)) int gp_objects_map(struct gp_objects *objects,
						   size_t count)
{
	while (objects->spare < count)
		if (more(objects))
			return -ENOMEM;
	return 0;
}

void *gp_objects_get(struct gp_objects *objects)
{
	void *object = objects->free_list;

	if (!object) {
		if (!objects->fresh_count && more(objects))
			return NULL;
		return fresh(objects);
	}
	void **link = link_of(objects, object);

	objects->free_list = *link;
	*link = NULL;
	objects->spare--;
	return object;
}

void gp_objects_put(struct gp_objects *objects, void *object)
{
	*link_of(objects, object) = objects->free_list;
	objects->free_list = object;
	objects->spare++;
}
