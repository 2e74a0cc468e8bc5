/*
 * Description: copies between cards by addresses alone, of every entry point,
 * without peer access and with it, one line a copy: the same with and without
 * the preload. Both directions, a third card that copies for two others, host
 * memory, boxes, the per-thread twins, behind a wait, in a graph, and what is
 * refused. Needs two cards, better three.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "tests/support/must.h"

#define BYTES ((size_t)3 << 20)
#define CARDS 3 /* at most */

static int cards;
static CUcontext contexts[CARDS];
static CUdeviceptr at[CARDS];
static CUstream streams[CARDS];
static char *pinned, *pageable;

static void on(int card)
{
	MUST(cuCtxSetCurrent(contexts[card]));
}

/* A pattern that tells every byte's place, and where in it a filling begins:
 * each has other bytes everywhere. */
#define SHIFT    131
#define FILLINGS 1000

static char bytes[BYTES + FILLINGS * SHIFT];
static const char *pattern = bytes;

static void make_pattern(void)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + (i >> 8) * 3 + (i >> 16));
}

/* New bytes on a card; nothing on the other side. Leaves `card` current. */
static void fill(int card, int other, char *host)
{
	if (pattern + SHIFT + BYTES > bytes + sizeof(bytes)) {
		printf("too many fillings\n");
		exit(1);
	}
	pattern += SHIFT;
	if (other >= 0) {
		on(other);
		MUST(cuMemsetD8(at[other], 0, BYTES));
		MUST(cuCtxSynchronize());
	}
	if (card >= 0) {
		on(card);
		MUST(cuMemcpyHtoD(at[card], pattern, BYTES));
		/* The last of pageable memory may be on its way yet. */
		MUST(cuCtxSynchronize());
	} else {
		memcpy(host, pattern, BYTES);
	}
}

/* How many bytes of a box are not the pattern's; it begins at `first`. */
static size_t wrong(int card, const char *host, size_t first, size_t pitch,
		    size_t width, size_t rows)
{
	static char copy[BYTES];
	size_t bad = 0;

	if (card >= 0) {
		on(card);
		MUST(cuCtxSynchronize());
		MUST(cuMemcpyDtoH(copy, at[card], BYTES));
		host = copy;
	}
	for (size_t y = 0; y < rows; y++) {
		size_t at_row = first + y * pitch;

		if (!memcmp(host + at_row, pattern + at_row, width))
			continue;
		for (size_t i = at_row; i < at_row + width; i++)
			bad += host[i] != pattern[i];
	}
	return bad;
}

/* The same of all bytes. */
static size_t wrong_at_all(int card, const char *host)
{
	return wrong(card, host, 0, BYTES, BYTES, 1);
}

static void *entry(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	if (!found) {
		printf("%s is not there\n", name);
		exit(1);
	}
	return found;
}

/* ---- lines -------------------------------------------------------------------- */

typedef CUresult line_fn(CUdeviceptr, CUdeviceptr, size_t);
typedef CUresult line_async_fn(CUdeviceptr, CUdeviceptr, size_t, CUstream);

static void tell(const char *name, int from, int to, int by, CUresult rc,
		 size_t bad)
{
	printf("%s from %d to %d on %d: %d, %zu wrong\n", name, from, to, by,
	       (int)rc, bad);
}

static void lines(int from, int to, int by)
{
	static const char *const waiting[] = {"cuMemcpy", "cuMemcpy_ptds",
					      "cuMemcpyDtoD_v2",
					      "cuMemcpyDtoD_v2_ptds"};
	static const char *const async[] = {
		"cuMemcpyAsync", "cuMemcpyAsync_ptsz", "cuMemcpyDtoDAsync_v2",
		"cuMemcpyDtoDAsync_v2_ptsz"};
	CUresult rc;

	for (int i = 0; i < 4; i++) {
		fill(from, to, NULL);
		on(by);
		rc = ((line_fn *)entry(waiting[i]))(at[to], at[from], BYTES);
		MUST(cuCtxSynchronize()); /* none of these waits */
		tell(waiting[i], from, to, by, rc, wrong_at_all(to, NULL));
	}
	for (int i = 0; i < 8; i++) {
		line_async_fn *copy = (line_async_fn *)entry(async[i / 2]);
		CUstream stream = i & 1 ? streams[by] : NULL;

		fill(from, to, NULL);
		on(by);
		rc = copy(at[to], at[from], BYTES, stream);
		MUST(cuCtxSynchronize());
		tell(async[i / 2], from, to, by, rc, wrong_at_all(to, NULL));
	}
}

/* The stream's card copies, not the current one. */
static void stream_of_another(void)
{
	CUresult rc;

	fill(0, 1, NULL);
	on(cards - 1);
	rc = cuMemcpyDtoDAsync(at[1], at[0], BYTES, streams[0]);
	MUST(cuStreamSynchronize(streams[0]));
	tell("another's stream", 0, 1, 0, rc, wrong_at_all(1, NULL));
	fill(1, 1, NULL);
	on(0);
	rc = cuMemcpyHtoDAsync(at[1], pinned, BYTES, streams[1]);
	MUST(cuStreamSynchronize(streams[1]));
	printf("to its own card: %d\n", (int)rc);
}

/* ---- the host ------------------------------------------------------------------- */

static void host(char *memory, const char *what, int card, int by)
{
	CUresult rc;

	for (int i = 0; i < 4; i++) {
		fill(-1, card, memory);
		on(by);
		rc = i == 0   ? cuMemcpyHtoD(at[card], memory, BYTES)
		     : i == 1 ? cuMemcpyHtoDAsync(at[card], memory, BYTES,
						  streams[by])
		     : i == 2 ? cuMemcpy(at[card], (CUdeviceptr)(size_t)memory,
					 BYTES)
			      : cuMemcpyAsync(at[card],
					      (CUdeviceptr)(size_t)memory,
					      BYTES, streams[by]);
		MUST(cuCtxSynchronize());
		printf("%s %d ", what, i);
		tell("in", -1, card, by, rc, wrong_at_all(card, NULL));
		fill(card, -1, NULL);
		memset(memory, 0, BYTES);
		on(by);
		rc = i == 0   ? cuMemcpyDtoH(memory, at[card], BYTES)
		     : i == 1 ? cuMemcpyDtoHAsync(memory, at[card], BYTES,
						  streams[by])
		     : i == 2 ? cuMemcpy((CUdeviceptr)(size_t)memory, at[card],
					 BYTES)
			      : cuMemcpyAsync((CUdeviceptr)(size_t)memory,
					      at[card], BYTES, streams[by]);
		if (i & 1)
			MUST(cuStreamSynchronize(streams[by]));
		printf("%s %d ", what, i);
		tell("out", card, -1, by, rc, wrong_at_all(-1, memory));
	}
}

/* ---- boxes --------------------------------------------------------------------- */

#define PITCH  ((size_t)4096)
#define WIDTH  ((size_t)1000)
#define HEIGHT ((size_t)100)
#define DEPTH  ((size_t)5)

static CUresult box_2d(int i, const CUDA_MEMCPY2D *c, CUstream stream)
{
	switch (i) {
	case 0:
		return cuMemcpy2D(c);
	case 1:
		return cuMemcpy2DUnaligned(c);
	case 2:
		return cuMemcpy2DAsync(c, stream);
	case 3:
		return ((CUresult(*)(const CUDA_MEMCPY2D *))entry(
			"cuMemcpy2D_v2_ptds"))(c);
	default:
		return ((CUresult(*)(const CUDA_MEMCPY2D *, CUstream))entry(
			"cuMemcpy2DAsync_v2_ptsz"))(c, stream);
	}
}

static CUresult box_3d(int i, const CUDA_MEMCPY3D *c, CUstream stream)
{
	switch (i) {
	case 0:
		return cuMemcpy3D(c);
	case 1:
		return cuMemcpy3DAsync(c, stream);
	case 2:
		return ((CUresult(*)(const CUDA_MEMCPY3D *))entry(
			"cuMemcpy3D_v2_ptds"))(c);
	default:
		return ((CUresult(*)(const CUDA_MEMCPY3D *, CUstream))entry(
			"cuMemcpy3DAsync_v2_ptsz"))(c, stream);
	}
}

/* Bytes that are not where the box ends up, and those beside it that changed.
 */
static void boxes(int from, int to, int by, CUmemorytype type)
{
	CUDA_MEMCPY2D flat = {
		.srcMemoryType = type,
		.srcDevice = at[from],
		.srcPitch = PITCH,
		.dstMemoryType = type,
		.dstDevice = at[to],
		.dstPitch = PITCH,
		.WidthInBytes = WIDTH,
		.Height = HEIGHT,
	};
	CUDA_MEMCPY3D deep = {
		.srcMemoryType = type,
		.srcDevice = at[from],
		.srcPitch = PITCH,
		.srcHeight = HEIGHT,
		.dstMemoryType = type,
		.dstDevice = at[to],
		.dstPitch = PITCH,
		.dstHeight = HEIGHT,
		.WidthInBytes = WIDTH,
		.Height = HEIGHT,
		.Depth = DEPTH,
	};
	CUresult rc;

	for (int i = 0; i < 5; i++) {
		fill(from, to, NULL);
		on(by);
		rc = box_2d(i, &flat, streams[by]);
		MUST(cuCtxSynchronize());
		printf("2D %d type %d ", i, (int)type);
		tell("box", from, to, by, rc,
		     wrong(to, NULL, 0, PITCH, WIDTH, HEIGHT));
	}
	for (int i = 0; i < 4; i++) {
		fill(from, to, NULL);
		on(by);
		rc = box_3d(i, &deep, streams[by]);
		MUST(cuCtxSynchronize());
		printf("3D %d type %d ", i, (int)type);
		tell("box", from, to, by, rc,
		     wrong(to, NULL, 0, PITCH, WIDTH, HEIGHT * DEPTH));
	}
	/* Somewhere inside, and to host memory by its address alone. */
	fill(from, to, NULL);
	flat.srcXInBytes = flat.dstXInBytes = 24;
	flat.srcY = flat.dstY = 3;
	on(by);
	rc = cuMemcpy2D(&flat);
	MUST(cuCtxSynchronize());
	printf("2D inside: %d, %zu wrong\n", (int)rc,
	       wrong(to, NULL, 3 * PITCH + 24, PITCH, WIDTH, HEIGHT));
	fill(from, -1, NULL);
	memset(pinned, 0, BYTES);
	memset(&flat, 0, sizeof(flat));
	flat.srcMemoryType = flat.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	flat.srcDevice = at[from];
	flat.dstDevice = (CUdeviceptr)(size_t)pinned;
	flat.srcPitch = flat.dstPitch = PITCH;
	flat.WidthInBytes = WIDTH;
	flat.Height = HEIGHT;
	on(by);
	rc = cuMemcpy2D(&flat);
	printf("2D to the host: %d, %zu wrong\n", (int)rc,
	       wrong(-1, pinned, 0, PITCH, WIDTH, HEIGHT));
}

/* ---- order ---------------------------------------------------------------------- */

/* Behind a wait in a stream; and what is refused. */
static void order(void)
{
	volatile unsigned *go = (volatile unsigned *)pinned;
	CUdeviceptr word = (CUdeviceptr)(size_t)pinned;
	CUresult rc, query;

	fill(1, 0, NULL);
	*go = 0;
	on(0);
	MUST(cuStreamWaitValue32(streams[0], word, 1, CU_STREAM_WAIT_VALUE_EQ));
	rc = cuMemcpyDtoDAsync(at[0], at[1], BYTES, streams[0]);
	query = cuStreamQuery(streams[0]);
	printf("behind a wait: %d, then %s\n", (int)rc,
	       query == CUDA_ERROR_NOT_READY ? "busy" : "idle");
	*go = 1;
	MUST(cuStreamSynchronize(streams[0]));
	tell("behind a wait", 1, 0, 0, rc, wrong_at_all(0, NULL));
	on(0);
	printf("past the end: %d %d\n",
	       (int)cuMemcpyDtoD(at[0], at[1] + 1, BYTES),
	       (int)cuMemcpyDtoDAsync(at[1] + 1, at[0], BYTES, streams[0]));
	printf("nothing: %d %d\n", (int)cuMemcpyDtoD(at[0], at[1], 0),
	       (int)cuMemcpyDtoDAsync(at[0], at[1], 0, streams[0]));
}

static void in_a_graph(void)
{
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUresult rc;

	fill(1, 0, NULL);
	on(0);
	MUST(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
	rc = cuMemcpyDtoDAsync(at[0], at[1], BYTES, streams[0]);
	MUST(cuStreamEndCapture(streams[0], &graph));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	printf("captured: %d\n", (int)rc);
	MUST(cuGraphLaunch(exec, streams[0]));
	MUST(cuStreamSynchronize(streams[0]));
	tell("launched", 1, 0, 0, 0, wrong_at_all(0, NULL));
	on(0);
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(graph));
}

static void all(void)
{
	lines(0, 1, 0);
	lines(1, 0, 0);
	if (cards == CARDS)
		lines(0, 1, 2);
	stream_of_another();
	host(pinned, "pinned", 1, 0);
	host(pageable, "pageable", 1, 0);
	boxes(0, 1, 0, CU_MEMORYTYPE_DEVICE);
	boxes(1, 0, 0, CU_MEMORYTYPE_UNIFIED);
	order();
}

int main(void)
{
	bool peers = true;
	int count = 0;

	make_pattern();
	if (cuInit(0) || cuDeviceGetCount(&count) || count < 2)
		return 77;
	cards = count < CARDS ? count : CARDS;
	for (int i = 0; i < cards; i++) {
		if (cuDevicePrimaryCtxRetain(&contexts[i], i) ||
		    cuCtxSetCurrent(contexts[i]) || cuMemAlloc(&at[i], BYTES) ||
		    cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING))
			return 77;
	}
	on(0);
	MUST(cuMemAllocHost((void **)&pinned, BYTES));
	pageable = malloc(BYTES);
	if (!pageable)
		return 1;
	all();
	puts("with peer access");
	for (int i = 0; i < cards; i++)
		for (int j = 0; j < cards; j++) {
			on(i);
			if (i != j && cuCtxEnablePeerAccess(contexts[j], 0)) {
				puts("no peer access");
				peers = false;
			}
		}
	all();
	if (peers) /* without, memory of a pool is refused */
		in_a_graph();
	free(pageable);
	return 0;
}
