/*
 * Plays training steps of 20 linear layers as PyTorch without its cache runs
 * them: bfloat16 autocast, batches of changing size, AdamW, the backward pass on
 * a thread of its own, which frees what the other one allocated. Only the calls
 * are made; the driver does nothing. Prints how many there are in a step.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define LAYERS 20
#define WIDTH  2048ul
#define BATCH  1024 /* at most */
#define WARM   10   /* steps */
#define STEPS  15

typedef unsigned long long block;

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(block *at, size_t bytes);
int cuMemFree_v2(block at);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
		   unsigned, unsigned, void *, void **, void **);
int cuStreamSynchronize(void *stream);

static struct layer {
	block weight, bias;       /* in bfloat16 */
	block in, sum;            /* activations */
	block by_weight, by_bias; /* gradients */
} layers[LAYERS];
static block batch, loss, gradient, roots[2 * LAYERS];
static size_t rows;

static unsigned long allocated, launched; /* the backward pass waits its turn */
static unsigned seed = 1;

/* What a kernel writes, by a kernel. */
static block made(size_t bytes)
{
	block at;

	if (cuMemAlloc_v2(&at, bytes))
		exit(1);
	cuLaunchKernel(&seed, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	allocated++;
	launched++;
	return at;
}

static void drop(block at)
{
	if (cuMemFree_v2(at))
		exit(1);
}

static void forward(void)
{
	block in;

	seed = seed * 1664525u + 1013904223u;
	rows = 16 + (seed >> 8) % (BATCH - 15);
	batch = made(rows * WIDTH * 4);
	in = made(rows * WIDTH * 2);
	drop(batch);
	for (struct layer *l = layers; l < layers + LAYERS; l++) {
		l->in = in;
		l->weight = made(WIDTH * WIDTH * 2);
		l->bias = made(WIDTH * 2);
		l->sum = made(rows * WIDTH * 2);
		in = made(rows * WIDTH * 2);
		drop(l->sum);
	}
	batch = in;
	loss = made(4);
	for (struct layer *l = layers; l < layers + LAYERS; l++)
		drop(l->bias);
}

static void backward(void)
{
	block above = made(rows * WIDTH * 2), below, part;

	drop(batch);
	for (struct layer *l = layers + LAYERS; l-- > layers;) {
		gradient = made(rows * WIDTH * 2);
		drop(above);
		below = made(rows * WIDTH * 2);
		part = made(WIDTH * WIDTH * 2);
		l->by_weight = made(WIDTH * WIDTH * 4);
		drop(part);
		part = made(WIDTH * 2);
		l->by_bias = made(WIDTH * 4);
		drop(part);
		drop(gradient);
		drop(l->in);
		drop(l->weight);
		above = below;
	}
	drop(above);
}

static void update(void)
{
	for (size_t i = 0; i < LAYERS; i++) {
		roots[2 * i] = made(WIDTH * WIDTH * 4);
		roots[2 * i + 1] = made(WIDTH * 4);
	}
	for (size_t i = 0; i < 2ul * LAYERS; i++)
		drop(roots[i]);
	for (struct layer *l = layers; l < layers + LAYERS; l++) {
		drop(l->by_weight);
		drop(l->by_bias);
	}
	cuStreamSynchronize(NULL);
	drop(loss);
}

/* Whoever counts instructions counts those of part(). */
__attribute__((noinline)) void part(void (*what)(void))
{
	what();
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

__attribute__((noinline)) void warm_part(void (*what)(void))
{
	what();
	__asm__ volatile("" ::: "memory");
}

static void (*run)(void (*what)(void)) = warm_part;
static sem_t go, done;
static void *context;

static void *backwards(void *arg)
{
	if (cuCtxSetCurrent(context))
		exit(1);
	for (int i = 0; i < WARM + STEPS; i++) {
		sem_wait(&go);
		run(backward);
		sem_post(&done);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuCtxSetCurrent(context) || sem_init(&go, 0, 0) ||
	    sem_init(&done, 0, 0) ||
	    pthread_create(&thread, NULL, backwards, NULL))
		return 1;
	for (int i = 0; i < 3 * LAYERS; i++) { /* weights, AdamW's state */
		made(WIDTH * WIDTH * 4);
		made(WIDTH * 4);
	}
	for (int i = 0; i < WARM + STEPS; i++) {
		if (i == WARM) {
			run = part;
			allocated = launched = 0;
		}
		run(forward);
		sem_post(&go);
		sem_wait(&done);
		run(update);
	}
	pthread_join(thread, NULL);
	printf("%d %lu %lu\n", STEPS, allocated / STEPS, launched / STEPS);
	return 0;
}
