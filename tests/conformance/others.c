/* Memory that is no plain device memory, and frees by the wrong call. */
#include <stdlib.h>

#include "conformance.h"

static void managed(void)
{
	char *p = NULL;
	void *q;

	tell_rt("alloc",
		cudaMallocManaged((void **)&p, 4 * MIB, cudaMemAttachGlobal));
	p[0] = 3;
	p[4 * MIB - 1] = 4;
	tell_rt("set", cudaMemset(p, 9, MIB));
	tell_rt("wait", cudaDeviceSynchronize());
	tell_value("first byte", p[0]);
	tell_value("last byte", p[4 * MIB - 1]);
	tell_rt("middle", cudaFree(p + MIB));
	tell_rt("free", cudaFree(p));
	tell_rt("free again", cudaFree(p));
	tell_rt("alloc 0", cudaMallocManaged(&q, 0, cudaMemAttachGlobal));
	tell_rt("no such flag", cudaMallocManaged(&q, MIB, 77));
	tell_rt("to NULL", cudaMallocManaged(NULL, MIB, cudaMemAttachGlobal));
}

static void arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR d = {.Width = 100,
				   .Height = 30,
				   .Format = CU_AD_FORMAT_FLOAT,
				   .NumChannels = 1};
	CUDA_ARRAY3D_DESCRIPTOR box = {.Width = 10,
				       .Height = 10,
				       .Depth = 10,
				       .Format = CU_AD_FORMAT_FLOAT,
				       .NumChannels = 4};
	CUarray array = NULL;

	primary_context();
	tell("array", (int)cuArrayCreate(&array, &d));
	tell("destroy", (int)cuArrayDestroy(array));
	tell("box", (int)cuArray3DCreate(&array, &box));
	tell("destroy", (int)cuArrayDestroy(array));
	d.Width = (size_t)1 << 40;
	tell("too wide", (int)cuArrayCreate(&array, &d));
	d.Width = 0;
	tell("none", (int)cuArrayCreate(&array, &d));
	tell_rt("free NULL", cudaFreeArray(NULL));
}

static void host(void)
{
	void *p = NULL, *device = NULL, *own = NULL;
	char *block = device_block(64 * KIB);
	unsigned flags = 0;

	tell_rt("alloc", cudaMallocHost(&p, 64 * KIB));
	tell_rt("flags", cudaHostGetFlags(&flags, p));
	tell_value("they are", flags);
	tell_rt("its address there", cudaHostGetDevicePointer(&device, p, 0));
	tell_rt("copy", cudaMemcpy(block, p, 64 * KIB, cudaMemcpyHostToDevice));
	tell_rt("free as device memory", cudaFree(p));
	tell_rt("free", cudaFreeHost(p));
	tell_rt("free again", cudaFreeHost(p));
	tell_rt("free NULL", cudaFreeHost(NULL));
	tell_rt("free device memory as host's", cudaFreeHost(block));
	tell_rt("flags of device memory", cudaHostGetFlags(&flags, block));
	tell_rt("no such flag", cudaHostAlloc(&p, 4 * KIB, 0x777));
	tell_rt("alloc 0", cudaMallocHost(&p, 0));
	if (posix_memalign(&own, 4 * KIB, 64 * KIB))
		exit(1);
	tell_rt("register", cudaHostRegister(own, 64 * KIB, 0));
	tell_rt("register again", cudaHostRegister(own, 64 * KIB, 0));
	tell_rt("copy",
		cudaMemcpy(own, block, 64 * KIB, cudaMemcpyDeviceToHost));
	tell_value("byte", *(char *)own);
	tell_rt("unregister", cudaHostUnregister(own));
	tell_rt("unregister again", cudaHostUnregister(own));
	tell_rt("register device memory", cudaHostRegister(block, 64 * KIB, 0));
	tell_rt("unregister device memory", cudaHostUnregister(block));
	tell_rt("free", cudaFree(block));
	free(own);
}

const struct section other_sections[] = {
	{"managed", managed}, {"arrays", arrays}, {"host", host}, {NULL, NULL}};
