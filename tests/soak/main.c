/*
 * A worker of the soak: rounds of random calls by several threads, each thread
 * succeeded by another when it has had its operations. Between rounds all is
 * given back, and the simulated cards must be as empty as they were.
 *
 *   soak BOARD WORKER SEED INCARNATION ROUNDS THREADS
 *
 * It ends after ROUNDS (0: when the board says so) and prints a line for each:
 * descriptors, threads, and host memory. The environment says the rest:
 *
 *   SOAK_DEVICES, SOAK_LIMIT_MIB   of the simulator; of the settings
 *   SOAK_BARRIER=0                 frees do not wait for copies
 *   SOAK_ENDS=1                    it does not always end in good order
 *   SOAK_ONLY=alloc,free           only these operations
 *   SOAK_ABORT=1                   what is wrong ends it by abort()
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shim/gpupool.h"
#include "tests/sim/gpusim.h"
#include "tests/soak/soak.h"

#define OPERATIONS 150 /* a thread's, at most */
#define LIVES      8   /* threads that follow each other, a round */
#define DEADLINE_S 60

struct soak soak;

static struct {
	const char *name;
	void (*run)(struct thread *t);
	unsigned weight;
} ops[] = {
#define X(name, weight) {#name, op_##name, weight},
	OPS(X)
#undef X
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static unsigned running; /* guarded by lock */

/* ---- chance, and what must be ------------------------------------------------------ */

uint64_t next_random(uint64_t *rng)
{
	uint64_t x = *rng += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t rng = a ^ (b + 1) * 0xd6e8feb86659fd93;

	return next_random(&rng);
}

void wrong(struct thread *t, const char *format, ...)
{
	struct board_thread *on = &soak.board->threads[t->slot];
	va_list args;

	while (__atomic_load_n(&soak.ends, __ATOMIC_ACQUIRE))
		pause();
	flockfile(stderr);
	fprintf(stderr, "soak: worker %u.%llu, thread %u:", soak.worker,
		(unsigned long long)soak.incarnation, t->slot);
	for (unsigned i = BOARD_RECENT; i; i--)
		if (on->ops >= i) {
			unsigned op = on->recent[(on->ops - i) % BOARD_RECENT];

			fprintf(stderr, " %s",
				op < OP_COUNT ? ops[op].name : "quiet");
		}
	fprintf(stderr, ": ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	fflush(stderr);
	if (getenv("SOAK_ABORT"))
		abort();
	_exit(3);
}

void good(struct thread *t, CUresult rc, const char *what)
{
	if (rc != CUDA_SUCCESS)
		wrong(t, "%s: %d", what, (int)rc);
}

bool got(struct thread *t, CUresult rc, const char *what)
{
	if (rc != CUDA_ERROR_OUT_OF_MEMORY)
		good(t, rc, what);
	return rc == CUDA_SUCCESS;
}

void beat(struct thread *t, unsigned op)
{
	struct board_thread *on = &soak.board->threads[t->slot];

	on->recent[on->ops % BOARD_RECENT] = (uint8_t)op;
	__atomic_store_n(&on->ops, on->ops + 1, __ATOMIC_RELEASE);
}

/* ---- contexts ------------------------------------------------------------------------ */

CUresult create_context(CUcontext *out, int device)
{
#if CUDA_VERSION >= 13000
	return cuCtxCreate(out, NULL, 0, device);
#else
	return cuCtxCreate(out, 0, device);
#endif
}

bool enter_lane(struct thread *t, struct lane *lane)
{
	GOOD(t, cuCtxSetCurrent(lane->context));
	if (!GOT(t, cuModuleLoadData(&lane->module, "any image will do")))
		return false;
	GOOD(t, cuModuleGetFunction(&lane->fill, lane->module, "fill32"));
	GOOD(t, cuModuleGetFunction(&lane->add, lane->module, "add32"));
	return true;
}

/* The primary context of each device, which there is always room for since
 * neighbours make room; and, where there is, one more. */
static void open_lanes(struct thread *t)
{
	soak.num_lanes = 0;
	for (unsigned i = 0; i < 2 * soak.devices; i++) {
		struct lane *lane = &soak.lanes[soak.num_lanes];
		CUresult rc;

		memset(lane, 0, sizeof(*lane));
		lane->device = (int)(i % soak.devices);
		lane->primary = i < soak.devices;
		beat(t, OP_quiet);
		rc = lane->primary
			     ? cuDevicePrimaryCtxRetain(&lane->context,
							lane->device)
			     : create_context(&lane->context, lane->device);
		if (!got(t, rc, "a context"))
			continue;
		soak.num_lanes++;
		if (!enter_lane(t, lane))
			wrong(t, "no memory for a module");
	}
}

static void empty_lane(struct thread *t, struct lane *lane)
{
	GOOD(t, cuCtxSetCurrent(lane->context));
	t->lane = lane;
	streams_begin(t);
	for (unsigned i = 0; i < SHARED; i++) {
		struct block *b = __atomic_exchange_n(&lane->shared[i], NULL,
						      __ATOMIC_ACQ_REL);

		if (!b)
			continue;
		verify(t, b);
		free_block(t, b);
	}
	streams_end(t);
	GOOD(t, cuModuleUnload(lane->module));
}

/* Some are destroyed, or reset, with what is in them. */
static void close_lanes(struct thread *t)
{
	for (unsigned i = soak.num_lanes; i--;) {
		struct lane *lane = &soak.lanes[i];
		bool full = !below(t, 3);

		beat(t, OP_quiet);
		if (!full)
			empty_lane(t, lane);
		GOOD(t, cuCtxSetCurrent(lane->context));
		GOOD(t, cuCtxSynchronize());
		if (!lane->primary)
			GOOD(t, cuCtxDestroy(lane->context));
		else if (full)
			GOOD(t, cuDevicePrimaryCtxReset(lane->device));
		if (lane->primary)
			GOOD(t, cuDevicePrimaryCtxRelease(lane->device));
		drop_shared(lane);
	}
	soak.num_lanes = 0;
	GOOD(t, cuCtxSetCurrent(NULL));
}

/* ---- threads ----------------------------------------------------------------------------- */

static void one_operation(struct thread *t, unsigned total)
{
	unsigned draw = (unsigned)below(t, total), i = 0;

	while (draw >= ops[i].weight)
		draw -= ops[i++].weight;
	beat(t, i);
	calls_begin();
	ops[i].run(t);
	close_opened(t, false);
	calls_end();
}

/* Leaves some of its blocks to others. */
static void end_life(struct thread *t)
{
	beat(t, OP_quiet);
	calls_begin();
	close_opened(t, true);
	for (unsigned i = 0; i < 4; i++)
		swap_shared(t);
	for (unsigned i = 0; i < OWN; i++) {
		if (!t->own[i])
			continue;
		if (below(t, 2))
			verify(t, t->own[i]);
		free_block(t, t->own[i]);
	}
	GOOD(t, cuMemFreeHost(t->pinned));
	streams_end(t);
	calls_end();
	free(t->host);
}

static void *life(void *arg);

static void start(unsigned slot, unsigned lives, uint64_t seed)
{
	struct thread *t = calloc(1, sizeof(*t));
	pthread_attr_t attr;
	pthread_t thread;

	t->slot = slot;
	t->lives = lives;
	t->rng = seed;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, life, t))
		wrong(t, "no thread");
	pthread_attr_destroy(&attr);
}

static void *life(void *arg)
{
	struct thread *t = arg;
	struct board_thread *on = &soak.board->threads[t->slot];
	unsigned total = 0, n = 1 + (unsigned)below(t, OPERATIONS);

	for (unsigned i = 0; i < OP_COUNT; i++)
		total += ops[i].weight;
	beat(t, OP_quiet);
	__atomic_store_n(&on->busy, 1, __ATOMIC_RELEASE);
	t->lane = &soak.lanes[below(t, soak.num_lanes)];
	t->host = malloc(HOST_BYTES);
	calls_begin();
	GOOD(t, cuCtxSetCurrent(t->lane->context));
	streams_begin(t);
	GOOD(t, cuMemHostAlloc((void **)&t->pinned, HOST_BYTES, 0));
	calls_end();
	while (n-- && !__atomic_load_n(&soak.all->stop, __ATOMIC_RELAXED))
		one_operation(t, total);
	end_life(t);
	if (t->lives > 1)
		start(t->slot, t->lives - 1, next_random(&t->rng));
	else
		__atomic_store_n(&on->busy, 0, __ATOMIC_RELEASE);
	pthread_mutex_lock(&lock);
	if (t->lives == 1 && !--running)
		pthread_cond_signal(&ended);
	pthread_mutex_unlock(&lock);
	free(t);
	return NULL;
}

static void start_all(struct thread *t, uint64_t round)
{
	running = soak.threads;
	for (unsigned i = 1; i <= soak.threads; i++)
		start(i, LIVES,
		      mix(mix(soak.seed, soak.incarnation), round * 16 + i));
	__atomic_store_n(&soak.board->threads[t->slot].busy, 0,
			 __ATOMIC_RELEASE); /* it waits for the others */
}

static void wait_all(struct thread *t)
{
	pthread_mutex_lock(&lock);
	while (running)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
	beat(t, OP_quiet);
	__atomic_store_n(&soak.board->threads[t->slot].busy, 1,
			 __ATOMIC_RELEASE);
}

/* ---- between rounds ------------------------------------------------------------------ */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Nothing is held. What others have mapped comes back when they close it. */
static void check_empty(struct thread *t)
{
	struct gpupool_figures f = {.size = sizeof(f)};
	double end = seconds() + DEADLINE_S;

	for (unsigned i = 0; i < soak.devices; i++) {
		CUmemoryPool pool;
		uint64_t used;

		GOOD(t, cuDeviceGetDefaultMemPool(&pool, (int)i));
		GOOD(t, cuMemPoolTrimTo(pool, 0));
		while ((used = gpusim_used_bytes((int)i)) ||
		       gpusim_context_bytes((int)i)) {
			if (seconds() > end)
				wrong(t,
				      "device %u: %llu bytes held, and %llu "
				      "by contexts, when all is freed",
				      i, (unsigned long long)used,
				      (unsigned long long)gpusim_context_bytes(
					      (int)i));
			if (gpupool_loaded())
				gpupool_trim(GPUPOOL_ALL_DEVICES, NULL);
			beat(t, OP_quiet);
			usleep(2000);
		}
	}
	if (!gpupool_loaded())
		return;
	if (gpupool_figures(GPUPOOL_ALL_DEVICES, &f))
		wrong(t, "no figures");
	if (f.allocated_bytes.current || f.requested_bytes.current ||
	    f.active_bytes.current || f.reserved_bytes.current ||
	    f.allocation.current || f.segment.current || f.outside_bytes ||
	    f.cached_bytes)
		wrong(t,
		      "counted when all is freed: allocated %llu requested "
		      "%llu active %llu reserved %llu allocations %llu "
		      "segments %llu outside %llu",
		      (unsigned long long)f.allocated_bytes.current,
		      (unsigned long long)f.requested_bytes.current,
		      (unsigned long long)f.active_bytes.current,
		      (unsigned long long)f.reserved_bytes.current,
		      (unsigned long long)f.allocation.current,
		      (unsigned long long)f.segment.current,
		      (unsigned long long)f.outside_bytes);
}

static unsigned count_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 2;
}

static unsigned count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned n = 0;
	int c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static void tell(uint64_t round)
{
	size_t in_use = mallinfo2().uordblks;
	unsigned long size = 0, resident = 0;
	FILE *f;

	malloc_trim(0);
	f = fopen("/proc/self/statm", "re");
	if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
		exit(3);
	fclose(f);
	printf("round %llu fds %u threads %u rss_kib %lu malloc_kib %zu "
	       "maps %u\n",
	       (unsigned long long)round, count_in("/proc/self/fd") - 1,
	       count_in("/proc/self/task"), resident * 4, in_use / 1024,
	       count_lines("/proc/self/maps"));
	fflush(stdout);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static unsigned number(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)atoi(text) : otherwise;
}

static void open_board(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct board *board =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
			      MAP_SHARED, fd, 0);

	if (board == MAP_FAILED)
		exit(2);
	close(fd);
	soak.all = board;
	soak.board = &board->workers[soak.worker];
	memset(soak.board->threads, 0, sizeof(soak.board->threads));
	withdraw();
	soak.board->ending = ENDS_OK;
	soak.board->pid = getpid();
}

static void round_of(struct thread *t, uint64_t round, bool last)
{
	open_lanes(t);
	start_all(t, round);
	if (last && soak.worker < BOARD_WORKERS / 2 && number("SOAK_ENDS", 0) &&
	    below(t, 4)) {
		usleep((useconds_t)below(t, 200000));
		end_somehow(t);
	}
	wait_all(t);
	withdraw();
	close_lanes(t);
	check_empty(t);
	soak.board->rounds = round + 1;
	if (soak.worker < BOARD_WORKERS / 2)
		tell(round);
}

static void choose_operations(const char *only)
{
	for (unsigned i = 0; only && i < OP_COUNT; i++) {
		const char *at = strstr(only, ops[i].name);
		size_t n = strlen(ops[i].name);

		if (!at || (at != only && at[-1] != ',') ||
		    (at[n] && at[n] != ','))
			ops[i].weight = 0;
	}
}

int main(int argc, char **argv)
{
	struct thread t = {.slot = 0};

	if (argc != 7)
		return 2;
	soak.argv = argv;
	soak.worker = (unsigned)atoi(argv[2]);
	soak.seed = strtoull(argv[3], NULL, 10);
	soak.incarnation = strtoull(argv[4], NULL, 10);
	soak.rounds = (unsigned)atoi(argv[5]);
	soak.threads = (unsigned)atoi(argv[6]);
	soak.devices = number("SOAK_DEVICES", 1);
	soak.limit_mib = number("SOAK_LIMIT_MIB", 0);
	soak.barrier = number("SOAK_BARRIER", 1);
	choose_operations(getenv("SOAK_ONLY"));
	open_board(argv[1]);
	t.rng = mix(mix(soak.seed, soak.incarnation), 0);
	t.host = malloc(HOST_BYTES);
	beat(&t, OP_quiet);
	soak.board->threads[0].busy = 1;
	good(&t, cuInit(0), "cuInit");
	for (uint64_t round = 0; !soak.rounds || round < soak.rounds; round++) {
		round_of(&t, round, round + 1 == soak.rounds);
		if (__atomic_load_n(&soak.all->stop, __ATOMIC_RELAXED))
			break;
	}
	soak.board->threads[0].busy = 0;
	free(t.host);
	return 0;
}
