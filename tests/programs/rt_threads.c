/*
 * Description: threads that allocate, fill, pass blocks on to each other,
 * check what they got and free it. Nobody sees another's data.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#define THREADS 6
#define ROUNDS  120
#define MAX     (256u << 10)
#define MAILBOX 16

struct block {
	unsigned char *p;
	size_t bytes;
	unsigned char value;
};

/* Blocks on their way from one thread to another. Guarded by lock. */
static struct block mailbox[MAILBOX];
static int in_mailbox;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static atomic_int errors, wrong, passed_on;

static void must(cudaError_t rc)
{
	if (rc != cudaSuccess)
		atomic_fetch_add(&errors, 1);
}

static void check_and_free(const struct block *b, unsigned char *host)
{
	must(cudaMemcpy(host, b->p, b->bytes, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < b->bytes; i++)
		if (host[i] != b->value) {
			atomic_fetch_add(&wrong, 1);
			break;
		}
	must(cudaFree(b->p));
}

/* Leave a block for anybody, and take what somebody left. */
static int swap_blocks(const struct block *mine, struct block *other,
		       unsigned pick)
{
	int got = 0;

	pthread_mutex_lock(&lock);
	if (in_mailbox == MAILBOX) {
		*other = mailbox[pick % MAILBOX];
		mailbox[pick % MAILBOX] = *mine;
		got = 1;
	} else {
		mailbox[in_mailbox++] = *mine;
	}
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&passed_on, got);
	return got;
}

static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg * 7919 + 1;
	unsigned char *host = malloc(MAX);

	for (int i = 0; i < ROUNDS; i++) {
		struct block b = {NULL, 1, 0}, other;

		seed = seed * 1664525 + 1013904223;
		b.bytes += (seed >> 8) % (seed & 64 ? MAX : 2000);
		b.value = (unsigned char)(seed >> 16);
		must(cudaMalloc((void **)&b.p, b.bytes));
		must(cudaMemset(b.p, b.value, b.bytes));
		if (i % 3 == 0)
			check_and_free(&b, host);
		else if (swap_blocks(&b, &other, seed >> 4))
			check_and_free(&other, host);
	}
	free(host);
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	unsigned char *host = malloc(MAX);
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || !count)
		return 77;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < in_mailbox; i++)
		check_and_free(&mailbox[i], host);
	free(host);
	printf("errors %d, wrong contents %d, passed on %d\n", errors, wrong,
	       passed_on > 0);
	return errors || wrong;
}
