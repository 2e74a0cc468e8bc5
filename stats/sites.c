/* Call sites and the blocks they hold; see sites.h. */
#define _GNU_SOURCE
#include "stats/sites.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS  (2ull * GP_SITES) /* a power of two */
#define BLOCKS (1u << 20)        /* a power of two; 3/4 of it is used at most */

struct site {
	uint64_t hash;
	uint32_t frames; /* where in `frames` */
	uint16_t python, native;
	bool python_cut, native_cut;
	uint8_t why;
	double bytes, blocks, peak_bytes, all_bytes, all_blocks;
	struct gp_growth growth;
};

struct block {
	uint64_t key; /* 0: free */
	uint64_t owner;
	uint32_t site;
	float blocks;
	double bytes;
};

/* Pages that are touched as far as they are needed. */
struct tables {
	struct site sites[GP_SITES]; /* the first: those without room */
	uint16_t slots[SLOTS];       /* hashed, 0: free */
	uint64_t frames[GP_SITE_FRAMES];
	struct block blocks[BLOCKS];
};

/* Rank: leaf. Guards all below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tables *t;
static uint32_t num_sites, num_frames, num_blocks;
static struct gp_growth_clock growth_clock;
static double live_bytes, live_blocks, peak_bytes;
static uint64_t entered, dropped_stacks, dropped_blocks;
/* The latest moment that anything was entered: what is taken out has no clock
 * of its own, so that a free costs no look at it. */
static uint64_t latest;

int gp_sites_start(uint64_t now_ns)
{
	void *at = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	pthread_mutex_lock(&lock);
	t = at;
	num_sites = 1;
	gp_growth_start(&growth_clock, now_ns);
	pthread_mutex_unlock(&lock);
	return 0;
}

void gp_sites_reset(uint64_t now_ns)
{
	pthread_mutex_lock(&lock);
	memset(t, 0, sizeof(*t));
	num_sites = 1;
	num_frames = num_blocks = 0;
	live_bytes = live_blocks = peak_bytes = 0;
	entered = dropped_stacks = dropped_blocks = latest = 0;
	gp_growth_start(&growth_clock, now_ns);
	pthread_mutex_unlock(&lock);
}

/* ---- sites --------------------------------------------------------------------- */

static bool is_stack(const struct site *site, uint64_t hash,
		     const struct gp_stack *stack)
{
	return site->hash == hash && site->python == stack->python &&
	       site->native == stack->native &&
	       !memcmp(&t->frames[site->frames], stack->frames,
		       (size_t)(site->python + site->native) *
			       sizeof(uint64_t));
}

static void fill_stack(struct gp_stack *stack, const struct site *site)
{
	memset(stack, 0, sizeof(*stack));
	stack->python = site->python;
	stack->native = site->native;
	stack->python_cut = site->python_cut;
	stack->native_cut = site->native_cut;
	stack->why = site->why;
	memcpy(stack->frames, &t->frames[site->frames],
	       (size_t)(site->python + site->native) * sizeof(uint64_t));
}

/* A site of its own, or the first when there is no room. */
static uint32_t site_of(const struct gp_stack *stack)
{
	uint64_t hash = gp_stack_hash(stack);
	uint32_t n = stack->python + (uint32_t)stack->native;
	uint64_t i = hash % SLOTS;
	struct site *site;

	for (; t->slots[i]; i = (i + 1) % SLOTS)
		if (is_stack(&t->sites[t->slots[i]], hash, stack))
			return t->slots[i];
	if (num_sites == GP_SITES || n > GP_SITE_FRAMES - num_frames) {
		dropped_stacks++;
		return 0;
	}
	t->slots[i] = (uint16_t)num_sites;
	site = &t->sites[num_sites];
	site->hash = hash;
	site->frames = num_frames;
	site->python = stack->python;
	site->native = stack->native;
	site->python_cut = stack->python_cut;
	site->native_cut = stack->native_cut;
	site->why = stack->why;
	memcpy(&t->frames[num_frames], stack->frames, n * sizeof(uint64_t));
	num_frames += n;
	return num_sites++;
}

/* The bin of this moment, after what makes room for it. */
static unsigned bin_at(uint64_t now_ns)
{
	while (gp_growth_bin(&growth_clock, now_ns) >= GP_GROWTH_BINS) {
		for (uint32_t i = 0; i < num_sites; i++)
			gp_growth_fold(&t->sites[i].growth);
		gp_growth_widen(&growth_clock);
	}
	return (unsigned)gp_growth_bin(&growth_clock, now_ns);
}

/* All sites as they are at the highest: copied once for 3 % of growth, so that
 * a rising program does not copy all the time. */
static void note_peak(double slack)
{
	if (live_bytes <= peak_bytes + slack)
		return;
	peak_bytes = live_bytes;
	for (uint32_t i = 0; i < num_sites; i++)
		t->sites[i].peak_bytes = t->sites[i].bytes;
}

/* Sums of estimates that were all taken back end near 0, not at it. */
static void change(struct site *site, double bytes, double blocks, unsigned bin)
{
	double before = site->bytes;

	site->bytes += bytes;
	site->blocks += blocks;
	if (site->bytes < 0.5 || site->blocks < 0.5)
		site->bytes = site->blocks = 0;
	live_bytes += bytes;
	live_blocks += blocks;
	if (live_bytes < 0.5)
		live_bytes = live_blocks = 0;
	gp_growth_note(&site->growth, bin, before, site->bytes);
}

/* ---- blocks -------------------------------------------------------------------- */

static uint32_t home(uint64_t key)
{
	return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 44) % BLOCKS;
}

static struct block *find(uint64_t key)
{
	uint32_t i = home(key);

	while (t->blocks[i].key && t->blocks[i].key != key)
		i = (i + 1) % BLOCKS;
	return &t->blocks[i];
}

/* Backward-shift deletion: no tombstones, lookups stay short. */
static void erase(struct block *block)
{
	uint32_t hole = (uint32_t)(block - t->blocks), i = hole;

	for (;;) {
		i = (i + 1) % BLOCKS;
		if (!t->blocks[i].key)
			break;
		if ((i - home(t->blocks[i].key)) % BLOCKS >=
		    (i - hole) % BLOCKS) {
			t->blocks[hole] = t->blocks[i];
			hole = i;
		}
	}
	t->blocks[hole].key = 0;
	num_blocks--;
}

static void take_out(struct block *block)
{
	change(&t->sites[block->site], -block->bytes, -(double)block->blocks,
	       bin_at(latest));
	erase(block);
}

bool gp_sites_add(uint64_t key, uint64_t owner, const struct gp_stack *stack,
		  struct gp_weight weight, uint64_t now_ns)
{
	struct block *block;
	struct site *site;
	bool room = false;

	pthread_mutex_lock(&lock);
	if (t && key) {
		if (now_ns > latest)
			latest = now_ns;
		block = find(key);
		if (block->key)
			take_out(block);
		room = num_blocks < BLOCKS / 4 * 3;
		dropped_blocks += !room;
	}
	if (room) {
		block = find(key);
		*block = (struct block){key, owner, site_of(stack),
					(float)weight.blocks, weight.bytes};
		num_blocks++;
		entered++;
		site = &t->sites[block->site];
		site->all_bytes += weight.bytes;
		site->all_blocks += weight.blocks;
		change(site, weight.bytes, (double)block->blocks,
		       bin_at(latest));
		note_peak(peak_bytes / 32);
	}
	pthread_mutex_unlock(&lock);
	return room;
}

uint32_t gp_sites_number(uint64_t key)
{
	const struct block *block;
	uint32_t number = 0;

	pthread_mutex_lock(&lock);
	if (t && key) {
		block = find(key);
		if (block->key)
			number = block->site;
	}
	pthread_mutex_unlock(&lock);
	return number;
}

void gp_sites_numbered(uint32_t number, struct gp_stack *stack)
{
	pthread_mutex_lock(&lock);
	if (number && number < num_sites)
		fill_stack(stack, &t->sites[number]);
	else
		memset(stack, 0, sizeof(*stack));
	pthread_mutex_unlock(&lock);
}

bool gp_sites_stack(uint64_t key, struct gp_stack *stack)
{
	uint32_t number = gp_sites_number(key);

	if (number)
		gp_sites_numbered(number, stack);
	return number != 0;
}

void gp_sites_remove(uint64_t key)
{
	struct block *block;

	pthread_mutex_lock(&lock);
	if (t && key) {
		block = find(key);
		if (block->key)
			take_out(block);
	}
	pthread_mutex_unlock(&lock);
}

void gp_sites_drop(uint64_t owner)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; t && i < BLOCKS && num_blocks;)
		if (t->blocks[i].key && t->blocks[i].owner == owner)
			take_out(
				&t->blocks
					 [i]); /* another one may be here now */
		else
			i++;
	pthread_mutex_unlock(&lock);
}

/* ---- what is told --------------------------------------------------------------- */

static uint64_t whole(double amount)
{
	return amount > 0 ? (uint64_t)(amount + 0.5) : 0;
}

/* Bytes an hour. */
static double slope(const struct site *site, unsigned bin, uint64_t *since)
{
	double grown;
	unsigned bins;

	if (!gp_growth_grows(&site->growth, bin, site->bytes, &grown, &bins))
		return 0;
	*since = bins * growth_clock.width;
	return grown / (double)*since * 3600e9;
}

static void fill(struct gp_site_row *row, const struct site *site, unsigned bin)
{
	memset(row, 0, sizeof(*row));
	row->bytes = whole(site->bytes);
	row->blocks = whole(site->blocks);
	row->peak_bytes = whole(site->peak_bytes);
	row->all_bytes = whole(site->all_bytes);
	row->all_blocks = whole(site->all_blocks);
	row->growth = whole(slope(site, bin, &row->since_ns));
	fill_stack(&row->stack, site);
}

static double measure(const struct site *site, enum gp_site_order order,
		      unsigned bin)
{
	uint64_t since;

	switch (order) {
	case GP_SITES_BY_PEAK:
		return site->peak_bytes;
	case GP_SITES_BY_GROWTH:
		return slope(site, bin, &since);
	case GP_SITES_BY_LIVE:
		break;
	}
	return site->bytes;
}

size_t gp_sites_top(enum gp_site_order order, struct gp_site_row *rows,
		    size_t n, uint64_t now_ns)
{
	static bool taken[GP_SITES]; /* guarded by lock */
	size_t found = 0;
	unsigned bin;

	pthread_mutex_lock(&lock);
	memset(taken, 0, sizeof(taken));
	if (now_ns > latest)
		latest = now_ns;
	if (t)
		note_peak(0);
	bin = t ? bin_at(latest) : 0;
	for (; t && found < n; found++) {
		double most = 0;
		uint32_t at = 0;

		for (uint32_t i = 0; i < num_sites; i++) {
			double m = taken[i] ? 0
					    : measure(&t->sites[i], order, bin);

			if (m > most) {
				most = m;
				at = i;
			}
		}
		if (most < 0.5)
			break;
		taken[at] = true;
		fill(&rows[found], &t->sites[at], bin);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

void gp_sites_get(struct gp_sites_totals *totals)
{
	pthread_mutex_lock(&lock);
	if (t)
		note_peak(0);
	*totals = (struct gp_sites_totals){
		.bytes = whole(live_bytes),
		.blocks = whole(live_blocks),
		.peak_bytes = whole(peak_bytes),
		.entered = entered,
		.entered_now = num_blocks,
		.sites = t ? num_sites - 1 : 0,
		.dropped_stacks = dropped_stacks,
		.dropped_blocks = dropped_blocks,
	};
	pthread_mutex_unlock(&lock);
}
