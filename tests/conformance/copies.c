/* Copies and sets of every kind, also past the end and of freed memory. */
#include <string.h>

#include "conformance.h"

#define BYTES (64 * KIB)

static char *device, *peer, *pinned;
static char own[BYTES];

static const enum cudaMemcpyKind kinds[] = {
	cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
	cudaMemcpyDeviceToDevice, cudaMemcpyDefault};

/* Every kind between every pair of places, right or wrong. */
static void each_kind(void)
{
	const struct {
		const char *name;
		char *at;
	} places[] = {{"device", device}, {"pinned", pinned}, {"host", own}};

	for (size_t to = 0; to < 3; to++) {
		for (size_t from = 0; from < 3; from++) {
			/* Wrong kinds are only looked at where both are known
			 * to the driver: else the program would crash. */
			tell_prefix("%s to %s", places[from].name,
				    places[to].name);
			for (size_t i = 0; i < 5; i++) {
				if (kinds[i] == cudaMemcpyHostToHost &&
				    (!to || !from))
					continue;
				tell_value("kind", (long long)kinds[i]);
				tell_rt("copy",
					cudaMemcpy(places[to].at,
						   places[from].at + 4 * KIB,
						   4 * KIB, kinds[i]));
			}
		}
	}
	tell_prefix(NULL);
}

static void past_end(void)
{
	tell_rt("set past the end", cudaMemset(device, 0, BYTES + 1));
	tell_rt("set behind the end", cudaMemset(device + BYTES, 0, 1));
	tell_rt("set from the middle",
		cudaMemset(device + BYTES / 2, 0, BYTES));
	tell_rt("set, all of it", cudaMemset(device, 0x21, BYTES));
	tell_rt("set nothing at the end", cudaMemset(device + BYTES, 0, 0));
	tell_rt("set async", cudaMemsetAsync(device, 0, BYTES + 512, NULL));
	tell_rt("copy out",
		cudaMemcpy(own, device + 1, BYTES, cudaMemcpyDeviceToHost));
	tell_rt("copy in",
		cudaMemcpy(device + 1, own, BYTES, cudaMemcpyHostToDevice));
	tell_rt("copy within",
		cudaMemcpy(peer + 1, device, BYTES, cudaMemcpyDeviceToDevice));
	tell_rt("copy default",
		cudaMemcpy(peer, device + 1, BYTES, cudaMemcpyDefault));
	tell_rt("copy async", cudaMemcpyAsync(own, device + 1, BYTES,
					      cudaMemcpyDeviceToHost, NULL));
	tell_rt("2D set", cudaMemset2D(device, 512, 1, 512, BYTES / 512 + 1));
	tell_rt("2D set", cudaMemset2D(device, 512, 1, 513, 3));
	tell_rt("2D copy", cudaMemcpy2D(peer, 256, device, 512, 257, 3,
					cudaMemcpyDeviceToDevice));
	tell_rt("2D copy",
		cudaMemcpy2D(peer, 512, device, 512, 512, BYTES / 512 + 1,
			     cudaMemcpyDeviceToDevice));
	tell_rt("2D copy, right", cudaMemcpy2D(peer, 512, device, 512, 500, 3,
					       cudaMemcpyDeviceToDevice));
	tell("driver: set",
	     (int)cuMemsetD32((CUdeviceptr)device, 7, BYTES / 4 + 1));
	tell("driver: set, not aligned",
	     (int)cuMemsetD32((CUdeviceptr)device + 1, 7, 1));
	tell("driver: copy out",
	     (int)cuMemcpyDtoH(own, (CUdeviceptr)device + 1, BYTES));
	tell("driver: copy in",
	     (int)cuMemcpyHtoD((CUdeviceptr)device + 1, own, BYTES));
	tell("driver: copy within",
	     (int)cuMemcpyDtoD((CUdeviceptr)device, (CUdeviceptr)peer + 1,
			       BYTES));
}

static void wrong(void)
{
	tell_rt("from NULL",
		cudaMemcpy(device, NULL, 16, cudaMemcpyDeviceToDevice));
	tell_rt("to NULL", cudaMemset(NULL, 0, 16));
	tell_rt("nothing from NULL",
		cudaMemcpy(device, NULL, 0, cudaMemcpyHostToDevice));
	tell_rt("nothing to NULL", cudaMemset(NULL, 0, 0));
	tell_rt("no kind", cudaMemcpy(device, own, 16, (enum cudaMemcpyKind)7));
	tell_rt("to 16", cudaMemset((void *)16, 0, 16));
	tell("driver: to 0", (int)cuMemsetD8(0, 0, 16));
	tell("driver: nothing", (int)cuMemcpyDtoD((CUdeviceptr)device, 0, 0));
}

static void to_freed(const char *what, size_t bytes)
{
	char *p = device_block(bytes);

	need_rt(cudaFree(p));
	tell_prefix("%s", what);
	tell_rt("set", cudaMemset(p, 0, 16));
	tell_rt("set async", cudaMemsetAsync(p, 0, 16, NULL));
	tell_rt("copy out", cudaMemcpy(own, p, 16, cudaMemcpyDeviceToHost));
	tell_rt("copy in", cudaMemcpy(p, own, 16, cudaMemcpyHostToDevice));
	tell_rt("copy from it",
		cudaMemcpy(device, p, 16, cudaMemcpyDeviceToDevice));
	tell("driver: set", (int)cuMemsetD8((CUdeviceptr)p, 0, 16));
	tell_prefix(NULL);
}

static void begin(void)
{
	device = device_block(BYTES);
	peer = device_block(BYTES);
	need_rt(cudaMallocHost((void **)&pinned, BYTES));
	memset(pinned, 1, BYTES);
}

static void copies(void)
{
	begin();
	each_kind();
	wrong();
}

static void ends(void)
{
	begin();
	past_end();
}

static void freed(void)
{
	begin();
	to_freed("freed", 8 * KIB);
	to_freed("freed, large", 64 * MIB);
}

const struct section copy_sections[] = {
	{"copies", copies}, {"past-end", ends}, {"freed", freed}, {NULL, NULL}};
