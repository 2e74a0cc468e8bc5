/*
 * Handles, mappings and segments, each a record in an ordered set. Impossible
 * calls are errors of the allocator above, and are told rather than forgiven.
 */
#include "pool/replay/cost_driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/replay/books.h"
#include "stats/clock.h"

#define GRANULARITY   (2ull << 20)
#define FIRST_ADDRESS 0x10000000000ull /* any 2 MiB boundary but 0 */
#define MAX_STREAMS   65536u
#define NO_LIMIT      (1ull << 40) /* total_bytes where there is none */

struct gp_cost_driver {
	uint64_t limit; /* bytes, UINT64_MAX: none; constant */
	_Atomic int64_t time_us;

	pthread_mutex_t lock; /* guards all below */
	uint64_t next_va, next_handle;
	struct gp_sorted reservations, handles, mappings, segments;
	struct gp_cost_totals totals;
	char fault[160];
	uint32_t num_busy;
	bool busy[MAX_STREAMS]; /* has unfinished work */
};

static uint64_t begin(struct gp_cost_driver *m, enum gp_driver_call call)
{
	uint64_t start = gp_clock_ns(CLOCK_MONOTONIC);

	pthread_mutex_lock(&m->lock);
	m->totals.calls[call]++;
	return start;
}

static int end(struct gp_cost_driver *m, uint64_t start, int result)
{
	m->totals.host_ns += gp_clock_ns(CLOCK_MONOTONIC) - start;
	pthread_mutex_unlock(&m->lock);
	return result;
}

static void charge(struct gp_cost_driver *m, enum gp_driver_call call,
		   uint64_t bytes)
{
	m->totals.driver_ns += gp_call_cost(call, bytes);
}

static int fault(struct gp_cost_driver *m, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));

static int fault(struct gp_cost_driver *m, const char *format, ...)
{
	va_list args;

	if (!m->fault[0]) {
		va_start(args, format);
		vsnprintf(m->fault, sizeof(m->fault), format, args);
		va_end(args);
	}
	return -EIO;
}

/* Takes physical memory; false: there is not so much. */
static bool take(struct gp_cost_driver *m, uint64_t bytes)
{
	struct gp_cost_totals *t = &m->totals;

	if (bytes > m->limit || t->physical > m->limit - bytes)
		return false;
	t->physical += bytes;
	t->handles++;
	if (t->physical > t->peak_physical)
		t->peak_physical = t->physical;
	return true;
}

static void give(struct gp_cost_driver *m, uint64_t bytes)
{
	m->totals.physical -= bytes;
	m->totals.handles--;
}

static int do_reserve(void *dev, uint64_t bytes, uint64_t *va)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_reserve);

	charge(m, GP_CALL_reserve, bytes);
	if (!bytes || bytes % GRANULARITY)
		return end(m, start,
			   fault(m, "reserve of %#llx bytes",
				 (unsigned long long)bytes));
	if (!gp_books_add(&m->reservations, m->next_va, bytes))
		return end(m, start, -ENOMEM);
	*va = m->next_va;
	m->next_va += bytes + GRANULARITY;
	return end(m, start, 0);
}

static int do_unreserve(void *dev, uint64_t va, uint64_t bytes)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_unreserve);
	struct gp_entry *r = gp_books_at(&m->reservations, va);
	struct gp_entry *inside;

	charge(m, GP_CALL_unreserve, bytes);
	if (!r || r->bytes != bytes)
		return end(
			m, start,
			fault(m, "unreserve of %#llx", (unsigned long long)va));
	inside = gp_books_before(&m->mappings, va + bytes - 1);
	if (inside && inside->start >= va)
		return end(m, start,
			   fault(m, "unreserve of %#llx: mapped",
				 (unsigned long long)va));
	gp_books_drop(&m->reservations, r);
	return end(m, start, 0);
}

static int do_create(void *dev, uint64_t bytes, uint64_t *handle)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_create);

	charge(m, GP_CALL_create, bytes);
	if (!bytes || bytes % GRANULARITY)
		return end(m, start,
			   fault(m, "create of %#llx bytes",
				 (unsigned long long)bytes));
	if (!take(m, bytes))
		return end(m, start, -ENOMEM);
	if (!gp_books_add(&m->handles, m->next_handle, bytes)) {
		give(m, bytes);
		return end(m, start, -ENOMEM);
	}
	*handle = m->next_handle++;
	return end(m, start, 0);
}

static int do_release(void *dev, uint64_t handle, uint64_t bytes)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_release);
	struct gp_entry *h = gp_books_at(&m->handles, handle);

	charge(m, GP_CALL_release, bytes);
	/* A real driver keeps mapped memory; the books would not balance. */
	if (!h || h->bytes != bytes || h->mapped)
		return end(m, start,
			   fault(m, "release of handle %llu",
				 (unsigned long long)handle));
	give(m, bytes);
	gp_books_drop(&m->handles, h);
	return end(m, start, 0);
}

static int do_map(void *dev, uint64_t va, uint64_t bytes, uint64_t handle)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_map);
	struct gp_entry *h = gp_books_at(&m->handles, handle);
	struct gp_entry *r = gp_books_before(&m->reservations, va);
	struct gp_entry *other = gp_books_before(&m->mappings, va + bytes - 1),
			*mapping;

	charge(m, GP_CALL_map, bytes);
	if (!h || h->bytes != bytes || h->mapped)
		return end(m, start,
			   fault(m, "map of handle %llu",
				 (unsigned long long)handle));
	if (va % GRANULARITY || !r || va + bytes > r->start + r->bytes ||
	    (other && other->start + other->bytes > va))
		return end(m, start,
			   fault(m, "map at %#llx", (unsigned long long)va));
	mapping = gp_books_add(&m->mappings, va, bytes);
	if (!mapping)
		return end(m, start, -ENOMEM);
	mapping->handle = handle;
	m->totals.remaps += h->was_mapped;
	h->mapped = h->was_mapped = true;
	return end(m, start, 0);
}

static int do_set_access(void *dev, uint64_t va, uint64_t bytes)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_set_access), done = 0;

	while (done < bytes) {
		struct gp_entry *mapping = gp_books_at(&m->mappings, va + done);

		if (!mapping || done + mapping->bytes > bytes)
			return end(m, start,
				   fault(m, "set access at %#llx",
					 (unsigned long long)va));
		charge(m, GP_CALL_set_access, mapping->bytes);
		done += mapping->bytes;
	}
	return end(m, start, 0);
}

static int do_unmap(void *dev, uint64_t va, uint64_t bytes)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_unmap), done = 0;

	while (done < bytes) {
		struct gp_entry *mapping = gp_books_at(&m->mappings, va + done),
				*h;

		if (!mapping || done + mapping->bytes > bytes)
			return end(m, start,
				   fault(m, "unmap at %#llx",
					 (unsigned long long)va));
		charge(m, GP_CALL_unmap, mapping->bytes);
		done += mapping->bytes;
		h = gp_books_at(&m->handles, mapping->handle);
		h->mapped = false;
		gp_books_drop(&m->mappings, mapping);
	}
	return end(m, start, 0);
}

static int do_segment_alloc(void *dev, uint64_t bytes, uint64_t *va)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_segment_alloc);
	/* What a cudaMalloc takes of the device. */
	uint64_t whole = (bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY;

	charge(m, GP_CALL_segment_alloc, bytes);
	if (!bytes)
		return end(m, start, fault(m, "segment of 0 bytes"));
	if (!take(m, whole))
		return end(m, start, -ENOMEM);
	if (!gp_books_add(&m->segments, m->next_va, bytes)) {
		give(m, whole);
		return end(m, start, -ENOMEM);
	}
	*va = m->next_va;
	m->next_va += whole + GRANULARITY;
	return end(m, start, 0);
}

static int do_segment_free(void *dev, uint64_t va, uint64_t bytes)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_segment_free);
	struct gp_entry *segment = gp_books_at(&m->segments, va);

	charge(m, GP_CALL_segment_free, bytes);
	if (!segment || segment->bytes != bytes)
		return end(m, start,
			   fault(m, "free of segment %#llx",
				 (unsigned long long)va));
	give(m, (bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY);
	gp_books_drop(&m->segments, segment);
	return end(m, start, 0);
}

static void finish_all(struct gp_cost_driver *m)
{
	if (m->num_busy)
		memset(m->busy, 0, sizeof(m->busy));
	m->num_busy = 0;
}

static int do_sync(void *dev)
{
	struct gp_cost_driver *m = dev;
	uint64_t start = begin(m, GP_CALL_sync);

	charge(m, GP_CALL_sync, 0);
	m->totals.waits += m->num_busy > 0;
	finish_all(m);
	return end(m, start, 0);
}

static uint64_t do_now(void *dev)
{
	struct gp_cost_driver *m = dev;
	uint64_t driver_ns;

	pthread_mutex_lock(&m->lock);
	driver_ns = m->totals.driver_ns;
	pthread_mutex_unlock(&m->lock);
	return (uint64_t)atomic_load(&m->time_us) * 1000 + driver_ns;
}

static const struct gp_driver_ops ops = {
	.reserve = do_reserve,
	.unreserve = do_unreserve,
	.create = do_create,
	.release = do_release,
	.map = do_map,
	.set_access = do_set_access,
	.unmap = do_unmap,
	.segment_alloc = do_segment_alloc,
	.segment_free = do_segment_free,
	.sync = do_sync,
	.now = do_now,
};

struct gp_cost_driver *gp_cost_driver_new(uint64_t memory)
{
	struct gp_cost_driver *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	m->limit = memory ? memory : UINT64_MAX;
	m->next_va = FIRST_ADDRESS;
	m->next_handle = 1;
	gp_books_init(&m->reservations);
	gp_books_init(&m->handles);
	gp_books_init(&m->mappings);
	gp_books_init(&m->segments);
	return m;
}

void gp_cost_driver_free(struct gp_cost_driver *m)
{
	if (!m)
		return;
	gp_books_clear(&m->mappings);
	gp_books_clear(&m->handles);
	gp_books_clear(&m->segments);
	gp_books_clear(&m->reservations);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

struct gp_driver gp_cost_driver_seam(struct gp_cost_driver *m)
{
	return (struct gp_driver){
		.ops = &ops,
		.dev = m,
		.granularity = GRANULARITY,
		.total_bytes = m->limit == UINT64_MAX ? NO_LIMIT : m->limit,
		.has_vmm = true,
	};
}

void gp_cost_driver_totals(struct gp_cost_driver *m,
			   struct gp_cost_totals *totals)
{
	pthread_mutex_lock(&m->lock);
	*totals = m->totals;
	pthread_mutex_unlock(&m->lock);
}

const char *gp_cost_driver_fault(struct gp_cost_driver *m)
{
	return m->fault[0] ? m->fault : NULL;
}

void gp_cost_driver_set_time(struct gp_cost_driver *m, int64_t t_us)
{
	if (t_us > atomic_load(&m->time_us))
		atomic_store(&m->time_us, t_us);
}

void gp_cost_driver_submit(struct gp_cost_driver *m, uint32_t stream)
{
	pthread_mutex_lock(&m->lock);
	m->num_busy += !m->busy[stream];
	m->busy[stream] = true;
	pthread_mutex_unlock(&m->lock);
}

void gp_cost_driver_finish(struct gp_cost_driver *m, uint32_t stream)
{
	pthread_mutex_lock(&m->lock);
	m->num_busy -= m->busy[stream];
	m->busy[stream] = false;
	pthread_mutex_unlock(&m->lock);
}

void gp_cost_driver_finish_all(struct gp_cost_driver *m)
{
	pthread_mutex_lock(&m->lock);
	finish_all(m);
	pthread_mutex_unlock(&m->lock);
}

bool gp_cost_driver_idle(struct gp_cost_driver *m)
{
	bool idle;

	pthread_mutex_lock(&m->lock);
	idle = !m->num_busy;
	pthread_mutex_unlock(&m->lock);
	return idle;
}
