/*
 * Description: shares device memory with other processes as it is told, a line
 * a step on standard input, and prints what came of each. Without input it does
 * nothing.
 *
 *   device=N               that device's context, from here on
 *   alloc=BYTES            cuMemAlloc; blocks are numbered
 *   fill=BLOCK,WORD        every word of it
 *   check=BLOCK,WORD       how many words are not that
 *   beside=BLOCK,OFFSET    a kernel writes a word there
 *   free=BLOCK             cuMemFree
 *   at=BLOCK               its address
 *   handle=BLOCK,OFFSET    cuIpcGetMemHandle of an address in it
 *   open=HANDLE,BYTES      cuIpcOpenMemHandle; a block of its own
 *   close=BLOCK            cuIpcCloseMemHandle
 *   about=BLOCK            what pointer queries tell of it
 *   refused=BLOCK          calls on virtual memory there
 *   busy=US                keep the device busy
 *   reset=1                cuDevicePrimaryCtxReset, and the context anew
 *   fork=1                 a child that sleeps for ever; its process id
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#define MAX_BLOCKS 4096

static struct {
	CUdeviceptr at;
	size_t bytes;
} blocks[MAX_BLOCKS];
static unsigned num_blocks;
static CUcontext context;
static int device;

static void enter(void)
{
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context))
		exit(77);
}

static void add(CUdeviceptr at, size_t bytes)
{
	blocks[num_blocks].at = at;
	blocks[num_blocks++].bytes = bytes;
}

static void check(unsigned i, unsigned word)
{
	size_t words = blocks[i].bytes / 4, wrong = 0;
	unsigned *host = malloc(words * 4);
	CUresult rc = cuMemcpyDtoH(host, blocks[i].at, words * 4);

	for (size_t w = 0; !rc && w < words; w++)
		wrong += host[w] != word;
	printf("check: %d %zu\n", (int)rc, wrong);
	free(host);
}

static void get(unsigned i, size_t offset)
{
	CUipcMemHandle handle;
	CUresult rc = cuIpcGetMemHandle(&handle, blocks[i].at + offset);

	printf("handle: %d ", (int)rc);
	for (size_t n = 0; !rc && n < sizeof(handle); n++)
		printf("%02x", (unsigned char)handle.reserved[n]);
	printf("\n");
}

static void open_handle(const char *text)
{
	CUipcMemHandle handle;
	CUdeviceptr at = 0;
	CUresult rc;

	for (size_t n = 0; n < sizeof(handle); n++) {
		unsigned byte = 0;

		if (sscanf(text + 2 * n, "%2x", &byte) != 1)
			exit(2);
		handle.reserved[n] = (char)byte;
	}
	rc = cuIpcOpenMemHandle(&at, handle,
				CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	printf("open: %d %u\n", (int)rc, num_blocks);
	add(at, strtoull(text + 2 * sizeof(handle) + 1, NULL, 0));
}

static void about(unsigned i)
{
	unsigned long long id = 0, start = 0, size = 0, types = 9, owner = 0;
	unsigned legacy = 0, mapped = 0, type = 0;
	CUdeviceptr at = blocks[i].at, base = 0;
	size_t bytes = 0;

	printf("about: range %d", (int)cuMemGetAddressRange(&base, &bytes, at));
	cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
	cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
			      at);
	cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at);
	cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
			      at);
	cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, at);
	cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, at);
	cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
	cuPointerGetAttribute(
		&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at);
	printf(" %lld %zu start %lld size %llu id %d types %llu context %d "
	       "mapped %u type %u legacy %u\n",
	       (long long)(base - at), bytes, (long long)(start - at), size,
	       id != 0, types, owner == (unsigned long long)(size_t)context,
	       mapped & 1, type, legacy & 1);
}

static void refused(unsigned i)
{
	CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at = blocks[i].at / (2 << 20) * (2 << 20);
	unsigned long long flags;

	desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	printf("refused: %d", (int)cuMemUnmap(at, 2 << 20));
	printf(" %d", (int)cuMemSetAccess(at, 2 << 20, &desc, 1));
	printf(" %d", (int)cuMemGetAccess(&flags, &desc.location, at));
	printf(" %d\n", (int)cuMemRetainAllocationHandle(&handle, (void *)at));
}

static CUresult launch(const char *name, void **args)
{
	CUfunction function;
	CUmodule module;

	if (cuModuleLoadData(&module, "any image will do") ||
	    cuModuleGetFunction(&function, module, name))
		exit(2);
	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
}

static void busy(unsigned us)
{
	void *args[] = {&us};

	printf("busy: %d\n", (int)launch("spin", args));
}

/* Unlike copies and sets, a kernel does not ask for sizes. */
static void beside(unsigned i, long long offset)
{
	CUdeviceptr at = blocks[i].at + (CUdeviceptr)offset;
	unsigned value = 7;
	size_t words = 1;
	void *args[] = {&at, &value, &words};
	CUresult rc = launch("fill32", args);

	printf("beside: %d\n", rc ? (int)rc : (int)cuCtxSynchronize());
}

static void fork_child(void)
{
	int pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(1); /* the reader is to see the parent's end */
		close(2);
		for (;;)
			pause();
	}
	printf("fork: %d\n", pid);
}

static void step(const char *word)
{
	char name[32] = "";
	const char *value = strchr(word, '=');
	unsigned long long a = 0;
	long long b = 0;

	if (!value || value - word >= (int)sizeof(name))
		exit(2);
	memcpy(name, word, (size_t)(value++ - word));
	sscanf(value, "%llu,%lld", &a, &b);
	if (!strcmp(name, "device")) {
		device = (int)a;
		enter();
		printf("device: 0\n");
		return;
	}
	if (!context)
		enter();
	if (!strcmp(name, "alloc")) {
		CUdeviceptr at = 0;
		CUresult rc = cuMemAlloc(&at, a);

		printf("alloc: %d %u\n", (int)rc, num_blocks);
		add(at, a);
		return;
	}
	if (!strcmp(name, "open")) {
		open_handle(value);
		return;
	}
	if (!strcmp(name, "busy")) {
		busy((unsigned)a);
		return;
	}
	if (!strcmp(name, "fork")) {
		fork_child();
		return;
	}
	if (!strcmp(name, "reset")) {
		printf("reset: %d\n", (int)cuDevicePrimaryCtxReset(device));
		enter();
		return;
	}
	if (a >= num_blocks)
		exit(2);
	if (!strcmp(name, "fill"))
		printf("fill: %d\n", (int)cuMemsetD32(blocks[a].at, (unsigned)b,
						      blocks[a].bytes / 4));
	else if (!strcmp(name, "check"))
		check((unsigned)a, (unsigned)b);
	else if (!strcmp(name, "free"))
		printf("free: %d\n", (int)cuMemFree(blocks[a].at));
	else if (!strcmp(name, "at"))
		printf("at: %llu\n", (unsigned long long)blocks[a].at);
	else if (!strcmp(name, "handle"))
		get((unsigned)a, (size_t)b);
	else if (!strcmp(name, "close"))
		printf("close: %d\n", (int)cuIpcCloseMemHandle(blocks[a].at));
	else if (!strcmp(name, "about"))
		about((unsigned)a);
	else if (!strcmp(name, "beside"))
		beside((unsigned)a, b);
	else if (!strcmp(name, "refused"))
		refused((unsigned)a);
	else
		exit(2);
}

int main(void)
{
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		step(line);
		fflush(stdout);
	}
	return 0;
}
