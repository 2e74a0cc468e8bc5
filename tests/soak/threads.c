/* The threads of a round, and what they do. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soak/soak.h"

#define OPERATIONS 150 /* a thread's, at most */
#define LIVES      8   /* threads that follow each other, a round */

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

void choose_operations(const char *only)
{
	for (unsigned i = 0; only && i < OP_COUNT; i++) {
		const char *at = strstr(only, ops[i].name);
		size_t n = strlen(ops[i].name);

		if (!at || (at != only && at[-1] != ',') ||
		    (at[n] && at[n] != ','))
			ops[i].weight = 0;
	}
}

const char *operation_name(unsigned op)
{
	return op < OP_COUNT ? ops[op].name : "quiet";
}

void beat(struct thread *t, unsigned op)
{
	struct board_thread *on = &soak.board->threads[t->slot];

	on->recent[on->ops % BOARD_RECENT] = (uint8_t)op;
	__atomic_store_n(&on->ops, on->ops + 1, __ATOMIC_RELEASE);
}

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

void start_all(struct thread *t, uint64_t round)
{
	running = soak.threads;
	for (unsigned i = 1; i <= soak.threads; i++)
		start(i, LIVES,
		      mix(mix(soak.seed, soak.incarnation), round * 16 + i));
	__atomic_store_n(&soak.board->threads[t->slot].busy, 0,
			 __ATOMIC_RELEASE); /* it waits for the others */
}

void wait_all(struct thread *t)
{
	pthread_mutex_lock(&lock);
	while (running)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
	beat(t, OP_quiet);
	__atomic_store_n(&soak.board->threads[t->slot].busy, 1,
			 __ATOMIC_RELEASE);
}
