/*
 * The model driver as tests use it: made, asked, told to fail. What the pool
 * calls is in model_calls.c.
 */
#include "tests/support/model_impl.h"

struct model *model_create(const struct model_config *config)
{
	struct model *m = must(calloc(1, sizeof(*m)));

	m->config = *config;
	if (!m->config.granularity)
		m->config.granularity = 2ull << 20;
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
		.ops = &model_ops,
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
	struct reserve *r = model_reserve_of(m, va, 1);
	struct piece *p;

	if (r)
		p = model_piece(m,
				r->pages[(va - r->va) / m->config.granularity]);
	else
		p = model_segment_of(m, va);
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
			model_broken(m, "access to %#llx, which is not mapped",
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
