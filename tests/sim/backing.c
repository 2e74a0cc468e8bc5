/*
 * Host memory behind device memory.
 *
 * Pages are taken when touched, so memory of many GiB costs nothing until a
 * copy or kernel writes it. What comes back is kept and zeroed when it is
 * given out again: taking pages from the kernel anew costs far more. Sizes
 * are powers of two; small ones are cut from slabs, as a process may not have
 * a mapping for each.
 */
#include "tests/sim/backing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MIN_SHIFT  9  /* 512 B */
#define SLAB_SHIFT 16 /* up to 64 KiB from slabs */
#define KEEP_SHIFT 22 /* above 4 MiB nothing is kept */
#define SLAB_BYTES (1u << 20)
#define KEEP_BYTES (128u << 20) /* of those with a mapping each */

/* Guarded by sim.lock. */
static struct {
	char **at;
	size_t n, room;
} spare[KEEP_SHIFT + 1];
static char *slab;
static size_t slab_left, kept;

static int shift_of(uint64_t bytes)
{
	int shift = MIN_SHIFT;

	while (1ull << shift < bytes)
		shift++;
	return shift;
}

static char *map(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static char *cut(int shift)
{
	size_t bytes = (size_t)1 << shift;
	char *at;

	/* A slab is cut from its end, largest alignment first or not: what
	 * is left is brought down to a multiple of the size. */
	slab_left &= ~(bytes - 1);
	if (!slab_left) {
		slab = map(SLAB_BYTES);
		if (!slab)
			return NULL;
		slab_left = SLAB_BYTES;
	}
	slab_left -= bytes;
	at = slab + slab_left;
	return at;
}

char *sim_backing_take(uint64_t bytes)
{
	int shift = shift_of(bytes);
	char *at;

	if (shift > KEEP_SHIFT)
		return map(bytes);
	if (spare[shift].n) {
		at = spare[shift].at[--spare[shift].n];
		if (shift > SLAB_SHIFT)
			kept -= (size_t)1 << shift;
		memset(at, 0, bytes);
		return at;
	}
	return shift > SLAB_SHIFT ? map(1ull << shift) : cut(shift);
}

static bool keep(char *at, int shift)
{
	if (spare[shift].n == spare[shift].room) {
		size_t room = spare[shift].room ? spare[shift].room * 2 : 16;
		char **more = realloc(spare[shift].at, room * sizeof(*more));

		if (!more)
			return false;
		spare[shift].at = more;
		spare[shift].room = room;
	}
	spare[shift].at[spare[shift].n++] = at;
	return true;
}

void sim_backing_give(char *at, uint64_t bytes)
{
	int shift = shift_of(bytes);

	if (shift > KEEP_SHIFT) {
		munmap(at, bytes);
	} else if (shift <= SLAB_SHIFT) {
		keep(at, shift); /* else the slab has a hole */
	} else if (kept + (1u << shift) <= KEEP_BYTES && keep(at, shift)) {
		kept += (size_t)1 << shift;
	} else {
		munmap(at, 1ull << shift);
	}
}
