/* Contexts that come and go, and what becomes of their memory. */
#include "conformance.h"

/* What is known of an address. */
static void ask(const char *what, CUdeviceptr p, CUcontext context)
{
	CUcontext got = NULL;
	int ordinal = -1;
	CUdeviceptr base = 0;
	size_t size = 0;

	tell_prefix("%s", what);
	tell("context",
	     (int)cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	tell_value("it is its own", got == context);
	tell("device",
	     (int)cuPointerGetAttribute(
		     &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	tell_value("number", ordinal);
	tell("range", (int)cuMemGetAddressRange(&base, &size, p));
	tell_value("offset", base ? (long long)(p - base) : -1);
	tell_value("size", (long long)size);
	tell_prefix(NULL);
}

static void none(void)
{
	CUcontext context = NULL;
	CUdeviceptr p = 0;
	size_t step;

	tell("alloc before cuInit", (int)cuMemAlloc(&p, 4 * KIB));
	tell("free before cuInit", (int)cuMemFree(16));
	need(cuInit(0));
	tell("alloc without a context", (int)cuMemAlloc(&p, 4 * KIB));
	tell("alloc 0 without a context", (int)cuMemAlloc(&p, 0));
	tell("pitch without a context",
	     (int)cuMemAllocPitch(&p, &step, 100, 2, 4));
	tell("free without a context", (int)cuMemFree(16));
	tell("free 0 without a context", (int)cuMemFree(0));
	tell("wait without a context", (int)cuCtxSynchronize());
	context = new_context();
	need(cuMemAlloc(&p, 4 * KIB));
	tell("pop", (int)cuCtxPopCurrent(&context));
	tell("free where none is current", (int)cuMemFree(p));
	tell("free again", (int)cuMemFree(p));
	tell("pop of nothing", (int)cuCtxPopCurrent(&context));
}

static void two(void)
{
	CUcontext a, b, popped = NULL;
	CUdeviceptr p = 0, q = 0, r = 0;

	need(cuInit(0));
	a = new_context();
	tell("alloc in the first", (int)cuMemAlloc(&p, 3 * MIB));
	b = new_context();
	tell("alloc in the second", (int)cuMemAlloc(&q, 3 * MIB));
	tell_value("apart", p != q);
	ask("the first's, seen from the second", p, a);
	ask("the second's", q, b);
	tell("set the first's from the second", (int)cuMemsetD8(p, 1, MIB));
	tell("copy between them", (int)cuMemcpy(q, p, MIB));
	tell("free the first's from the second", (int)cuMemFree(p));
	tell("free it again", (int)cuMemFree(p));
	tell("push the first", (int)cuCtxPushCurrent(a));
	tell("alloc", (int)cuMemAlloc(&p, MIB));
	ask("in the pushed", p, a);
	tell("alloc", (int)cuMemAlloc(&r, 40 * MIB));
	tell("pop", (int)cuCtxPopCurrent(&popped));
	tell_value("it was the first", popped == a);
	tell("destroy the first", (int)cuCtxDestroy(a));
	ask("of the destroyed", p, NULL);
	tell("free what was its", (int)cuMemFree(p));
	tell("free what was its", (int)cuMemFree(r));
	tell("set what was its", (int)cuMemsetD8(p, 1, 16));
	ask("the second's goes on", q, b);
	tell("set", (int)cuMemsetD8(q, 2, 3 * MIB));
	tell("destroy the second", (int)cuCtxDestroy(b));
	tell("alloc now", (int)cuMemAlloc(&p, MIB));
	tell("free now", (int)cuMemFree(q));
	a = new_context();
	tell("alloc in a new one", (int)cuMemAlloc(&p, 3 * MIB));
	tell("set", (int)cuMemsetD8(p, 2, 3 * MIB));
	tell("destroy", (int)cuCtxDestroy(a));
}

static size_t free_now(void)
{
	size_t left = 0, total;

	need(cuMemGetInfo(&left, &total));
	return left;
}

static void primary(void)
{
	CUdeviceptr p = 0, q = 0;
	CUcontext context;
	CUdevice device;
	unsigned flags = 0;
	int active = -1;
	size_t before;

	need(cuInit(0));
	need(cuDeviceGet(&device, 0));
	tell("state", (int)cuDevicePrimaryCtxGetState(device, &flags, &active));
	tell_value("active", active);
	context = primary_context();
	before = free_now();
	tell("alloc", (int)cuMemAlloc(&p, 512 * MIB));
	ask("of the primary", p, context);
	tell("free", (int)cuMemFree(p));
	ask("freed", p, context);
	tell("alloc", (int)cuMemAlloc(&p, 512 * MIB));
	tell("alloc", (int)cuMemAlloc(&q, 4 * KIB));
	tell_value("less is left", free_now() + 256 * MIB < before);
	tell("reset", (int)cuDevicePrimaryCtxReset(device));
	tell("state", (int)cuDevicePrimaryCtxGetState(device, &flags, &active));
	tell_value("active", active);
	context = primary_context();
	tell_value("memory is back", free_now() + 64 * MIB > before);
	ask("of before the reset", p, NULL);
	tell("free what was", (int)cuMemFree(p));
	tell("free what was", (int)cuMemFree(q));
	tell("alloc", (int)cuMemAlloc(&p, 4 * KIB));
	tell("set", (int)cuMemsetD8(p, 3, 4 * KIB));
	tell("release", (int)cuDevicePrimaryCtxRelease(device));
	tell("release once more", (int)cuDevicePrimaryCtxRelease(device));
	tell("state", (int)cuDevicePrimaryCtxGetState(device, &flags, &active));
	tell_value("active", active);
}

static void reset(void)
{
	struct cudaPointerAttributes seen;
	char *p = device_block(40 * MIB), *q = device_block(512);
	cudaError_t rc;

	tell_rt("reset", cudaDeviceReset());
	rc = cudaPointerGetAttributes(&seen, p);
	tell_rt("ask for what was", rc);
	tell_value("type", rc ? -1 : (long long)seen.type);
	tell_rt("free what was", cudaFree(p));
	tell_rt("free what was", cudaFree(q));
	tell_rt("set what was", cudaMemset(p, 0, 16));
	p = device_block(40 * MIB);
	tell_rt("free", cudaFree(p));
	tell_rt("reset", cudaDeviceReset());
	tell_rt("reset again", cudaDeviceReset());
	p = device_block(MIB);
	tell_rt("free", cudaFree(p));
	tell_rt("free again", cudaFree(p));
}

/* A runtime above a context of the driver's. */
static void mixed(void)
{
	CUcontext context;
	CUdeviceptr p;
	void *q;

	need(cuInit(0));
	context = new_context();
	tell("alloc by driver", (int)cuMemAlloc(&p, 2 * MIB));
	tell_rt("free by runtime", cudaFree((void *)p));
	tell_rt("alloc by runtime", cudaMalloc(&q, 2 * MIB));
	ask("where", (CUdeviceptr)q, context);
	tell("free by driver", (int)cuMemFree((CUdeviceptr)q));
	tell_rt("free again by runtime", cudaFree(q));
	tell("destroy", (int)cuCtxDestroy(context));
	tell_rt("alloc by runtime", cudaMalloc(&q, 2 * MIB));
	tell_rt("free by runtime", cudaFree(q));
}

const struct section context_sections[] = {
	{"contexts-none", none}, {"contexts", two}, {"primary", primary},
	{"reset", reset},        {"mixed", mixed},  {NULL, NULL}};
