/*
 * A plain C program over the CUDA runtime: buffers of mixed sizes, copies both
 * ways and between buffers, sets, several streams, frees while work is in
 * flight, and the answers to wrong frees. Every buffer's contents are known on
 * the host and compared; the last line is equal plain and preloaded.
 *
 *   runtime [--rounds N] [--seed S] [--slots K]
 */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS   4
#define MAX_SLOTS 256
#define MAX_BYTES (24u << 20)

struct slot {
	unsigned char *device;
	size_t bytes;
	unsigned char first; /* byte i is (first + i * step) mod 256 */
	unsigned char step;
};

static uint64_t state;
static uint64_t hash = 1469598103934665603u;
static unsigned long wrong;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void mix(const void *data, size_t bytes)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ p[i]) * 1099511628211u;
}

static void check(cudaError_t status, const char *what)
{
	if (status == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
	exit(1);
}

/* Small, medium and large sizes, about as training programs mix them. */
static size_t draw_size(void)
{
	static const size_t limit[] = {512, 64u << 10, 1u << 20, MAX_BYTES};
	uint64_t kind = draw() % 100;

	return 1 + draw() % limit[(kind >= 40) + (kind >= 70) + (kind >= 90)];
}

static void fill(unsigned char *host, const struct slot *slot)
{
	for (size_t i = 0; i < slot->bytes; i++)
		host[i] = (unsigned char)(slot->first + i * slot->step);
}

/* Reads the slot back and compares every byte. */
static void verify(const struct slot *slot, unsigned char *host)
{
	check(cudaMemcpy(host, slot->device, slot->bytes,
			 cudaMemcpyDeviceToHost),
	      "copy to the host");
	for (size_t i = 0; i < slot->bytes; i++)
		wrong += host[i] !=
			 (unsigned char)(slot->first + i * slot->step);
	mix(host, slot->bytes < 4096 ? slot->bytes : 4096);
}

/* What the runtime answers to wrong use is part of what must not change. */
static void wrong_use(void)
{
	unsigned char *p = NULL;
	void *none = &none;
	int answers[8];
	int n = 0;

	check(cudaMalloc((void **)&p, 1 << 20), "cudaMalloc");
	answers[n++] = cudaFree(p + 512);
	answers[n++] = cudaFree(p);
	answers[n++] = cudaFree(p);
	answers[n++] = cudaFree(NULL);
	answers[n++] = cudaMalloc(&none, 0);
	answers[n++] = none == NULL;
	answers[n++] = cudaMalloc(&none, (size_t)1 << 50);
	answers[n++] = cudaGetLastError();
	for (int i = 0; i < n; i++)
		fprintf(stderr, "answer %d: %d\n", i, answers[i]);
	mix(answers, n * sizeof(*answers));
}

/* A pitched buffer: rows written with one pitch, read back with another. */
static void pitched(unsigned char *host)
{
	const size_t width = 1000, height = 300;
	void *device;
	size_t pitch;

	for (size_t i = 0; i < width * height; i++)
		host[i] = (unsigned char)(i * 7);
	check(cudaMallocPitch(&device, &pitch, width, height), "MallocPitch");
	check(cudaMemcpy2D(device, pitch, host, width, width, height,
			   cudaMemcpyHostToDevice),
	      "Memcpy2D in");
	memset(host, 0, width * height);
	check(cudaMemcpy2D(host, width, device, pitch, width, height,
			   cudaMemcpyDeviceToHost),
	      "Memcpy2D out");
	for (size_t i = 0; i < width * height; i++)
		wrong += host[i] != (unsigned char)(i * 7);
	mix(&pitch, sizeof(pitch));
	check(cudaFree(device), "cudaFree");
}

static void release(struct slot *slot)
{
	check(cudaFree(slot->device), "cudaFree");
	slot->device = NULL;
}

int main(int argc, char **argv)
{
	static struct slot slots[MAX_SLOTS];
	cudaStream_t streams[STREAMS];
	unsigned char *host;
	long rounds = 4000, num_slots = 64;

	state = 88172645463325252u;
	for (int i = 1; i + 1 < argc; i += 2) {
		long value = atol(argv[i + 1]);

		if (strcmp(argv[i], "--rounds") == 0)
			rounds = value;
		else if (strcmp(argv[i], "--seed") == 0)
			state += (uint64_t)value * 2654435761u;
		else if (strcmp(argv[i], "--slots") == 0)
			num_slots = value;
	}
	if (num_slots < 1 || num_slots > MAX_SLOTS || rounds < 1) {
		fprintf(stderr,
			"usage: runtime [--rounds N] [--seed S] "
			"[--slots 1..%d]\n",
			MAX_SLOTS);
		return 2;
	}
	check(cudaMallocHost((void **)&host, MAX_BYTES), "cudaMallocHost");
	for (int i = 0; i < STREAMS; i++)
		check(cudaStreamCreateWithFlags(&streams[i],
						i % 2 ? cudaStreamNonBlocking
						      : cudaStreamDefault),
		      "stream");
	for (long round = 0; round < rounds; round++) {
		struct slot *slot = &slots[draw() % num_slots];
		struct slot *other = &slots[draw() % num_slots];
		cudaStream_t stream = streams[draw() % STREAMS];

		if (slot->device && draw() % 4 == 0)
			verify(slot, host);
		if (slot->device)
			release(slot);
		slot->bytes = draw_size();
		check(cudaMalloc((void **)&slot->device, slot->bytes),
		      "cudaMalloc");
		slot->first = (unsigned char)draw();
		slot->step = 0;
		if (other->device && other != slot &&
		    other->bytes >= slot->bytes) {
			/* A copy in flight while its source is freed. */
			slot->first = other->first;
			slot->step = other->step;
			check(cudaMemcpyAsync(slot->device, other->device,
					      slot->bytes,
					      cudaMemcpyDeviceToDevice, stream),
			      "copy between buffers");
			if (draw() % 2)
				release(other);
		} else if (slot->bytes <= 1u << 20 && draw() % 2) {
			slot->step = (unsigned char)(1 + draw() % 9);
			fill(host, slot);
			check(cudaMemcpyAsync(slot->device, host, slot->bytes,
					      cudaMemcpyHostToDevice, stream),
			      "copy to the device");
		} else {
			check(cudaMemsetAsync(slot->device, slot->first,
					      slot->bytes, stream),
			      "set");
		}
		/* Later rounds use the slot on any stream, and `host`. */
		check(cudaStreamSynchronize(stream), "synchronize");
	}
	for (long i = 0; i < num_slots; i++) {
		if (!slots[i].device)
			continue;
		verify(&slots[i], host);
		release(&slots[i]);
	}
	pitched(host);
	wrong_use();
	for (int i = 0; i < STREAMS; i++)
		check(cudaStreamDestroy(streams[i]), "stream destroy");
	check(cudaFreeHost(host), "cudaFreeHost");
	printf("result checksum=%016llx wrong=%lu\n", (unsigned long long)hash,
	       wrong);
	return wrong != 0;
}
