/* Virtual memory calls and handles for other processes, on plain addresses. */
#include <string.h>

#include "conformance.h"

static void on_address(const char *what, CUdeviceptr p, size_t bytes)
{
	CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle = 0;
	unsigned long long flags = 0;

	desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	tell_prefix("%s", what);
	tell("retain", (int)cuMemRetainAllocationHandle(&handle, (void *)p));
	tell("set access", (int)cuMemSetAccess(p, bytes, &desc, 1));
	tell("get access", (int)cuMemGetAccess(&flags, &desc.location, p));
	tell("unmap", (int)cuMemUnmap(p, bytes));
	tell("free the addresses", (int)cuMemAddressFree(p, bytes));
	tell_prefix(NULL);
}

static void plain_addresses(void)
{
	CUdeviceptr p, q;

	primary_context();
	need(cuMemAlloc(&p, 8 * MIB));
	need(cuMemAlloc(&q, 4 * KIB));
	on_address("2 MiB of 8", p, 2 * MIB);
	on_address("a part of 8", p + MIB, MIB);
	on_address("all", p, 8 * MIB);
	on_address("4 KiB", q, 4 * KIB);
	on_address("2 MiB from 4 KiB", q, 2 * MIB);
	tell("set", (int)cuMemsetD8(p, 1, 8 * MIB));
	tell("set", (int)cuMemsetD8(q, 1, 4 * KIB));
	tell("free", (int)cuMemFree(p));
	on_address("freed", p, 2 * MIB);
	tell("free", (int)cuMemFree(q));
}

/* A program's own mappings are its own. */
static void own_mappings(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle = 0, again = 0;
	CUdeviceptr at = 0, base = 0, plain = 0;
	size_t size = 0, step = 0;

	primary_context();
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	desc.location = prop.location;
	tell("granularity",
	     (int)cuMemGetAllocationGranularity(
		     &step, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	tell("create", (int)cuMemCreate(&handle, 2 * step, &prop, 0));
	tell("reserve", (int)cuMemAddressReserve(&at, 4 * step, 0, 0, 0));
	tell("map", (int)cuMemMap(at, 2 * step, 0, handle, 0));
	tell("set before access", (int)cuMemsetD8(at, 1, 16));
	tell("access", (int)cuMemSetAccess(at, 2 * step, &desc, 1));
	tell("set", (int)cuMemsetD8(at, 1, 2 * step));
	tell("retain", (int)cuMemRetainAllocationHandle(&again, (void *)at));
	tell_value("the same", again == handle);
	tell("release", (int)cuMemRelease(again));
	tell("range", (int)cuMemGetAddressRange(&base, &size, at + step));
	tell_value("offset", (long long)(at - base));
	tell("free it as plain memory", (int)cuMemFree(at));
	need(cuMemAlloc(&plain, 4 * step));
	tell("map over plain memory", (int)cuMemMap(plain, step, 0, handle, 0));
	tell("plain memory is whole", (int)cuMemsetD8(plain, 2, 4 * step));
	tell("free", (int)cuMemFree(plain));
	tell("release", (int)cuMemRelease(handle));
	tell("unmap", (int)cuMemUnmap(at, 2 * step));
	tell("unmap again", (int)cuMemUnmap(at, 2 * step));
	tell("free the addresses", (int)cuMemAddressFree(at, 4 * step));
	tell("free them again", (int)cuMemAddressFree(at, 4 * step));
	tell("release again", (int)cuMemRelease(handle));
}

static void wrong_handles(void)
{
	CUipcMemHandle handle, zero;
	CUdeviceptr p, q = 0, managed;

	primary_context();
	memset(&zero, 0, sizeof(zero));
	need(cuMemAlloc(&p, 3 * MIB));
	need(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	tell("of managed memory", (int)cuIpcGetMemHandle(&handle, managed));
	tell("of 16", (int)cuIpcGetMemHandle(&handle, 16));
	tell("of 0", (int)cuIpcGetMemHandle(&handle, 0));
	tell("close what is not open", (int)cuIpcCloseMemHandle(p));
	tell("close 16", (int)cuIpcCloseMemHandle(16));
	tell("open nothing",
	     (int)cuIpcOpenMemHandle(&q, zero,
				     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	tell("free", (int)cuMemFree(managed));
	tell("free", (int)cuMemFree(p));
}

static void own_handles(void)
{
	CUipcMemHandle handle, middle;
	CUdeviceptr p, q = 0;

	primary_context();
	need(cuMemAlloc(&p, 3 * MIB));
	tell("get", (int)cuIpcGetMemHandle(&handle, p));
	tell("get of its middle", (int)cuIpcGetMemHandle(&middle, p + MIB));
	tell("get to NULL", (int)cuIpcGetMemHandle(NULL, p));
	tell("open in its own process",
	     (int)cuIpcOpenMemHandle(&q, handle,
				     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	tell("open without a flag", (int)cuIpcOpenMemHandle(&q, handle, 0));
	tell("free", (int)cuMemFree(p));
	tell("of freed memory", (int)cuIpcGetMemHandle(&handle, p));
}

const struct section virtual_sections[] = {{"virtual", plain_addresses},
					   {"virtual-own", own_mappings},
					   {"ipc-errors", wrong_handles},
					   {"ipc-own", own_handles},
					   {NULL, NULL}};
