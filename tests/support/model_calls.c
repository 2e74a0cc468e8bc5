/*
 * The calls of the model driver: reservations are page tables, handles are
 * records.
 */
#include "tests/support/model_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void model_broken(struct model *m, const char *format, ...)
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

struct piece *model_piece(struct model *m, uint64_t id)
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

struct reserve *model_reserve_of(struct model *m, uint64_t va, uint64_t bytes)
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
		model_broken(m, "reserve without virtual memory");
	if (bytes == 0 || bytes % m->config.granularity)
		model_broken(m, "reserve of %llu bytes",
			     (unsigned long long)bytes);
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
	struct reserve *r = model_reserve_of(m, va, bytes);

	if (error)
		return leave(m, error);
	if (!r || r->va != va || r->bytes != bytes) {
		model_broken(m, "unreserve of what was not reserved");
		return leave(m, -EIO);
	}
	for (uint64_t i = 0; i < bytes / m->config.granularity; i++)
		if (r->pages[i]) {
			model_broken(m, "unreserve with a mapping inside");
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
		model_broken(m, "create of %llu bytes",
			     (unsigned long long)bytes);
	if (m->config.no_vmm)
		model_broken(m, "create without virtual memory");
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
	struct piece *p = model_piece(m, handle);

	if (error)
		return leave(m, error);
	if (!p || p->segment) {
		model_broken(m, "release of handle %llu, which does not exist",
			     (unsigned long long)handle);
		return leave(m, -EIO);
	}
	if (p->bytes != bytes)
		model_broken(m, "release with the wrong size");
	if (p->va)
		model_broken(m, "release of a mapped handle");
	else
		piece_free(m, (uint32_t)handle);
	return leave(m, 0);
}

static int op_map(void *dev, uint64_t va, uint64_t bytes, uint64_t handle)
{
	struct model *m = dev;
	int error = enter(m, MODEL_MAP);
	struct piece *p = model_piece(m, handle);
	struct reserve *r = model_reserve_of(m, va, bytes);
	uint64_t g = m->config.granularity;

	if (error)
		return leave(m, error);
	if (!p || p->segment || !r) {
		model_broken(m, "map of a bad handle or address");
		return leave(m, -EIO);
	}
	if (p->va)
		model_broken(m, "map of a handle that is mapped already");
	if (p->bytes != bytes || (va - r->va) % g)
		model_broken(m,
			     "map of a part of a handle or to a crooked place");
	for (uint64_t i = 0; i < bytes / g; i++) {
		uint32_t *page = &r->pages[(va - r->va) / g + i];

		if (*page) {
			model_broken(m, "map over a mapping");
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
	struct reserve *r = model_reserve_of(m, va, bytes);
	uint64_t end = va + bytes;

	if (!r || bytes == 0)
		return false;
	for (uint64_t at = va; at < end;) {
		struct piece *p = model_piece(
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
		model_broken(m,
			     "set_access not at the borders of mapped handles");
		return leave(m, -EIO);
	}
	each_mapping(m, va, bytes, visit_access);
	return leave(m, 0);
}

static void visit_unmap(struct model *m, struct piece *p)
{
	struct reserve *r = model_reserve_of(m, p->va, p->bytes);
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
		model_broken(m, "unmap not at the borders of mapped handles");
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
		model_broken(m, "segment of %llu bytes",
			     (unsigned long long)bytes);
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

struct piece *model_segment_of(struct model *m, uint64_t va)
{
	uint64_t page = (va - FIRST_SEGMENT) / SEGMENT_ALIGN;

	if (va < FIRST_SEGMENT || page >= m->max_segment_pages)
		return NULL;
	return model_piece(m, m->segment_pages[page]);
}

static int op_segment_free(void *dev, uint64_t va, uint64_t bytes)
{
	struct model *m = dev;
	int error = enter(m, MODEL_SEGMENT_FREE);
	struct piece *p = model_segment_of(m, va);

	if (error)
		return leave(m, error);
	if (!p || p->va != va) {
		model_broken(m, "segment_free of what is no segment");
		return leave(m, -EIO);
	}
	if (p->bytes != bytes)
		model_broken(m, "segment_free with the wrong size");
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

const struct gp_driver_ops model_ops = {
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
