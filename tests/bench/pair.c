/*
 * What an allocate+free pair costs: over the pool with a modelled driver, or
 * over glibc's malloc as a yardstick on the same machine.
 *
 *   pair --size BYTES [--threads T] [--pairs N] [--batch B] [--live L]
 *        [--repeat R] [--remote | --mix] [--malloc]
 *
 * Each thread allocates and frees N times in a row, all at once; before that,
 * L blocks of about that size are held and as many free ones lie between
 * them. With --mix a thread keeps 64 blocks of any size up to BYTES and replaces
 * one at random instead. Prints the best of R runs: wall time for a pair on one thread, in ns,
 * the mean over the threads. The best, because what else the machine does can
 * only add.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/conf.h"
#include "pool/pool.h"
#include "pool/replay/cost_driver.h"
#include "shim/pool_config.h"

#define MAX_THREADS 256
#define MAX_REPEATS 64

struct options {
	uint64_t size, pairs, live, batch;
	unsigned threads, repeats;
	bool use_malloc, remote, mix;
};

#define MAILBOX 64 /* blocks on their way from one thread to its neighbour */
#define WINDOW  64 /* blocks that a thread holds with --mix */

struct mailbox {
	_Atomic uint64_t slots[MAILBOX]; /* 0: empty */
};

struct bench {
	const struct options *o;
	struct gp_pool *pool;
	pthread_barrier_t start;
	pthread_mutex_t lock;
	double ns[MAX_REPEATS]; /* sums over the threads; guarded by lock */
	_Atomic unsigned next_thread;
	struct mailbox *mailboxes; /* a thread's, by its number */
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "pair: %s\n", what);
	exit(1);
}

static void pool_pairs(struct gp_pool *pool, uint64_t size, uint64_t pairs)
{
	uint64_t va;

	while (pairs--) {
		if (gp_pool_alloc(pool, size, &va) ||
		    gp_pool_free_idle(pool, va))
			die("the pool refused");
	}
}

static void malloc_pairs(uint64_t size, uint64_t pairs)
{
	while (pairs--) {
		void *p = malloc(size);

		/* Without this the compiler drops the pair. */
		__asm__ volatile("" : : "r"(p) : "memory");
		if (!p)
			die("malloc refused");
		free(p);
	}
}

static uint64_t take(const struct bench *b, uint64_t size)
{
	uint64_t va;

	if (b->o->use_malloc)
		va = (uintptr_t)malloc(size);
	else if (gp_pool_alloc(b->pool, size, &va))
		va = 0;
	if (!va)
		die("an allocation was refused");
	return va;
}

static void give(const struct bench *b, uint64_t va)
{
	if (b->o->use_malloc)
		free((void *)(uintptr_t)va);
	else if (gp_pool_free_idle(b->pool, va))
		die("a free was refused");
}

static uint64_t draw(uint64_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 7;
	*rng ^= *rng << 17;
	return *rng;
}

/* Sizes from the one that is timed to a quarter more. */
static uint64_t some_size(uint64_t size, uint64_t *rng)
{
	return size + draw(rng) % (size / 4 + 1);
}

static void batch_pairs(const struct bench *b, uint64_t pairs)
{
	uint64_t *blocks = calloc(b->o->batch, sizeof(*blocks));
	uint64_t rng = 1181783497276652981ull, i;

	if (!blocks)
		die("out of memory");
	for (; pairs >= b->o->batch; pairs -= b->o->batch) {
		for (i = 0; i < b->o->batch; i++)
			blocks[i] = take(b, some_size(b->o->size, &rng));
		for (i = 0; i < b->o->batch; i++)
			give(b, blocks[i]);
	}
	free(blocks);
}

/* Puts each block into the neighbour's mailbox, and frees what lay there. */
static void remote_pairs(const struct bench *b, unsigned self, uint64_t pairs)
{
	struct mailbox *to = &b->mailboxes[(self + 1) % b->o->threads];
	uint64_t i, old;

	for (i = 0; i < pairs; i++) {
		struct mailbox *mine = &b->mailboxes[self];

		old = atomic_exchange(&to->slots[i % MAILBOX],
				      take(b, b->o->size));
		if (old)
			give(b, old);
		old = atomic_exchange(&mine->slots[i % MAILBOX], 0);
		if (old)
			give(b, old);
	}
}

/* As tests/gpu/programs/pairs.h has it. */
static void mixed_pairs(const struct bench *b, unsigned self, uint64_t pairs)
{
	uint64_t window[WINDOW], rng = 88172645463325252ull + self * 7919;

	for (unsigned i = 0; i < WINDOW; i++)
		window[i] = take(b, 1 + draw(&rng) % b->o->size);
	while (pairs--) {
		uint64_t *at = &window[draw(&rng) % WINDOW];

		give(b, *at);
		*at = take(b, 1 + draw(&rng) % b->o->size);
	}
	for (unsigned i = 0; i < WINDOW; i++)
		give(b, window[i]);
}

static void run_pairs(const struct bench *b, unsigned self, uint64_t pairs)
{
	if (b->o->remote)
		remote_pairs(b, self, pairs);
	else if (b->o->mix)
		mixed_pairs(b, self, pairs);
	else if (b->o->batch)
		batch_pairs(b, pairs);
	else if (b->o->use_malloc)
		malloc_pairs(b->o->size, pairs);
	else
		pool_pairs(b->pool, b->o->size, pairs);
}

static void *thread_main(void *arg)
{
	struct bench *b = arg;
	unsigned self = atomic_fetch_add(&b->next_thread, 1), i;

	run_pairs(b, self, 100);
	for (i = 0; i < b->o->repeats; i++) {
		double start;

		pthread_barrier_wait(&b->start);
		start = now_ns();
		run_pairs(b, self, b->o->pairs);
		start = now_ns() - start;
		pthread_mutex_lock(&b->lock);
		b->ns[i] += start / (double)b->o->pairs;
		pthread_mutex_unlock(&b->lock);
	}
	return NULL;
}

/* L blocks held, L free ones between them that cannot join. */
static void fill(struct bench *b)
{
	uint64_t count = 2 * b->o->live, i, rng = 88172645463325252ull;
	uint64_t *blocks = calloc(count, sizeof(*blocks));

	if (!blocks)
		die("out of memory");
	for (i = 0; i < count; i++)
		blocks[i] = take(b, some_size(b->o->size, &rng));
	for (i = 0; i < count; i += 2)
		give(b, blocks[i]);
	free(blocks); /* what is held stays so to the end */
}

static double run(struct bench *b)
{
	pthread_t threads[MAX_THREADS];
	double best;
	unsigned i;

	pthread_barrier_init(&b->start, NULL, b->o->threads);
	pthread_mutex_init(&b->lock, NULL);
	for (i = 0; i < b->o->threads; i++) {
		if (pthread_create(&threads[i], NULL, thread_main, b))
			die("cannot start a thread");
	}
	for (i = 0; i < b->o->threads; i++)
		pthread_join(threads[i], NULL);
	best = b->ns[0];
	for (i = 1; i < b->o->repeats; i++)
		best = b->ns[i] < best ? b->ns[i] : best;
	return best / b->o->threads;
}

static uint64_t number(const char *text, uint64_t max)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (end == text || *end || n > max) {
		fprintf(stderr, "pair: \"%s\" is no number up to %llu\n", text,
			(unsigned long long)max);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"size", required_argument, NULL, 's'},
		{"threads", required_argument, NULL, 't'},
		{"pairs", required_argument, NULL, 'n'},
		{"batch", required_argument, NULL, 'b'},
		{"remote", no_argument, NULL, 'R'},
		{"mix", no_argument, NULL, 'x'},
		{"live", required_argument, NULL, 'l'},
		{"repeat", required_argument, NULL, 'r'},
		{"malloc", no_argument, NULL, 'm'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			o->size = number(optarg, 1ull << 40);
			break;
		case 't':
			o->threads = (unsigned)number(optarg, MAX_THREADS);
			break;
		case 'n':
			o->pairs = number(optarg, 1ull << 40);
			break;
		case 'l':
			o->live = number(optarg, 1ull << 24);
			break;
		case 'b':
			o->batch = number(optarg, 1u << 20);
			break;
		case 'R':
			o->remote = true;
			break;
		case 'x':
			o->mix = true;
			break;
		case 'r':
			o->repeats = (unsigned)number(optarg, MAX_REPEATS);
			break;
		case 'm':
			o->use_malloc = true;
			break;
		default:
			exit(2);
		}
	}
	if (optind < argc || !o->size || !o->threads || !o->pairs ||
	    !o->repeats) {
		fprintf(stderr,
			"usage: pair --size BYTES [--threads T] [--pairs N] "
			"[--batch B]\n            [--live L] [--repeat R] "
			"[--remote | --mix] [--malloc]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options o = {.threads = 1, .pairs = 20000, .repeats = 25};
	struct gp_cost_driver *device = gp_cost_driver_new(0);
	struct gp_pool_config config;
	struct bench b = {.o = &o};
	struct gp_driver driver;
	struct gp_conf conf;

	parse(argc, argv, &o);
	b.mailboxes = calloc(o.threads, sizeof(*b.mailboxes));
	if (!device || !b.mailboxes)
		die("out of memory");
	driver = gp_cost_driver_seam(device);
	gp_conf_defaults(&conf);
	gp_pool_config_from(&config, &conf);
	if (gp_pool_create(&driver, &config, &b.pool))
		die("no pool");
	fill(&b);
	printf("{\"size\": %llu, \"threads\": %u, \"live\": %llu, "
	       "\"ns\": %.2f}\n",
	       (unsigned long long)o.size, o.threads,
	       (unsigned long long)o.live, run(&b));
	/* What is held is not freed: that would be timed by nobody. */
	return 0;
}
