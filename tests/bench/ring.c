/*
 * What an allocate+free pair that hits costs with the event ring on, as by
 * default: a JSON object a line, {size, threads, ns}, the best of many runs as
 * in pair.c. `event_ns`: one event by itself. The ring lies in a file of the
 * runtime directory, as a program's does.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf.h"
#include "pool/pool.h"
#include "pool/replay/cost_driver.h"
#include "shim/pool_config.h"
#include "stats/process_file.h"
#include "stats/ring.h"

#define MAX_THREADS 64
#define REPEATS     25

struct bench {
	struct gp_pool *pool;
	uint64_t size; /* 0: events only */
	uint64_t pairs;
	pthread_barrier_t start;
	pthread_mutex_t lock;
	double ns[REPEATS]; /* sums over the threads; guarded by lock */
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "ring: %s\n", what);
	exit(1);
}

static void run_pairs(const struct bench *b)
{
	uint64_t va;

	for (uint64_t i = 0; i < b->pairs; i++) {
		if (!b->size)
			gp_ring_add(GP_RING_alloc, 0, i, i, i, i, i);
		else if (gp_pool_alloc(b->pool, b->size, &va) ||
			 gp_pool_free_idle(b->pool, va))
			die("the pool refused");
	}
}

static void *thread_main(void *arg)
{
	struct bench *b = arg;

	run_pairs(b);
	for (int i = 0; i < REPEATS; i++) {
		double start;

		pthread_barrier_wait(&b->start);
		start = now_ns();
		run_pairs(b);
		start = now_ns() - start;
		pthread_mutex_lock(&b->lock);
		b->ns[i] += start / (double)b->pairs;
		pthread_mutex_unlock(&b->lock);
	}
	return NULL;
}

static double measure(struct gp_pool *pool, uint64_t size, unsigned threads)
{
	struct bench b = {.pool = pool, .size = size, .pairs = 20000};
	pthread_t thread[MAX_THREADS];
	double best;

	pthread_barrier_init(&b.start, NULL, threads);
	pthread_mutex_init(&b.lock, NULL);
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, thread_main, &b))
			die("cannot start a thread");
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	best = b.ns[0];
	for (int i = 1; i < REPEATS; i++)
		best = b.ns[i] < best ? b.ns[i] : best;
	return best / threads;
}

int main(void)
{
	static const uint64_t sizes[] = {512,      4096,      65536,  1 << 20,
					 16 << 20, 256 << 20, 1 << 30};
	struct gp_cost_driver *device = gp_cost_driver_new(0);
	char dir[] = "/tmp/gpupool-bench-XXXXXX", path[128];
	struct gp_file_options options = {.names = "", .conf = ""};
	struct gp_pool_config config;
	struct gp_driver driver;
	struct gp_pool *pool;
	struct gp_conf conf;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	double event;

	if (!device || !mkdtemp(dir))
		die("no place to work in");
	driver = gp_cost_driver_seam(device);
	gp_conf_defaults(&conf);
	gp_pool_config_from(&config, &conf);
	if (gp_pool_create(&driver, &config, &pool))
		die("no pool");
	options.xdg = dir;
	options.ring_bytes = conf.ring_size;
	gp_file_start(&options);
	if (!gp_ring_on)
		die("no ring");
	event = measure(pool, 0, 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		printf("{\"size\": %llu, \"threads\": 1, \"ns\": %.2f, "
		       "\"event_ns\": %.2f}\n",
		       (unsigned long long)sizes[i], measure(pool, sizes[i], 1),
		       event);
	for (unsigned n = 2; n <= MAX_THREADS && (n <= cores || n <= 8); n *= 2)
		printf("{\"size\": 4096, \"threads\": %u, \"ns\": %.2f, "
		       "\"event_ns\": %.2f}\n",
		       n, measure(pool, 4096, n), measure(pool, 0, n));
	snprintf(path, sizeof(path), "%s/%s", gp_file_dir(),
		 gp_file_own_name());
	unlink(path);
	rmdir(gp_file_dir());
	rmdir(dir);
	return 0;
}
