/*
 * Description: what the driver says of addresses, one line a question, with
 * addresses and ids as differences: the output is to be the same with and
 * without the preload. Allocations of many sizes, interior and freed addresses,
 * addresses behind the end, attributes one by one and together, calls on
 * virtual memory where there is none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

/* Where a runtime is linked. */
extern __typeof__(cudaPointerGetAttributes) cudaPointerGetAttributes
	__attribute__((weak));

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define NUM 8

static const size_t sizes[NUM] = {1,   512,       4096,    100 * KIB,
				  MIB, MIB + 512, 3 * MIB, 40 * MIB};
static CUdeviceptr at[NUM];
static CUcontext context;

static const struct {
	const char *name;
	CUpointer_attribute attribute;
} attributes[] = {
	{"context", CU_POINTER_ATTRIBUTE_CONTEXT},
	{"memory type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
	{"device pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
	{"host pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER},
	{"sync memops", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS},
	{"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
	{"device", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
	{"legacy ipc", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE},
	{"range start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
	{"range size", CU_POINTER_ATTRIBUTE_RANGE_SIZE},
	{"mapped", CU_POINTER_ATTRIBUTE_MAPPED},
	{"handle types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES},
	{"gpudirect rdma", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE},
	{"access flags", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS},
	{"pool", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE},
	{"no such attribute", (CUpointer_attribute)1000},
};
#define NUM_ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

/* Addresses that lie in the allocation, or just about, are told as offsets. */
static void print(unsigned long long value, CUdeviceptr base)
{
	if (value && value == (unsigned long long)(size_t)context)
		printf(" the context\n");
	else if (value > 1ull << 32)
		printf(" start%+lld\n", (long long)(value - base));
	else
		printf(" %llu\n", value);
}

static void ask(const char *what, CUdeviceptr address, CUdeviceptr base)
{
	for (size_t i = 0; i < NUM_ATTRIBUTES; i++) {
		unsigned long long value = 0;
		CUresult rc = cuPointerGetAttribute(
			&value, attributes[i].attribute, address);

		printf("%s: %s: %d", what, attributes[i].name, (int)rc);
		print(value, base);
	}
}

static void ask_together(const char *what, CUdeviceptr address,
			 CUdeviceptr base)
{
	CUpointer_attribute list[NUM_ATTRIBUTES];
	unsigned long long values[NUM_ATTRIBUTES] = {0};
	void *data[NUM_ATTRIBUTES];
	CUresult rc;

	for (size_t i = 0; i < NUM_ATTRIBUTES - 1; i++) {
		list[i] = attributes[i].attribute;
		data[i] = &values[i];
	}
	rc = cuPointerGetAttributes(NUM_ATTRIBUTES - 1, list, data, address);
	printf("%s: together: %d\n", what, (int)rc);
	for (size_t i = 0; i < NUM_ATTRIBUTES - 1; i++) {
		printf("%s: together: %s:", what, attributes[i].name);
		print(values[i], base);
	}
}

static void ask_range(const char *what, CUdeviceptr address, CUdeviceptr start)
{
	CUdeviceptr base = 0;
	size_t size = 0;
	CUresult rc = cuMemGetAddressRange(&base, &size, address);

	printf("%s: range: %d %lld %zu\n", what, (int)rc,
	       rc ? 0 : (long long)(base - start), size);
	printf("%s: range without size: %d\n", what,
	       (int)cuMemGetAddressRange(&base, NULL, address));
	printf("%s: range without base: %d\n", what,
	       (int)cuMemGetAddressRange(NULL, &size, address));
}

static void ask_runtime(const char *what, CUdeviceptr address, CUdeviceptr base)
{
	struct cudaPointerAttributes got;
	cudaError_t rc;

	if (!cudaPointerGetAttributes)
		return;
	memset(&got, 0, sizeof(got));
	rc = cudaPointerGetAttributes(&got, (void *)address);
	printf("%s: runtime: %d type %d device %d pointer", what, (int)rc,
	       (int)got.type, got.device);
	print((unsigned long long)got.devicePointer, base);
	printf("%s: runtime: host", what);
	print((unsigned long long)got.hostPointer, base);
}

/* What it answers where it has nothing to do. */
static void virtual_memory(const char *what, CUdeviceptr address, size_t bytes)
{
	CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle = 0;
	unsigned long long flags = 0;

	desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	printf("%s: retain: %d\n", what,
	       (int)cuMemRetainAllocationHandle(&handle, (void *)address));
	printf("%s: set access: %d\n", what,
	       (int)cuMemSetAccess(address, bytes, &desc, 1));
	printf("%s: get access: %d\n", what,
	       (int)cuMemGetAccess(&flags, &desc.location, address));
	printf("%s: unmap: %d\n", what, (int)cuMemUnmap(address, bytes));
	printf("%s: address free: %d\n", what,
	       (int)cuMemAddressFree(address, bytes));
}

static unsigned long long id_of(CUdeviceptr address)
{
	unsigned long long id = 0;
	CUresult rc = cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					    address);

	if (rc)
		printf("no id: %d\n", (int)rc);
	return id;
}

/* One for each allocation, new for each, also at the same address. */
static void ids(void)
{
	unsigned long long seen[NUM + 64];
	size_t n = 0;
	CUdeviceptr p;

	for (int i = 0; i < NUM; i++) {
		seen[n] = id_of(at[i]);
		printf("id: the same inside: %d\n",
		       id_of(at[i] + sizes[i] - 1) == seen[n]);
		printf("id: the same again: %d\n", id_of(at[i]) == seen[n]);
		n++;
	}
	for (int i = 0; i < 64; i++) {
		if (cuMemAlloc(&p, sizes[i % NUM]))
			exit(1);
		seen[n++] = id_of(p);
		cuMemFree(p);
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (!seen[i] || seen[i] == seen[j])
				printf("id %zu is that of %zu\n", i, j);
}

static unsigned sync_of(CUdeviceptr address)
{
	unsigned sync = 0;
	CUresult rc = cuPointerGetAttribute(
		&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);

	return rc ? 99 : sync;
}

/* Of one allocation, until it is freed. */
static void sync_memops(void)
{
	const unsigned on = 1, off = 0;
	CUdeviceptr p;

	printf("sync: on: %d\n",
	       (int)cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					  at[6] + 5));
	printf("sync: is on: %u\n", sync_of(at[6]));
	printf("sync: inside: %u\n", sync_of(at[6] + MIB));
	printf("sync: a neighbour: %u %u\n", sync_of(at[5]), sync_of(at[7]));
	printf("sync: off: %d\n",
	       (int)cuPointerSetAttribute(
		       &off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at[6]));
	printf("sync: is off: %u\n", sync_of(at[6]));
	for (int i = 0; i < 3; i++) {
		if (cuMemAlloc(&p, 5 * MIB))
			exit(1);
		printf("sync: new: %u\n", sync_of(p));
		printf("sync: on: %d\n",
		       (int)cuPointerSetAttribute(
			       &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
		printf("sync: is on: %u\n", sync_of(p));
		cuMemFree(p);
		printf("sync: freed: %d\n",
		       (int)cuPointerSetAttribute(
			       &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	}
	printf("sync: another: %d\n",
	       (int)cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					  at[6]));
	printf("sync: no value: %d\n",
	       (int)cuPointerSetAttribute(
		       NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at[6]));
}

static void no_output(void)
{
	CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_CONTEXT};
	CUcontext got = NULL;
	void *data[] = {&got};

	printf("no output: one: %d\n",
	       (int)cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_CONTEXT,
					  at[6]));
	printf("no output: id: %d\n",
	       (int)cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					  at[6]));
	printf("no output: none asked: %d\n",
	       (int)cuPointerGetAttributes(0, list, data, at[6]));
	printf("no output: no list: %d\n",
	       (int)cuPointerGetAttributes(1, NULL, data, at[6]));
	printf("no output: no data: %d\n",
	       (int)cuPointerGetAttributes(1, list, NULL, at[6]));
	printf("no output: of nothing: %d\n",
	       (int)cuPointerGetAttributes(1, list, data, 0));
}

static void without_context(void)
{
	CUdeviceptr base;
	size_t size;
	void *got;

	cuCtxSetCurrent(NULL);
	printf("no context: range: %d\n",
	       (int)cuMemGetAddressRange(&base, &size, at[6]));
	printf("no context: context: %d\n",
	       (int)cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_CONTEXT,
					  at[6]));
	cuCtxSetCurrent(context);
}

static void about(const char *what, CUdeviceptr address, CUdeviceptr base)
{
	ask_range(what, address, base);
	ask(what, address, base);
	ask_together(what, address, base);
	ask_runtime(what, address, base);
}

int main(void)
{
	char what[64];

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuCtxSetCurrent(context))
		return 77;
	for (int i = 0; i < NUM; i++)
		if (cuMemAlloc(&at[i], sizes[i]))
			return 1;
	for (int i = 0; i < NUM; i++) {
		snprintf(what, sizeof(what), "%zu", sizes[i]);
		about(what, at[i], at[i]);
		snprintf(what, sizeof(what), "%zu, last byte", sizes[i]);
		about(what, at[i] + sizes[i] - 1, at[i]);
		snprintf(what, sizeof(what), "%zu, virtual", sizes[i]);
		virtual_memory(what, at[i], sizes[i]);
		virtual_memory(what, at[i] / (2 * MIB) * (2 * MIB), 2 * MIB);
	}
	ids();
	sync_memops();
	no_output();
	without_context();
	for (int i = 0; i < NUM; i++) {
		if (cuMemFree(at[i]))
			return 1;
		snprintf(what, sizeof(what), "%zu, freed", sizes[i]);
		about(what, at[i], at[i]);
		virtual_memory(what, at[i], sizes[i]);
	}
	return 0;
}
