/*
 * Description: what copies that reach another context's memory come before and
 * after, one line an entry point: with the work of the other context, its
 * cuCtxSynchronize and its cuMemFree. The same with and without the preload.
 * Then memory of one that is freed while work of the other has it, or is given
 * out again. Needs two cards; with the argument "same" two contexts of one.
 * With "slowly", too, it gives a busy card more time for what nothing holds up.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#include "tests/support/must.h"

#define BYTES   ((size_t)3 << 20)
#define PITCH   ((size_t)4096)
#define HOLD_MS 20 /* where the host waits for what is held */
#define SLOWLY  5  /* times as long */

/* The same whatever the headers take the name for. */
extern CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags,
			       CUdevice device);

enum { LEGACY, BLOCKING, NON_BLOCKING, PER_THREAD, STREAMS };

static bool same_card, peers;
static useconds_t pace_us = 1000;
static CUcontext contexts[2];
static CUdeviceptr at[2], spare[2];
static CUstream streams[2][STREAMS];
static unsigned char *pinned;

static void on(int i)
{
	MUST(cuCtxSetCurrent(contexts[i]));
}

static void settle(void)
{
	for (int i = 0; i < 2; i++) {
		on(i);
		MUST(cuCtxSynchronize());
	}
}

/* ---- work that is late ------------------------------------------------------------ */

static volatile unsigned *gate;
static unsigned held;
static pthread_t opener;
static bool all_there; /* that is to come meanwhile; atomic */

static void *open_gate(void *arg)
{
	(void)arg;
	for (int ms = 0; ms < HOLD_MS; ms++) {
		bool last = __atomic_load_n(&all_there, __ATOMIC_ACQUIRE);

		usleep(pace_us); /* what nothing holds up is over then */
		if (last)
			break;
	}
	*gate = held;
	return NULL;
}

/* Whatever comes into the stream waits, for some milliseconds at most. */
static void hold(int i, int stream)
{
	on(i);
	held++;
	MUST(cuStreamWaitValue32(streams[i][stream],
				 (CUdeviceptr)(uintptr_t)gate, held,
				 CU_STREAM_WAIT_VALUE_GEQ));
	all_there = false;
	if (pthread_create(&opener, NULL, open_gate, NULL))
		exit(1);
}

static void let_go(void)
{
	__atomic_store_n(&all_there, true, __ATOMIC_RELEASE);
	pthread_join(opener, NULL);
	settle();
}

static void set(int i, CUdeviceptr to, int value, int stream)
{
	on(i);
	MUST(cuMemsetD8Async(to, (unsigned char)value, BYTES,
			     streams[i][stream]));
}

static void set_now(int i, CUdeviceptr to, int value)
{
	set(i, to, value, NON_BLOCKING);
	MUST(cuCtxSynchronize());
}

/* What all the bytes are; -1: not all the same. Nothing is under way. */
static int value_of(int i, CUdeviceptr from)
{
	static unsigned char copy[BYTES];

	on(i);
	MUST(cuMemcpyDtoH(copy, from, BYTES));
	return memcmp(copy, copy + 1, BYTES - 1) ? -1 : copy[0];
}

static int value_pinned(void)
{
	return memcmp(pinned, pinned + 1, BYTES - 1) ? -1 : pinned[0];
}

/* ---- the copies ------------------------------------------------------------------- */

struct way {
	const char *what;
	int stream; /* it goes into */
	enum { DEVICES, TO_HOST, FROM_HOST } kind;
};

static const struct way ways[] = {
	{"cuMemcpyDtoD", LEGACY, DEVICES},
	{"cuMemcpyDtoD_ptds", PER_THREAD, DEVICES},
	{"cuMemcpy", LEGACY, DEVICES},
	{"cuMemcpyAsync", LEGACY, DEVICES},
	{"cuMemcpyAsync, blocking", BLOCKING, DEVICES},
	{"cuMemcpyAsync, non-blocking", NON_BLOCKING, DEVICES},
	{"cuMemcpyAsync_ptsz", PER_THREAD, DEVICES},
	{"cuMemcpy2D", LEGACY, DEVICES},
	{"cuMemcpy2DAsync, non-blocking", NON_BLOCKING, DEVICES},
	{"cuMemcpy3D", LEGACY, DEVICES},
	{"cuMemcpyPeer", LEGACY, DEVICES},
	{"cuMemcpyPeerAsync", LEGACY, DEVICES},
	{"cuMemcpyPeerAsync, non-blocking", NON_BLOCKING, DEVICES},
	{"cuMemcpy3DPeer", LEGACY, DEVICES},
	{"cuMemcpy3DPeerAsync, non-blocking", NON_BLOCKING, DEVICES},
	{"cuMemcpyHtoD", LEGACY, FROM_HOST},
	{"cuMemcpyHtoDAsync, non-blocking", NON_BLOCKING, FROM_HOST},
	{"cuMemcpyDtoH", LEGACY, TO_HOST},
	{"cuMemcpyDtoHAsync, non-blocking", NON_BLOCKING, TO_HOST},
};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(*ways)))

static CUresult box(const struct way *way, int from, int to, CUstream stream)
{
	CUDA_MEMCPY2D flat = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = at[from],
		.srcPitch = PITCH,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = at[to],
		.dstPitch = PITCH,
		.WidthInBytes = PITCH,
		.Height = BYTES / PITCH,
	};
	CUDA_MEMCPY3D deep = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = at[from],
		.srcPitch = PITCH,
		.srcHeight = BYTES / PITCH,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = at[to],
		.dstPitch = PITCH,
		.dstHeight = BYTES / PITCH,
		.WidthInBytes = PITCH,
		.Height = BYTES / PITCH,
		.Depth = 1,
	};
	CUDA_MEMCPY3D_PEER peer = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = at[from],
		.srcContext = contexts[from],
		.srcPitch = PITCH,
		.srcHeight = BYTES / PITCH,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = at[to],
		.dstContext = contexts[to],
		.dstPitch = PITCH,
		.dstHeight = BYTES / PITCH,
		.WidthInBytes = PITCH,
		.Height = BYTES / PITCH,
		.Depth = 1,
	};

	if (strstr(way->what, "3DPeerAsync"))
		return cuMemcpy3DPeerAsync(&peer, stream);
	if (strstr(way->what, "3DPeer"))
		return cuMemcpy3DPeer(&peer);
	if (strstr(way->what, "3D"))
		return cuMemcpy3D(&deep);
	return strstr(way->what, "Async") ? cuMemcpy2DAsync(&flat, stream)
					  : cuMemcpy2D(&flat);
}

/* By context 0. */
static CUresult copy(const struct way *way, int from, int to)
{
	CUresult (*twin)(CUdeviceptr, CUdeviceptr, size_t);
	CUresult (*async_twin)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
	CUstream stream = streams[0][way->stream];
	const char *what = way->what;

	on(0);
	if (strstr(what, "2D") || strstr(what, "3D"))
		return box(way, from, to, stream);
	if (!strcmp(what, "cuMemcpyDtoD_ptds")) {
		*(void **)&twin = dlsym(RTLD_DEFAULT, "cuMemcpyDtoD_v2_ptds");
		return twin(at[to], at[from], BYTES);
	}
	if (!strcmp(what, "cuMemcpyAsync_ptsz")) {
		*(void **)&async_twin = dlsym(RTLD_DEFAULT, what);
		return async_twin(at[to], at[from], BYTES, NULL);
	}
	if (!strncmp(what, "cuMemcpyPeerAsync", 17))
		return cuMemcpyPeerAsync(at[to], contexts[to], at[from],
					 contexts[from], BYTES, stream);
	if (!strcmp(what, "cuMemcpyPeer"))
		return cuMemcpyPeer(at[to], contexts[to], at[from],
				    contexts[from], BYTES);
	if (!strncmp(what, "cuMemcpyAsync", 13))
		return cuMemcpyAsync(at[to], at[from], BYTES, stream);
	if (!strcmp(what, "cuMemcpyDtoD"))
		return cuMemcpyDtoD(at[to], at[from], BYTES);
	if (!strcmp(what, "cuMemcpyHtoD"))
		return cuMemcpyHtoD(at[to], pinned, BYTES);
	if (!strncmp(what, "cuMemcpyHtoDAsync", 17))
		return cuMemcpyHtoDAsync(at[to], pinned, BYTES, stream);
	if (!strcmp(what, "cuMemcpyDtoH"))
		return cuMemcpyDtoH(pinned, at[from], BYTES);
	if (!strncmp(what, "cuMemcpyDtoHAsync", 17))
		return cuMemcpyDtoHAsync(pinned, at[from], BYTES, stream);
	return cuMemcpy(at[to], at[from], BYTES);
}

/* ---- order between a copy and the other context's work ----------------------------- */

#define OLD   1
#define GOOD  2
#define WRONG 3

/* Does the copy come after what the other has been given, late? */
static char comes_after(const struct way *way, int from, int to, int stream)
{
	int got;

	set_now(from, at[from], from == 1 ? OLD : GOOD);
	set_now(to, at[to], OLD);
	memset(pinned, way->kind == FROM_HOST ? GOOD : OLD, BYTES);
	hold(1, stream);
	if (from == 1)
		set(1, at[1], GOOD, stream);
	else
		set(1, at[1], WRONG, stream);
	MUST(copy(way, from, to));
	let_go();
	got = way->kind == TO_HOST ? value_pinned() : value_of(to, at[to]);
	return got == GOOD ? 'y' : 'n';
}

/* Does what the other is given then come after the copy, which is late? */
static char comes_before(const struct way *way, int from, int to, int stream)
{
	int got;

	set_now(from, at[from], GOOD);
	set_now(to, at[to], OLD);
	memset(pinned, way->kind == FROM_HOST ? GOOD : OLD, BYTES);
	hold(0, way->stream);
	MUST(copy(way, from, to));
	on(1);
	if (from == 1)
		set(1, at[1], WRONG, stream);
	else
		MUST(cuMemcpyDtoDAsync(spare[1], at[1], BYTES,
				       streams[1][stream]));
	let_go();
	got = way->kind == TO_HOST ? value_pinned()
	      : from == 1          ? value_of(0, at[0])
				   : value_of(1, spare[1]);
	return got == GOOD ? 'y' : 'n';
}

/* Do cuCtxSynchronize and cuMemFree of the other wait for a late copy? */
static char synchronize_waits(const struct way *way, int from, int to)
{
	char waits;

	hold(0, way->stream);
	MUST(copy(way, from, to));
	on(1);
	MUST(cuCtxSynchronize());
	waits = *gate == held ? 'y' : 'n';
	let_go();
	return waits;
}

/* One side's memory is freed while the copy is late, and given out again. */
static char freed_later(const struct way *way, int from, int to, int whose)
{
	int got = GOOD;

	set_now(from, at[from], GOOD);
	set_now(to, at[to], OLD);
	memset(pinned, way->kind == FROM_HOST ? GOOD : OLD, BYTES);
	hold(0, way->stream);
	MUST(copy(way, from, to));
	on(whose);
	MUST(cuMemFree(at[whose]));
	if (way->kind == TO_HOST && whose == 1)
		got = value_pinned(); /* the host may look at once */
	on(whose);
	MUST(cuMemAlloc(&at[whose], BYTES));
	set(whose, at[whose], WRONG, NON_BLOCKING);
	let_go();
	if (way->kind == DEVICES && whose == from)
		got = value_of(to, at[to]);
	if (value_of(whose, at[whose]) != WRONG)
		got = OLD;
	return got == GOOD ? 'y' : 'n';
}

/* What had the memory before comes before the copy. */
static char given_again(const struct way *way, int from, int to)
{
	int got;

	set_now(0, at[0], from == 0 ? GOOD : OLD);
	memset(pinned, way->kind == FROM_HOST ? GOOD : OLD, BYTES);
	hold(1, NON_BLOCKING);
	set(1, at[1], WRONG, NON_BLOCKING);
	MUST(cuMemFree(at[1]));
	MUST(cuMemAlloc(&at[1], BYTES));
	MUST(copy(way, from, to));
	let_go();
	got = value_of(to, at[to]);
	return got == GOOD ? 'y' : 'n';
}

static void line(const struct way *way, int from, int to)
{
	/* Between peers, and between contexts of one card, the driver's free of
	 * the destination does not wait, and the copy goes wrong. */
	bool waits = !(peers || same_card) || way->kind != DEVICES;

	if ((way->kind == TO_HOST && from == 0) ||
	    (way->kind == FROM_HOST && to == 0))
		return;
	printf("%s from %d to %d: after %c%c%c", way->what, from, to,
	       comes_after(way, from, to, LEGACY),
	       comes_after(way, from, to, BLOCKING),
	       comes_after(way, from, to, NON_BLOCKING));
	printf(" before %c%c%c", comes_before(way, from, to, LEGACY),
	       comes_before(way, from, to, BLOCKING),
	       comes_before(way, from, to, NON_BLOCKING));
	printf(" synchronize %c", synchronize_waits(way, from, to));
	printf(" freed %c",
	       waits || to != 0 ? freed_later(way, from, to, 0) : '-');
	printf("%c", waits || to != 1 ? freed_later(way, from, to, 1) : '-');
	printf(" again %c\n", to == 1 ? given_again(way, from, to) : '-');
}

/* ---- work of a peer --------------------------------------------------------------- */

/* Context 0 writes memory of the other, which it reaches, without a copy. */
static void peer_writes(void)
{
	CUdeviceptr other;

	on(1);
	MUST(cuMemAlloc(&other, BYTES));
	hold(1, NON_BLOCKING);
	set(1, at[1], OLD, NON_BLOCKING);
	MUST(cuMemFree(at[1]));
	MUST(cuMemAlloc(&at[1], BYTES));
	on(0);
	MUST(cuMemsetD8Async(at[1], GOOD, BYTES, streams[0][NON_BLOCKING]));
	let_go();
	printf("a peer writes what was freed: %c\n",
	       value_of(1, at[1]) == GOOD ? 'y' : 'n');
	hold(1, NON_BLOCKING);
	set(1, at[1], OLD, NON_BLOCKING);
	MUST(cuMemFree(other));
	on(0);
	MUST(cuMemsetD8Async(at[1], GOOD, BYTES, streams[0][NON_BLOCKING]));
	let_go();
	printf("a peer writes behind a free: %c\n",
	       value_of(1, at[1]) == GOOD ? 'y' : 'n');
}

static bool enable_peers(void)
{
	for (int i = 0; i < 2; i++) {
		on(i);
		if (cuCtxEnablePeerAccess(contexts[1 - i], 0))
			return false;
	}
	return true;
}

static void lines(void)
{
	for (int i = 0; i < NUM_WAYS; i++) {
		line(&ways[i], 1, 0);
		line(&ways[i], 0, 1);
	}
}

static bool open_contexts(void)
{
	for (int i = 0; i < 2; i++) {
		if (same_card ? cuCtxCreate_v2(&contexts[i], 0, 0)
			      : cuDevicePrimaryCtxRetain(&contexts[i], i))
			return false;
		on(i);
		MUST(cuMemAlloc(&at[i], BYTES));
		MUST(cuMemAlloc(&spare[i], BYTES));
		streams[i][LEGACY] = CU_STREAM_LEGACY;
		streams[i][PER_THREAD] = CU_STREAM_PER_THREAD;
		MUST(cuStreamCreate(&streams[i][BLOCKING], CU_STREAM_DEFAULT));
		MUST(cuStreamCreate(&streams[i][NON_BLOCKING],
				    CU_STREAM_NON_BLOCKING));
	}
	return true;
}

int main(int argc, char **argv)
{
	void *word;
	int count = 0;

	for (int i = 1; i < argc; i++) {
		same_card |= !strcmp(argv[i], "same");
		if (!strcmp(argv[i], "slowly"))
			pace_us *= SLOWLY;
	}
	if (cuInit(0) || cuDeviceGetCount(&count) || (count < 2 && !same_card))
		return 77;
	if (!open_contexts())
		return 77;
	on(0);
	MUST(cuMemHostAlloc((void **)&pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
	MUST(cuMemHostAlloc(&word, 4096, CU_MEMHOSTALLOC_PORTABLE));
	gate = word;
	*gate = 0;
	lines();
	if (!same_card && enable_peers()) {
		peers = true;
		puts("with peer access");
		lines();
		peer_writes();
	}
	return 0;
}
