/*
 * The model driver: reservations are page tables, handles are records.
 *
 * One mutex guards everything; a call is short.
 */
#include "tests/support/model_driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE       512ull
#define MAX_RESERVES  64
#define FIRST_VA      0x100000000000ull
#define FIRST_SEGMENT 0x200000000000ull
#define SEGMENT_ALIGN (2ull << 20)
#define MIB           (1ull << 20)

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
	pthread_mutex_t lock; /* guards all below but config and hook */
	struct model_config config;
	void (*hook)(void *arg, enum model_call call);
	void *hook_arg;

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

static void *must(void *pointer)
{
	if (!pointer)
		abort();
	return pointer;
}

static void __attribute__((format(printf, 2, 3)))
broken(struct model *m, const char *format, ...)
{
	va_list args;

	if (m->error[0])
		return;
	va_start(args, format);
	vsnprintf(m->error, sizeof(m->error), format, args);
	va_end(args);
}

/* ---- the start of every call -------------------------------------------- */

static uint64_t random_next(struct model *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

static bool takes_memory(enum model_call call)
{
	return call == MODEL_CREATE || call == MODEL_MAP ||
	       call == MODEL_SET_ACCESS || call == MODEL_SEGMENT_ALLOC;
}

/* Counts the call, locks the model; the error to answer with, or 0. */
static int enter(struct model *m, enum model_call call)
{
	const int which[] = {call, MODEL_NUM_CALLS};
	int error = 0;

	if (m->hook)
		m->hook(m->hook_arg, call);
	pthread_mutex_lock(&m->lock);
	m->calls[call]++;
	for (int i = 0; i < 2; i++) {
		uint64_t *at = &m->fail_at[which[i]];

		if (*at && --*at == 0)
			error = m->fail_error[which[i]];
	}
	if (!error && m->fail_probability > 0 &&
	    (double)(random_next(m) >> 11) * 0x1p-53 < m->fail_probability)
		error = takes_memory(call) && random_next(m) >> 40 & 1 ? -ENOMEM
								       : -EIO;
	return error;
}

static int leave(struct model *m, int error)
{
	pthread_mutex_unlock(&m->lock);
	return error;
}

/* ---- pieces ---------------------------------------------------------------- */

static uint32_t piece_new(struct model *m, uint64_t bytes, bool segment)
{
	uint32_t id;

	if (m->num_spare) {
		id = m->spare[--m->num_spare];
	} else {
		if (m->num_pieces == m->max_pieces) {
			m->max_pieces = m->max_pieces ? 2 * m->max_pieces : 256;
			m->pieces = must(realloc(
				m->pieces, m->max_pieces * sizeof(*m->pieces)));
			m->spare = must(realloc(
				m->spare, m->max_pieces * sizeof(*m->spare)));
		}
		id = ++m->num_pieces;
	}
	struct piece *p = &m->pieces[id - 1];

	*p = (struct piece){.bytes = bytes, .alive = true, .segment = segment};
	if (m->config.tags)
		p->tags = must(calloc(bytes / GRANULE, sizeof(*p->tags)));
	m->used += bytes;
	m->objects++;
	return id;
}

static struct piece *piece_get(struct model *m, uint64_t id)
{
	if (id == 0 || id > m->num_pieces || !m->pieces[id - 1].alive)
		return NULL;
	return &m->pieces[id - 1];
}

static void piece_free(struct model *m, uint32_t id)
{
	struct piece *p = &m->pieces[id - 1];

	free(p->tags);
	m->used -= p->bytes;
	m->objects--;
	*p = (struct piece){0};
	m->spare[m->num_spare++] = id;
}

/* ---- reservations ------------------------------------------------------- */

static struct reserve *reserve_of(struct model *m, uint64_t va, uint64_t bytes)
{
	for (int i = 0; i < MAX_RESERVES; i++) {
		struct reserve *r = &m->reserves[i];

		if (r->bytes && va >= r->va && va + bytes <= r->va + r->bytes)
			return r;
	}
	return NULL;
}

static int op_reserve(void *dev, uint64_t bytes, uint64_t *va)
{
	struct model *m = dev;
	int error = enter(m, MODEL_RESERVE);
	uint64_t next = FIRST_VA;
	struct reserve *slot = NULL;

	if (error)
		return leave(m, error);
	if (m->config.no_vmm)
		broken(m, "reserve without virtual memory");
	if (bytes == 0 || bytes % m->config.granularity)
		broken(m, "reserve of %llu bytes", (unsigned long long)bytes);
	for (int i = 0; i < MAX_RESERVES; i++) {
		struct reserve *r = &m->reserves[i];

		if (!r->bytes && !slot)
			slot = r;
		if (r->bytes && r->va + r->bytes >= next)
			next = r->va + r->bytes + (1ull << 32);
	}
	if (!slot || next + bytes > FIRST_SEGMENT)
		return leave(m, -ENOMEM);
	slot->va = next;
	slot->bytes = bytes;
	slot->pages = must(calloc(bytes / m->config.granularity + 1,
				  sizeof(*slot->pages)));
	*va = next;
	return leave(m, 0);
}

static int op_unreserve(void *dev, uint64_t va, uint64_t bytes)
{
	struct model *m = dev;
	int error = enter(m, MODEL_UNRESERVE);
	struct reserve *r = reserve_of(m, va, bytes);

	if (error)
		return leave(m, error);
	if (!r || r->va != va || r->bytes != bytes) {
		broken(m, "unreserve of what was not reserved");
		return leave(m, -EIO);
	}
	for (uint64_t i = 0; i < bytes / m->config.granularity; i++)
		if (r->pages[i]) {
			broken(m, "unreserve with a mapping inside");
			break;
		}
	free(r->pages);
	*r = (struct reserve){0};
	return leave(m, 0);
}

/* ---- handles ----------------------------------------------------------------- */

static int op_create(void *dev, uint64_t bytes, uint64_t *handle)
{
	struct model *m = dev;
	int error = enter(m, MODEL_CREATE);

	if (error)
		return leave(m, error);
	if (bytes == 0 || bytes % m->config.granularity)
		broken(m, "create of %llu bytes", (unsigned long long)bytes);
	if (m->config.no_vmm)
		broken(m, "create without virtual memory");
	if (bytes > m->config.total_bytes ||
	    m->used > m->config.total_bytes - bytes)
		return leave(m, -ENOMEM);
	*handle = piece_new(m, bytes, false);
	return leave(m, 0);
}

static int op_release(void *dev, uint64_t handle, uint64_t bytes)
{
	struct model *m = dev;
	int error = enter(m, MODEL_RELEASE);
	struct piece *p = piece_get(m, handle);

	if (error)
		return leave(m, error);
	if (!p || p->segment) {
		broken(m, "release of handle %llu, which does not exist",
		       (unsigned long long)handle);
		return leave(m, -EIO);
	}
	if (p->bytes != bytes)
		broken(m, "release with the wrong size");
	if (p->va)
		broken(m, "release of a mapped handle");
	else
		piece_free(m, (uint32_t)handle);
	return leave(m, 0);
}

static int op_map(void *dev, uint64_t va, uint64_t bytes, uint64_t handle)
{
	struct model *m = dev;
	int error = enter(m, MODEL_MAP);
	struct piece *p = piece_get(m, handle);
	struct reserve *r = reserve_of(m, va, bytes);
	uint64_t g = m->config.granularity;

	if (error)
		return leave(m, error);
	if (!p || p->segment || !r) {
		broken(m, "map of a bad handle or address");
		return leave(m, -EIO);
	}
	if (p->va)
		broken(m, "map of a handle that is mapped already");
	if (p->bytes != bytes || (va - r->va) % g)
		broken(m, "map of a part of a handle or to a crooked place");
	for (uint64_t i = 0; i < bytes / g; i++) {
		uint32_t *page = &r->pages[(va - r->va) / g + i];

		if (*page) {
			broken(m, "map over a mapping");
			return leave(m, -EIO);
		}
	}
	for (uint64_t i = 0; i < bytes / g; i++)
		r->pages[(va - r->va) / g + i] = (uint32_t)handle;
	p->va = va;
	p->access = false;
	m->mappings++;
	return leave(m, 0);
}

/* Calls visit for each whole mapping in the range; false if it has holes or
 * cuts a mapping. */
static bool each_mapping(struct model *m, uint64_t va, uint64_t bytes,
			 void (*visit)(struct model *, struct piece *))
{
	struct reserve *r = reserve_of(m, va, bytes);
	uint64_t end = va + bytes;

	if (!r || bytes == 0)
		return false;
	for (uint64_t at = va; at < end;) {
		struct piece *p = piece_get(
			m, r->pages[(at - r->va) / m->config.granularity]);

		if (!p || p->va != at || at + p->bytes > end)
			return false;
		at += p->bytes;
		if (visit)
			visit(m, p);
	}
	return true;
}

static void visit_access(struct model *m, struct piece *p)
{
	(void)m;
	p->access = true;
}

static int op_set_access(void *dev, uint64_t va, uint64_t bytes)
{
	struct model *m = dev;
	int error = enter(m, MODEL_SET_ACCESS);

	if (error)
		return leave(m, error);
	if (!each_mapping(m, va, bytes, NULL)) {
		broken(m, "set_access not at the borders of mapped handles");
		return leave(m, -EIO);
	}
	each_mapping(m, va, bytes, visit_access);
	return leave(m, 0);
}

static void visit_unmap(struct model *m, struct piece *p)
{
	struct reserve *r = reserve_of(m, p->va, p->bytes);
	uint64_t g = m->config.granularity;

	for (uint64_t i = 0; i < p->bytes / g; i++)
		r->pages[(p->va - r->va) / g + i] = 0;
	p->va = 0;
	p->access = false;
	m->mappings--;
}

static int op_unmap(void *dev, uint64_t va, uint64_t bytes)
{
	struct model *m = dev;
	int error = enter(m, MODEL_UNMAP);

	if (error)
		return leave(m, error);
	if (!each_mapping(m, va, bytes, NULL)) {
		broken(m, "unmap not at the borders of mapped handles");
		return leave(m, -EIO);
	}
	each_mapping(m, va, bytes, visit_unmap);
	return leave(m, 0);
}

/* ---- segments --------------------------------------------------------------- */

static int op_segment_alloc(void *dev, uint64_t bytes, uint64_t *va)
{
	struct model *m = dev;
	int error = enter(m, MODEL_SEGMENT_ALLOC);

	if (error)
		return leave(m, error);
	if (bytes == 0 || bytes % GRANULE)
		broken(m, "segment of %llu bytes", (unsigned long long)bytes);
	if (bytes > m->config.total_bytes ||
	    m->used > m->config.total_bytes - bytes)
		return leave(m, -ENOMEM);
	uint64_t page = m->next_segment;
	uint64_t pages = (bytes + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN;

	if (page + pages > m->max_segment_pages) {
		uint64_t more = 2 * (page + pages);

		m->segment_pages = must(realloc(
			m->segment_pages, more * sizeof(*m->segment_pages)));
		memset(m->segment_pages + m->max_segment_pages, 0,
		       (more - m->max_segment_pages) *
			       sizeof(*m->segment_pages));
		m->max_segment_pages = more;
	}
	uint32_t id = piece_new(m, bytes, true);
	struct piece *p = &m->pieces[id - 1];

	for (uint64_t i = 0; i < pages; i++)
		m->segment_pages[page + i] = id;
	p->va = FIRST_SEGMENT + page * SEGMENT_ALIGN;
	p->access = true;
	m->next_segment = page + pages;
	*va = p->va;
	return leave(m, 0);
}

static struct piece *segment_of(struct model *m, uint64_t va)
{
	uint64_t page = (va - FIRST_SEGMENT) / SEGMENT_ALIGN;

	if (va < FIRST_SEGMENT || page >= m->max_segment_pages)
		return NULL;
	return piece_get(m, m->segment_pages[page]);
}

static int op_segment_free(void *dev, uint64_t va, uint64_t bytes)
{
	struct model *m = dev;
	int error = enter(m, MODEL_SEGMENT_FREE);
	struct piece *p = segment_of(m, va);

	if (error)
		return leave(m, error);
	if (!p || p->va != va) {
		broken(m, "segment_free of what is no segment");
		return leave(m, -EIO);
	}
	if (p->bytes != bytes)
		broken(m, "segment_free with the wrong size");
	for (uint64_t at = 0; at < p->bytes; at += SEGMENT_ALIGN)
		m->segment_pages[(va - FIRST_SEGMENT + at) / SEGMENT_ALIGN] = 0;
	piece_free(m, (uint32_t)(p - m->pieces) + 1);
	return leave(m, 0);
}

/* ---- the rest ------------------------------------------------------------------ */

static int op_sync(void *dev)
{
	struct model *m = dev;
	int error = enter(m, MODEL_SYNC);

	if (!error && m->capturing)
		error = -EBUSY;
	return leave(m, error);
}

static uint64_t op_now(void *dev)
{
	struct model *m = dev;

	pthread_mutex_lock(&m->lock);
	uint64_t now = m->clock;

	pthread_mutex_unlock(&m->lock);
	return now;
}

static const struct gp_driver_ops ops = {
	.reserve = op_reserve,
	.unreserve = op_unreserve,
	.create = op_create,
	.release = op_release,
	.map = op_map,
	.set_access = op_set_access,
	.unmap = op_unmap,
	.segment_alloc = op_segment_alloc,
	.segment_free = op_segment_free,
	.sync = op_sync,
	.now = op_now,
};

struct model *model_create(const struct model_config *config)
{
	struct model *m = must(calloc(1, sizeof(*m)));

	m->config = *config;
	if (!m->config.granularity)
		m->config.granularity = 2 * MIB;
	m->clock = 1000000000;
	m->random = 88172645463325252ull;
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

void model_destroy(struct model *m)
{
	for (uint32_t i = 0; i < m->num_pieces; i++)
		free(m->pieces[i].tags);
	for (int i = 0; i < MAX_RESERVES; i++)
		free(m->reserves[i].pages);
	free(m->pieces);
	free(m->spare);
	free(m->segment_pages);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

struct gp_driver model_driver(struct model *m)
{
	return (struct gp_driver){
		.ops = &ops,
		.dev = m,
		.granularity = m->config.granularity,
		.total_bytes = m->config.total_bytes,
		.has_vmm = !m->config.no_vmm,
	};
}

static uint64_t get(struct model *m, const uint64_t *field)
{
	pthread_mutex_lock(&m->lock);
	uint64_t value = *field;

	pthread_mutex_unlock(&m->lock);
	return value;
}

uint64_t model_calls(struct model *m, enum model_call call)
{
	return get(m, &m->calls[call]);
}

uint64_t model_total_calls(struct model *m)
{
	uint64_t sum = 0;

	for (int i = 0; i < MODEL_NUM_CALLS; i++)
		sum += get(m, &m->calls[i]);
	return sum;
}

uint64_t model_used(struct model *m)
{
	return get(m, &m->used);
}

uint64_t model_objects(struct model *m)
{
	return get(m, &m->objects);
}

uint64_t model_mappings(struct model *m)
{
	return get(m, &m->mappings);
}

const char *model_error(struct model *m)
{
	pthread_mutex_lock(&m->lock);
	const char *error = m->error[0] ? m->error : NULL;

	pthread_mutex_unlock(&m->lock);
	return error;
}

void model_set_total(struct model *m, uint64_t total_bytes)
{
	pthread_mutex_lock(&m->lock);
	m->config.total_bytes = total_bytes;
	pthread_mutex_unlock(&m->lock);
}

void model_set_capturing(struct model *m, bool capturing)
{
	pthread_mutex_lock(&m->lock);
	m->capturing = capturing;
	pthread_mutex_unlock(&m->lock);
}

void model_advance(struct model *m, uint64_t ns)
{
	pthread_mutex_lock(&m->lock);
	m->clock += ns;
	pthread_mutex_unlock(&m->lock);
}

void model_fail(struct model *m, enum model_call call, uint64_t n, int error)
{
	pthread_mutex_lock(&m->lock);
	m->fail_at[call] = n;
	m->fail_error[call] = error;
	pthread_mutex_unlock(&m->lock);
}

void model_fail_randomly(struct model *m, double probability, uint64_t seed)
{
	pthread_mutex_lock(&m->lock);
	m->fail_probability = probability;
	m->random = seed * 2654435761u + 88172645463325252ull;
	pthread_mutex_unlock(&m->lock);
}

void model_set_hook(struct model *m,
		    void (*hook)(void *arg, enum model_call call), void *arg)
{
	m->hook = hook;
	m->hook_arg = arg;
}

/* ---- contents ---------------------------------------------------------------- */

/* The piece that backs va, or NULL; needs the lock. */
static struct piece *backing(struct model *m, uint64_t va)
{
	struct reserve *r = reserve_of(m, va, 1);
	struct piece *p;

	if (r)
		p = piece_get(m,
			      r->pages[(va - r->va) / m->config.granularity]);
	else
		p = segment_of(m, va);
	if (!p || !p->access || va - p->va >= p->bytes)
		return NULL;
	return p;
}

/* Walks the granules of a range. write: set the tag; else compare it. */
static bool walk(struct model *m, uint64_t va, uint64_t bytes, uint64_t tag,
		 bool write)
{
	uint64_t end = va + bytes;
	bool same = true;

	pthread_mutex_lock(&m->lock);
	while (va < end) {
		struct piece *p = backing(m, va);

		if (!p) {
			broken(m, "access to %#llx, which is not mapped",
			       (unsigned long long)va);
			same = false;
			break;
		}
		uint64_t stop = p->va + p->bytes;

		if (stop > end)
			stop = end;
		for (; p->tags && va < stop; va += GRANULE) {
			uint64_t *at = &p->tags[(va - p->va) / GRANULE];

			if (write)
				*at = tag;
			else if (*at != tag)
				same = false;
		}
		va = stop;
	}
	pthread_mutex_unlock(&m->lock);
	return same;
}

void model_write(struct model *m, uint64_t va, uint64_t bytes, uint64_t tag)
{
	walk(m, va, bytes, tag, true);
}

bool model_read(struct model *m, uint64_t va, uint64_t bytes, uint64_t tag)
{
	return walk(m, va, bytes, tag, false);
}

bool model_accessible(struct model *m, uint64_t va, uint64_t bytes)
{
	uint64_t end = va + bytes;
	bool ok = true;

	pthread_mutex_lock(&m->lock);
	while (ok && va < end) {
		struct piece *p = backing(m, va);

		ok = p != NULL;
		if (ok)
			va = p->va + p->bytes;
	}
	pthread_mutex_unlock(&m->lock);
	return ok;
}
