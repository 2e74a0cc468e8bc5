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
	for (size_t at = (bytes - first) / objects->size; at-- > 0;)
		gp_objects_put(objects, (char *)r + first + at * objects->size);
	return 0;
}

int gp_objects_reserve(struct gp_objects *objects, size_t count)
{
	while (objects->spare < count)
		if (more(objects))
			return -ENOMEM;
	return 0;
}

void *gp_objects_get(struct gp_objects *objects)
{
	if (!objects->free_list && more(objects))
		return NULL;
	void *object = objects->free_list;
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
