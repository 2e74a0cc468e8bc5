/*
 * Random operations on the pool against a plain model.
 *
 * Every block is written with a number of its own, 512 bytes at a time, in the
 * model driver's physical memory, and must still hold it when it is freed: so
 * no two blocks overlap, and nothing that moves memory touches live data.
 * Counters must equal the sums kept here; pool_check() must be content; with
 * --faults the driver fails at random and nothing may be lost.
 *
 *   pool-fuzz --ops N --seed S [--memory MIB] [--check N]
 *             [--threads T] [--segments] [--policy keep|decay|none]
 *             [--faults P] [--crowded]
 *
 * --crowded: others take most of the device and give it back all the time, the
 * pool grows by more than it needs, and every driver call takes its time, so
 * that other threads run meanwhile.
 *
 * With none of the options of the last two lines the operations are divided
 * among several kinds of runs.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/cache.h"
#include "pool/pool.h"
#include "pool/slab.h"
#include "tests/support/model_driver.h"

#define SLOTS    400
#define SHARED   64
#define PART_OPS 300 /* between two changes of a thread's part */

/* Of a crowded device: by the model's clock, ns. */
#define CALL_NS  20000000ull

struct allocation {
	uint64_t va, bytes, tag;
};

struct worker {
	pthread_t thread;
	unsigned index;
	uint64_t random;
	struct allocation slots[SLOTS];
	uint64_t allocated, live_bytes, live_count;
};

static struct {
	uint64_t ops, seed, memory, check_every;
	unsigned threads;
	double faults;
	bool segments;
	bool crowded;
	enum gp_cache_policy policy;
	bool one; /* a kind of run was asked for: only that */
} options = {
	.ops = 20000,
	.seed = 1,
	.memory = 192,
	.threads = 1,
	.policy = GP_CACHE_DECAY,
#ifdef GP_DEBUG
	.check_every = 1,
#else
	.check_every = 256,
#endif
};

static struct gp_pool *pool;
static struct model *model;
static struct worker *workers;
static struct gp_pool_stats totals; /* as the run ended */
/* Blocks on their way from one thread to another; lock guards all. */
static struct allocation shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static void __attribute__((format(printf, 1, 2), noreturn))
die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "pool-fuzz: seed %llu, %u threads: ",
		(unsigned long long)options.seed, options.threads);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random * 0x2545f4914f6cdd1dull;
}

static uint64_t below(struct worker *w, uint64_t n)
{
	return (next_random(w) >> 16) % n;
}

/* Mostly small, now and then large, often one of a few sizes. */
static uint64_t random_size(struct worker *w)
{
	static const uint64_t favourites[] = {
		512,     4096,     65536,    100000,    1u << 20,
		1500000, 2u << 20, 3u << 20, 20u << 20, 1,
	};

	switch (below(w, 8)) {
	case 0:
	case 1:
		return favourites[below(w, 10)];
	case 2:
		return 1 + below(w, 3u << 20);
	case 3:
		return below(w, 6) ? 1 + below(w, 200000)
				   : 1 + below(w, options.memory << 17);
	default:
		return 1 + below(w, 20000);
	}
}

static void check_pool(void)
{
	char why[200];
	const char *broken = model_error(model);

	if (gp_pool_check(pool, why, sizeof(why)))
		die("pool_check: %s", why);
	if (broken)
		die("driver: %s", broken);
}

/* ---- operations --------------------------------------------------------------- */

static void allocate(struct worker *w, struct allocation *a)
{
	uint64_t bytes = random_size(w);
	uint64_t va = 0, base, found;
	int rc = gp_pool_alloc(pool, bytes, &va);

	if (rc) {
		if (rc != -ENOMEM && !(options.faults > 0 && rc == -EIO))
			die("alloc of %llu: %d", (unsigned long long)bytes, rc);
		return;
	}
	if (va % (bytes < GP_LARGE_FROM ? GP_ALIGN_SMALL : GP_ALIGN_LARGE))
		die("%llu bytes at %#llx: not aligned",
		    (unsigned long long)bytes, (unsigned long long)va);
	if (gp_pool_of(va) != pool)
		die("gp_pool_of does not know %#llx", (unsigned long long)va);
	if (gp_pool_find(pool, va + below(w, bytes), &base, &found) ||
	    base != va || found != bytes)
		die("gp_pool_find does not know %#llx", (unsigned long long)va);
	*a = (struct allocation){
		.va = va,
		.bytes = bytes,
		.tag = ++w->allocated << 8 | w->index,
	};
	model_write(model, va, bytes, a->tag);
	w->live_bytes += bytes;
	w->live_count++;
}

static void release(struct worker *w, struct allocation *a)
{
	uint64_t base, bytes;
	int rc;

	if (!model_read(model, a->va, a->bytes, a->tag))
		die("block %#llx lost its contents", (unsigned long long)a->va);
	/* Only the start is an allocation. */
	if (a->bytes > 512 && gp_pool_free(pool, a->va + 512) != -ENOENT)
		die("an interior address was freed");
	if (gp_pool_find(pool, a->va + a->bytes - 1, &base, &bytes) ||
	    base != a->va || bytes != a->bytes)
		die("the end of %#llx is not found", (unsigned long long)a->va);
	rc = below(w, 8) ? gp_pool_free(pool, a->va)
			 : gp_pool_free_idle(pool, a->va);
	if (rc && !(options.faults > 0 && rc == -EIO))
		die("free of %#llx: %d", (unsigned long long)a->va, rc);
	if (options.threads == 1 && gp_pool_free(pool, a->va) != -ENOENT)
		die("a block was freed twice");
	if (options.threads == 1 &&
	    gp_pool_find(pool, a->va, &base, &bytes) != -ENOENT)
		die("a freed block is found");
	w->live_bytes -= a->bytes;
	w->live_count--;
	a->va = 0;
}

/* Give a block to another thread, or take one over. */
static void exchange(struct worker *w, struct allocation *a)
{
	struct allocation *s = &shared[below(w, SHARED)];
	struct allocation mine = *a;

	pthread_mutex_lock(&shared_lock);
	*a = *s;
	*s = mine;
	pthread_mutex_unlock(&shared_lock);
	if (mine.va) {
		w->live_bytes -= mine.bytes;
		w->live_count--;
	}
	if (a->va) {
		w->live_bytes += a->bytes;
		w->live_count++;
	}
}

static void compare_stats(void)
{
	struct gp_pool_stats stats;
	uint64_t bytes = 0, count = 0;

	gp_pool_get_stats(pool, &stats);
	for (unsigned i = 0; i < options.threads; i++) {
		bytes += workers[i].live_bytes;
		count += workers[i].live_count;
	}
	for (int i = 0; i < SHARED; i++)
		if (shared[i].va) {
			bytes += shared[i].bytes;
			count++;
		}
	if (stats.requested_bytes.current != bytes ||
	    stats.allocation.current != count)
		die("counters say %llu bytes in %llu blocks, not %llu in %llu",
		    (unsigned long long)stats.requested_bytes.current,
		    (unsigned long long)stats.allocation.current,
		    (unsigned long long)bytes, (unsigned long long)count);
	if (stats.reserved_bytes.current != model_used(model))
		die("reserved %llu bytes, the driver gave %llu",
		    (unsigned long long)stats.reserved_bytes.current,
		    (unsigned long long)model_used(model));
	if (stats.allocated_bytes.current < bytes ||
	    stats.reserved_bytes.current < stats.allocated_bytes.current)
		die("allocated %llu bytes of %llu reserved for %llu",
		    (unsigned long long)stats.allocated_bytes.current,
		    (unsigned long long)stats.reserved_bytes.current,
		    (unsigned long long)bytes);
}

/* What others leave us at the moment: seldom everything. */
static uint64_t crowded_total(struct worker *w)
{
	uint64_t all = options.memory << 20;

	return below(w, 4) ? all / 4 + below(w, all / 2) : all;
}

/* In every driver call of a crowded device, with no lock held. */
static void linger(void *arg, enum model_call call)
{
	(void)call;
	model_advance(arg, CALL_NS);
	sched_yield();
}

static void step(struct worker *w)
{
	struct allocation *a = &w->slots[below(w, SLOTS)];

	switch (below(w, 100)) {
	case 0:
		gp_pool_trim(pool,
			     below(w, 2) ? UINT64_MAX : below(w, 64u << 20));
		break;
	case 1:
		model_advance(model, below(w, 8000) * 1000000);
		gp_pool_tick(pool);
		break;
	case 2:
		if (options.crowded)
			model_set_total(model, crowded_total(w));
		else if (options.threads == 1)
			model_set_capturing(model, below(w, 4) == 0);
		break;
	case 3:
		if (options.threads == 1)
			compare_stats();
		break;
	case 4:
		/* A burst: everything this thread has goes. */
		for (int i = 0; i < SLOTS && below(w, 64) != 0; i++)
			if (w->slots[i].va)
				release(w, &w->slots[i]);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		exchange(w, a);
		break;
	default:
		if (a->va)
			release(w, a);
		else
			allocate(w, a);
	}
}

/* As if it had met other threads at the lock of its part of the slabs. */
static void change_part(unsigned part)
{
	struct gp_cache *cache = gp_cache_find(pool);

	if (cache)
		cache->part = part % GP_SLAB_PARTS;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < options.ops / options.threads; i++) {
		step(w);
		if (i % PART_OPS == PART_OPS - 1)
			change_part((unsigned)(i / PART_OPS) + w->index);
		if (i % options.check_every == 0)
			check_pool();
	}
	return NULL;
}

/* ---- whole runs --------------------------------------------------------------- */

static void finish(void)
{
	uint64_t left;

	model_set_capturing(model, false);
	model_fail_randomly(model, 0, 0);
	model_set_hook(model, NULL, NULL);
	check_pool();
	compare_stats();
	for (unsigned i = 0; i < options.threads; i++)
		for (int j = 0; j < SLOTS; j++)
			if (workers[i].slots[j].va)
				release(&workers[i], &workers[i].slots[j]);
	for (int i = 0; i < SHARED; i++)
		if (shared[i].va) {
			workers[0].live_bytes += shared[i].bytes;
			workers[0].live_count++;
			release(&workers[0], &shared[i]);
		}
	check_pool();
	gp_pool_get_stats(pool, &totals);
	/* The first may only find what failed before; the second must do. */
	gp_pool_trim(pool, UINT64_MAX);
	gp_pool_trim(pool, UINT64_MAX);
	check_pool();
	left = model_used(model);
	if (left)
		die("%llu bytes are left after everything was freed",
		    (unsigned long long)left);
}

static void report(void)
{
	printf("pool-fuzz: %llu operations, seed %llu, %u threads%s%s%s: clean "
	       "(%llu allocations, %llu hits, %llu refused, %llu remaps, "
	       "%llu set aside)\n",
	       (unsigned long long)options.ops,
	       (unsigned long long)options.seed, options.threads,
	       options.segments ? ", segments" : "",
	       options.faults > 0 ? ", faults" : "",
	       options.crowded ? ", crowded" : "",
	       (unsigned long long)totals.num_alloc_calls,
	       (unsigned long long)totals.num_hits,
	       (unsigned long long)totals.num_ooms,
	       (unsigned long long)totals.num_remaps,
	       (unsigned long long)totals.num_deferred);
}

static void run(void)
{
	struct model_config config = {
		.total_bytes = options.memory << 20,
		.no_vmm = options.segments,
		.tags = true,
	};
	struct gp_pool_config pool_config;
	struct gp_driver driver;

	model = model_create(&config);
	driver = model_driver(model);
	gp_pool_config_init(&pool_config);
	pool_config.cache_policy = options.policy;
	pool_config.expandable_segments = !options.segments;
	if (options.crowded) {
		pool_config.growth_factor = 1.5;
		model_set_hook(model, linger, model);
	}
	if (gp_pool_create(&driver, &pool_config, &pool))
		die("no pool");
	model_fail_randomly(model, options.faults, options.seed);
	workers = calloc(options.threads, sizeof(*workers));
	if (!workers)
		die("no memory");
	for (unsigned i = 0; i < options.threads; i++) {
		workers[i].index = i;
		workers[i].random = (options.seed * 1000003 + i + 1) *
				    0x9e3779b97f4a7c15ull;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("no thread");
	}
	for (unsigned i = 0; i < options.threads; i++)
		pthread_join(workers[i].thread, NULL);
	finish();
	gp_pool_destroy(pool);
	if (model_error(model))
		die("driver: %s", model_error(model));
	if (model_objects(model))
		die("%llu handles are left after destruction",
		    (unsigned long long)model_objects(model));
	model_destroy(model);
	free(workers);
	memset(shared, 0, sizeof(shared));
	report();
}

static void run_kinds(void)
{
	static const struct {
		unsigned threads;
		bool segments;
		enum gp_cache_policy policy;
		double faults;
		uint64_t memory; /* parts of options.memory */
		bool crowded;
	} kinds[] = {
		{1, false, GP_CACHE_DECAY, 0, 1, false},
		{1, false, GP_CACHE_KEEP, 0.02, 1, false},
		{4, false, GP_CACHE_DECAY, 0, 1, false},
		{4, false, GP_CACHE_KEEP, 0.01, 3, false},
		{1, false, GP_CACHE_NONE, 0.02, 1, false},
		{1, true, GP_CACHE_DECAY, 0.02, 1, false},
		{4, true, GP_CACHE_KEEP, 0, 1, false},
		{4, false, GP_CACHE_KEEP, 0, 1, true},
		{3, false, GP_CACHE_DECAY, 0.03, 1, true},
		{2, true, GP_CACHE_KEEP, 0.02, 1, true},
	};
	const size_t n = sizeof(kinds) / sizeof(kinds[0]);
	const uint64_t memory = options.memory;

	options.ops = options.ops / n + 1;
	for (size_t i = 0; i < n; i++) {
		options.threads = kinds[i].threads;
		options.segments = kinds[i].segments;
		options.policy = kinds[i].policy;
		options.faults = kinds[i].faults;
		options.crowded = kinds[i].crowded;
		options.memory = memory / kinds[i].memory;
		run();
	}
}

static enum gp_cache_policy parse_policy(const char *name)
{
	if (!strcmp(name, "keep"))
		return GP_CACHE_KEEP;
	if (!strcmp(name, "none"))
		return GP_CACHE_NONE;
	if (strcmp(name, "decay"))
		die("policy %s is not keep, decay or none", name);
	return GP_CACHE_DECAY;
}

static const struct option long_options[] = {
	{"ops", required_argument, NULL, 'o'},
	{"seed", required_argument, NULL, 's'},
	{"threads", required_argument, NULL, 't'},
	{"memory", required_argument, NULL, 'm'},
	{"segments", no_argument, NULL, 'g'},
	{"crowded", no_argument, NULL, 'w'},
	{"policy", required_argument, NULL, 'p'},
	{"faults", required_argument, NULL, 'f'},
	{"check", required_argument, NULL, 'c'},
	{0},
};

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'o':
			options.ops = strtoull(optarg, NULL, 10);
			break;
		case 's':
			options.seed = strtoull(optarg, NULL, 10);
			break;
		case 't':
			options.one = true;
			options.threads = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'm':
			options.memory = strtoull(optarg, NULL, 10);
			break;
		case 'g':
			options.one = true;
			options.segments = true;
			break;
		case 'w':
			options.one = true;
			options.crowded = true;
			break;
		case 'p':
			options.one = true;
			options.policy = parse_policy(optarg);
			break;
		case 'f':
			options.one = true;
			options.faults = strtod(optarg, NULL);
			break;
		case 'c':
			options.check_every = strtoull(optarg, NULL, 10);
			break;
		default:
			return 2;
		}
	}
	if (optind < argc || !options.threads || !options.check_every ||
	    options.threads > 255)
		return 2;
	if (options.one)
		run();
	else
		run_kinds();
	return 0;
}
