/*
 * A plain C program over the driver API, with a kernel brought as PTX: buffers
 * are filled and summed by the kernel on several streams and freed while the
 * kernels run. The last line is equal plain and preloaded.
 *
 *   driver [--rounds N] [--seed S]
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS 4
#define SLOTS   48
#define THREADS 256

/* fill(p, n, key): p[i] = i * 2654435761 + key.
 * sum(p, n, out):  *out += every p[i], over whole words. */
static const char ptx[] =
	".version 7.0\n"
	".target sm_75\n"
	".address_size 64\n"
	".visible .entry fill(.param .u64 p, .param .u32 n, .param .u32 key)\n"
	"{\n"
	"  .reg .pred %q; .reg .b32 %i, %n, %k, %b, %t, %v; .reg .b64 %p, %o;\n"
	"  ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; ld.param.u32 %k, "
	"[key];\n"
	"  cvta.to.global.u64 %p, %p;\n"
	"  mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x;\n"
	"  mad.lo.u32 %i, %b, %t, %i;\n"
	"  setp.ge.u32 %q, %i, %n; @%q bra done;\n"
	"  mad.lo.u32 %v, %i, 2654435761, %k;\n"
	"  mul.wide.u32 %o, %i, 4; add.s64 %p, %p, %o;\n"
	"  st.global.u32 [%p], %v;\n"
	"done: ret;\n"
	"}\n"
	".visible .entry sum(.param .u64 p, .param .u32 n, .param .u64 out)\n"
	"{\n"
	"  .reg .pred %q; .reg .b32 %i, %n, %b, %t, %v;\n"
	"  .reg .b64 %p, %o, %out, %w;\n"
	"  ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; ld.param.u64 %out, "
	"[out];\n"
	"  cvta.to.global.u64 %p, %p; cvta.to.global.u64 %out, %out;\n"
	"  mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x;\n"
	"  mad.lo.u32 %i, %b, %t, %i;\n"
	"  setp.ge.u32 %q, %i, %n; @%q bra done;\n"
	"  mul.wide.u32 %o, %i, 4; add.s64 %p, %p, %o;\n"
	"  ld.global.u32 %v, [%p]; cvt.u64.u32 %w, %v;\n"
	"  red.global.add.u64 [%out], %w;\n"
	"done: ret;\n"
	"}\n";

struct slot {
	CUdeviceptr device;
	unsigned words;
	unsigned key;
};

static uint64_t state;
static CUfunction fill, sum;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void check(CUresult status, const char *what)
{
	const char *text = "?";

	if (status == CUDA_SUCCESS)
		return;
	cuGetErrorString(status, &text);
	fprintf(stderr, "%s: %s\n", what, text);
	exit(1);
}

static void launch_fill(struct slot *slot, CUstream stream)
{
	void *args[] = {&slot->device, &slot->words, &slot->key};

	check(cuLaunchKernel(fill, (slot->words + THREADS - 1) / THREADS, 1, 1,
			     THREADS, 1, 1, 0, stream, args, NULL),
	      "launch fill");
}

static void launch_sum(struct slot *slot, CUdeviceptr out, CUstream stream)
{
	void *args[] = {&slot->device, &slot->words, &out};

	check(cuLaunchKernel(sum, (slot->words + THREADS - 1) / THREADS, 1, 1,
			     THREADS, 1, 1, 0, stream, args, NULL),
	      "launch sum");
}

static uint64_t expected(const struct slot *slot)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < slot->words; i++)
		total += (uint32_t)(i * 2654435761u + slot->key);
	return total;
}

int main(int argc, char **argv)
{
	static struct slot slots[SLOTS];
	CUstream streams[STREAMS];
	CUdeviceptr totals, odd;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	uint64_t *want, *got, hash = 1469598103934665603u;
	long rounds = 3000;
	unsigned wrong = 0;
	size_t pitch;
	int answers[4];

	state = 88172645463325252u;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--rounds") == 0)
			rounds = atol(argv[i + 1]);
		else if (strcmp(argv[i], "--seed") == 0)
			state += strtoull(argv[i + 1], NULL, 0) * 2654435761u;
	}
	if (rounds < 1) {
		fprintf(stderr, "usage: driver [--rounds N] [--seed S]\n");
		return 2;
	}
	check(cuInit(0), "cuInit");
	check(cuDeviceGet(&device, 0), "cuDeviceGet");
	check(cuDevicePrimaryCtxRetain(&context, device), "context");
	check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
	check(cuModuleGetFunction(&fill, module, "fill"), "fill");
	check(cuModuleGetFunction(&sum, module, "sum"), "sum");
	for (int i = 0; i < STREAMS; i++)
		check(cuStreamCreate(&streams[i], i % 2 ? CU_STREAM_NON_BLOCKING
							: CU_STREAM_DEFAULT),
		      "cuStreamCreate");
	want = calloc(rounds, sizeof(*want));
	got = calloc(rounds, sizeof(*got));
	if (!want || !got)
		return 1;
	check(cuMemAlloc(&totals, rounds * sizeof(*got)), "cuMemAlloc");
	check(cuMemsetD8(totals, 0, rounds * sizeof(*got)), "cuMemsetD8");
	check(cuCtxSynchronize(), "synchronize");

	for (long round = 0; round < rounds; round++) {
		struct slot *slot = &slots[draw() % SLOTS];
		CUstream stream = streams[draw() % STREAMS];
		uint64_t kind = draw() % 100;

		/* The kernels of an earlier round may still read this one. */
		if (slot->device)
			check(cuMemFree(slot->device), "cuMemFree");
		slot->words = 1 + draw() % (kind < 50   ? 1u << 10
					    : kind < 90 ? 1u << 17
							: 1u << 20);
		slot->key = (unsigned)draw();
		check(cuMemAlloc(&slot->device, slot->words * 4ul),
		      "cuMemAlloc");
		launch_fill(slot, stream);
		launch_sum(slot, totals + round * sizeof(*got), stream);
		want[round] = expected(slot);
	}
	for (int i = 0; i < SLOTS; i++)
		check(cuMemFree(slots[i].device), "cuMemFree");
	check(cuMemcpyDtoH(got, totals, rounds * sizeof(*got)), "cuMemcpyDtoH");
	for (long i = 0; i < rounds; i++) {
		wrong += got[i] != want[i];
		hash = (hash ^ got[i]) * 1099511628211u;
	}
	check(cuMemAllocPitch(&odd, &pitch, 1001, 77, 4), "cuMemAllocPitch");
	check(cuMemsetD2D8(odd, pitch, 5, 1001, 77), "cuMemsetD2D8");
	check(cuMemFree(odd), "cuMemFree");
	answers[0] = cuMemFree(odd);
	answers[1] = cuMemFree(0);
	answers[2] = cuMemAlloc(&odd, 0);
	answers[3] = cuMemFree(totals + 512);
	check(cuMemFree(totals), "cuMemFree");
	for (int i = 0; i < STREAMS; i++)
		check(cuStreamDestroy(streams[i]), "cuStreamDestroy");
	check(cuModuleUnload(module), "cuModuleUnload");
	check(cuDevicePrimaryCtxRelease(device), "release");
	printf("result checksum=%016llx wrong=%u pitch=%zu "
	       "answers=%d,%d,%d,%d\n",
	       (unsigned long long)hash, wrong, pitch, answers[0], answers[1],
	       answers[2], answers[3]);
	free(want);
	free(got);
	return wrong != 0;
}
