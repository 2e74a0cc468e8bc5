/*
 * churn: a training-like program, for showing and testing allocators.
 *
 * Plain CUDA runtime, no kernels. Weights live throughout; a step allocates
 * activations of changing length on the way forward, each copied on from the
 * one before, with workspaces in between, and frees them on the way back in
 * reverse. Contents come from sets and copies that the seed decides, and are
 * checked when a block goes. Every block's checksum goes into the last line,
 * which is the same on every machine, whoever serves the memory.
 *
 * Any CUDA error is printed and ends it with status 1; wrong contents too.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#define STREAMS_MAX 64
#define WEIGHTS     24
#define LAYERS_MAX  16

static struct {
	unsigned long ops, seed, streams;
	size_t max_bytes;
	bool reset;
} options = {20000, 1, 4, 64u << 20, false};

/* A live allocation: `value` everywhere, but the pitched ones' padding. */
struct block {
	unsigned char *p;
	size_t width, height, pitch; /* height 1: no padding */
	unsigned char value;
	unsigned stream;
};

static struct {
	cudaStream_t stream[STREAMS_MAX];
	cudaEvent_t event;
	struct block weight[WEIGHTS];
	unsigned char *host; /* pinned, SAMPLE bytes */
	unsigned long allocs, frees, copies, checked;
	size_t live, peak;
	uint64_t checksum, random;
} run;

#define SAMPLE (16u << 10) /* of a block, this much is read back */

static void must(cudaError_t err, const char *what)
{
	if (err == cudaSuccess)
		return;
	printf("churn: %s: %s (%d)\n", what, cudaGetErrorString(err), (int)err);
	exit(1);
}

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t x = run.random += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static uint64_t below(uint64_t n)
{
	return draw() % n;
}

static void fold(uint64_t word)
{
	for (int i = 0; i < 8; i++)
		run.checksum =
			(run.checksum ^ (word >> 8 * i & 0xff)) * 0x100000001b3;
}

/* Many small sizes and few large, up to `most`. */
static size_t draw_size(size_t least, size_t most)
{
	size_t size = least;

	if (most <= least)
		return least;
	if (!below(128))
		return least + below(most - least);
	while (size < most && below(3))
		size *= 2;
	size += below(size);
	return size > most ? most : size;
}

static size_t bytes_of(const struct block *b)
{
	return b->height > 1 ? b->pitch * b->height : b->width;
}

static cudaStream_t stream_of(const struct block *b)
{
	return run.stream[b->stream];
}

static void fill(struct block *b)
{
	if (b->height > 1)
		must(cudaMemset2DAsync(b->p, b->pitch, b->value, b->width,
				       b->height, stream_of(b)),
		     "cudaMemset2DAsync");
	else
		must(cudaMemsetAsync(b->p, b->value, b->width, stream_of(b)),
		     "cudaMemsetAsync");
}

static void allocate(struct block *b, size_t bytes, unsigned stream)
{
	memset(b, 0, sizeof(*b));
	b->stream = stream;
	b->value = (unsigned char)draw();
	b->width = bytes;
	b->height = 1;
	if (bytes > 4096 && !below(8)) {
		b->width = 100 + below(2000);
		b->height = 2 + below(64);
		must(cudaMallocPitch((void **)&b->p, &b->pitch, b->width,
				     b->height),
		     "cudaMallocPitch");
	} else {
		must(cudaMalloc((void **)&b->p, bytes), "cudaMalloc");
	}
	run.allocs++;
	run.live += bytes_of(b);
	if (run.live > run.peak)
		run.peak = run.live;
	fill(b);
}

/* Work on `to` comes after what `from` has been given. */
static void order(const struct block *from, const struct block *to)
{
	if (from->stream == to->stream)
		return;
	must(cudaEventRecord(run.event, stream_of(from)), "cudaEventRecord");
	must(cudaStreamWaitEvent(stream_of(to), run.event, 0),
	     "cudaStreamWaitEvent");
}

/* The layer's input becomes part of its output, then all of its value. */
static void copy(const struct block *from, struct block *to)
{
	size_t n = from->width < to->width ? from->width : to->width;

	order(from, to);
	must(cudaMemcpyAsync(to->p, from->p, n, cudaMemcpyDeviceToDevice,
			     stream_of(to)),
	     "cudaMemcpyAsync");
	if (n == to->width && to->height == 1) {
		to->value = from->value;
	} else {
		order(to, from); /* `from` may be filled anew */
		fill(to);
	}
	run.copies++;
}

/* Read back the first and the last rows' bytes and fold what they are. */
static void check(const struct block *b)
{
	size_t n = b->width < SAMPLE ? b->width : SAMPLE;
	const unsigned char *last = b->p + bytes_of(b) -
				    (b->height > 1 ? b->pitch : b->width) +
				    (b->width - n);
	uint64_t sum = 0;

	for (int side = 0; side < 2; side++) {
		must(cudaMemcpyAsync(run.host, side ? last : b->p, n,
				     cudaMemcpyDeviceToHost, stream_of(b)),
		     "cudaMemcpyAsync to the host");
		must(cudaStreamSynchronize(stream_of(b)),
		     "cudaStreamSynchronize");
		for (size_t i = 0; i < n; i++) {
			if (run.host[i] != b->value) {
				printf("churn: a block of %zu bytes: byte %zu "
				       "is %u, not %u\n",
				       bytes_of(b), i, run.host[i], b->value);
				exit(1);
			}
			sum = sum * 31 + run.host[i];
		}
	}
	fold(sum);
	run.checked++;
}

static void release(struct block *b)
{
	if (!below(4))
		check(b);
	fold(b->width * b->height + b->value);
	run.live -= bytes_of(b);
	must(cudaFree(b->p), "cudaFree");
	run.frees++;
	b->p = NULL;
}

static void step(void)
{
	struct block act[LAYERS_MAX], work;
	unsigned layers = 4 + (unsigned)below(LAYERS_MAX - 4);
	/* The batch's sequence length: the sizes of the whole step follow. */
	size_t length = 1 + below(16);
	size_t cap = options.max_bytes / LAYERS_MAX;
	unsigned stream = (unsigned)below(options.streams);

	for (unsigned i = 0; i < layers; i++) {
		size_t bytes = draw_size(512, cap / 16) * length;

		if (options.streams > 1 && !below(6))
			stream = (unsigned)below(options.streams);
		allocate(&act[i], bytes > cap ? cap : bytes, stream);
		if (i)
			copy(&act[i - 1], &act[i]);
		if (below(2)) {
			allocate(&work, draw_size(512, cap), stream);
			copy(&run.weight[below(WEIGHTS)], &work);
			release(&work);
		}
	}
	while (layers--) {
		if (!below(3)) { /* the gradient */
			allocate(&work, act[layers].width, act[layers].stream);
			copy(&act[layers], &work);
			release(&work);
		}
		release(&act[layers]);
	}
	if (!below(16)) { /* a weight changes its size: a new optimiser state */
		struct block *w = &run.weight[below(WEIGHTS)];

		release(w);
		allocate(w, draw_size(256, cap), w->stream);
	}
}

static void start(void)
{
	run.random = options.seed;
	run.checksum = 0xcbf29ce484222325;
	must(cudaMallocHost((void **)&run.host, SAMPLE), "cudaMallocHost");
	must(cudaEventCreateWithFlags(&run.event, cudaEventDisableTiming),
	     "cudaEventCreateWithFlags");
	for (unsigned i = 0; i < options.streams; i++)
		must(cudaStreamCreateWithFlags(&run.stream[i],
					       cudaStreamNonBlocking),
		     "cudaStreamCreateWithFlags");
	for (unsigned i = 0; i < WEIGHTS; i++)
		allocate(&run.weight[i],
			 draw_size(256, options.max_bytes / LAYERS_MAX),
			 i % (unsigned)options.streams);
}

static void finish(void)
{
	for (unsigned i = 0; i < WEIGHTS; i++) {
		check(&run.weight[i]);
		release(&run.weight[i]);
	}
	for (unsigned i = 0; i < options.streams; i++)
		must(cudaStreamDestroy(run.stream[i]), "cudaStreamDestroy");
	must(cudaEventDestroy(run.event), "cudaEventDestroy");
	must(cudaFreeHost(run.host), "cudaFreeHost");
	if (options.reset)
		must(cudaDeviceReset(), "cudaDeviceReset");
}

/* ---- the command line --------------------------------------------------- */

static void usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: churn [--ops N] [--seed S] [--streams K]\n"
		"             [--max-bytes B] [--reset]\n"
		"  --ops N        at least N allocations and frees (20000)\n"
		"  --seed S       decides everything (1)\n"
		"  --streams K    1 to 64 (4)\n"
		"  --max-bytes B  about the most a step holds (64M); K, M, G\n"
		"  --reset        cudaDeviceReset at the end\n");
	exit(status);
}

static unsigned long number(const char *text, unsigned long least,
			    unsigned long most)
{
	unsigned long long value;
	char *end;
	int shift = 0;

	errno = 0;
	value = strtoull(text ? text : "", &end, 10);
	if (text && end != text && *end && !end[1])
		shift = *end == 'K'   ? 10
			: *end == 'M' ? 20
			: *end == 'G' ? 30
				      : 0;
	if (shift)
		end++;
	if (!text || *text < '0' || *text > '9' || *end || errno ||
	    value > most >> shift || value << shift < least) {
		fprintf(stderr, "churn: not a number from %lu to %lu: %s\n",
			least, most, text ? text : "(nothing)");
		exit(2);
	}
	return (unsigned long)(value << shift);
}

static void read_options(char **arg)
{
	while (*++arg) {
		if (!strcmp(*arg, "--reset")) {
			options.reset = true;
			continue;
		}
		if (!strcmp(*arg, "--help"))
			usage(0);
		if (!strcmp(*arg, "--ops"))
			options.ops = number(arg[1], 1, 1ul << 40);
		else if (!strcmp(*arg, "--seed"))
			options.seed = number(arg[1], 0, ~0ul);
		else if (!strcmp(*arg, "--streams"))
			options.streams = number(arg[1], 1, STREAMS_MAX);
		else if (!strcmp(*arg, "--max-bytes"))
			options.max_bytes = number(arg[1], 1u << 20, 1ul << 44);
		else
			usage(2);
		arg++;
	}
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	unsigned long steps = 0, ops;
	double began, took;

	(void)argc;
	read_options(argv);
	must(cudaFree(NULL), "cudaFree(NULL)");
	began = seconds();
	start();
	while (run.allocs + run.frees < options.ops) {
		step();
		steps++;
	}
	finish();
	took = seconds() - began;
	ops = run.allocs + run.frees;
	printf("steps %lu, allocations %lu, frees %lu, copies %lu, checks "
	       "%lu\n",
	       steps, run.allocs, run.frees, run.copies, run.checked);
	printf("peak %.1f MiB, %.3f s, %.2f us a call\n",
	       (double)run.peak / (1 << 20), took, took * 1e6 / (double)ops);
	printf("checksum %016llx\n", (unsigned long long)run.checksum);
	return 0;
}
