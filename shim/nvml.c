/* NVML; see nvml.h. */
#define _GNU_SOURCE
#include "shim/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "shim/queries.h"
#include "shim/state.h"

#define LIBRARY       "libnvidia-ml.so.1"
#define UUID_MAX      96
#define UNINITIALIZED 1 /* NVML_ERROR_UNINITIALIZED */

typedef int memory_fn(gp_nvml_device_t, struct gp_nvml_memory *);
typedef int memory_v2_fn(gp_nvml_device_t, struct gp_nvml_memory_v2 *);
typedef int uuid_fn(gp_nvml_device_t, char *, unsigned);
typedef int by_uuid_fn(const char *, gp_nvml_device_t *);
typedef int plain_fn(void);

/* A function of the NVML that the process has, NULL: it has none. */
static void *loaded(const char *name)
{
	void *handle = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	void *found = NULL;

	if (!handle)
		return NULL;
	found = gp_dlsym(handle, name);
	dlclose(handle); /* the process still holds it */
	return found;
}

/* ---- asking ---------------------------------------------------------------------- */

bool gp_nvml_open(void)
{
	/* Never unloaded again: loading takes longer than all else. */
	void *handle = dlopen(LIBRARY, RTLD_LAZY);
	plain_fn *init;

	if (!handle) {
		dlerror(); /* none of the program's business */
		return false;
	}
	init = (plain_fn *)gp_dlsym(handle, "nvmlInit_v2");
	return init && init() == 0;
}

void gp_nvml_close(void)
{
	plain_fn *shutdown = (plain_fn *)loaded("nvmlShutdown");

	if (shutdown)
		shutdown();
}

static void spell(const char *kind, const CUuuid *uuid, char *text, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(text, size,
		 "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 kind, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8],
		 b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static bool uuid_of(CUdevice device, CUuuid *uuid)
{
	return gp_real()->cuDeviceGetUuid_v2(uuid, device) == CUDA_SUCCESS;
}

static bool handle_of(CUdevice device, gp_nvml_device_t *handle)
{
	by_uuid_fn *find = (by_uuid_fn *)loaded("nvmlDeviceGetHandleByUUID");
	char text[UUID_MAX];
	CUuuid uuid;

	if (!find || !uuid_of(device, &uuid))
		return false;
	spell("GPU", &uuid, text, sizeof(text));
	if (!find(text, handle))
		return true;
	spell("MIG", &uuid, text, sizeof(text));
	return !find(text, handle);
}

bool gp_nvml_used(CUdevice device, uint64_t *bytes)
{
	memory_fn *ask = (memory_fn *)loaded("nvmlDeviceGetMemoryInfo");
	struct gp_nvml_memory memory;
	gp_nvml_device_t handle;

	if (!ask || !handle_of(device, &handle) || ask(handle, &memory))
		return false;
	*bytes = memory.used;
	return true;
}

/* nvmlProcessInfo_t as versions 2 and 3 of the call have it. */
struct process_info {
	unsigned pid;
	unsigned long long bytes; /* all ones: not available */
	unsigned gpu_instance, compute_instance;
};

#define MAX_PROCESSES 256

typedef int processes_fn(gp_nvml_device_t, unsigned *, struct process_info *);

size_t gp_nvml_processes(CUdevice device, struct gp_nvml_process *list,
			 size_t max)
{
	processes_fn *ask = (processes_fn *)loaded(
		"nvmlDeviceGetComputeRunningProcesses_v3");
	struct process_info found[MAX_PROCESSES];
	unsigned n = MAX_PROCESSES;
	gp_nvml_device_t handle;

	if (!ask)
		ask = (processes_fn *)loaded(
			"nvmlDeviceGetComputeRunningProcesses_v2");
	if (!ask || !handle_of(device, &handle) || ask(handle, &n, found))
		return 0;
	if (n > max)
		n = (unsigned)max;
	for (unsigned i = 0; i < n; i++)
		list[i] =
			(struct gp_nvml_process){found[i].pid, found[i].bytes};
	return n;
}

/* ---- what the program is told ---------------------------------------------------- */

/* The CUDA device behind a handle: its ordinal; -1: the process does not see
 * it; -2: CUDA cannot be asked, for it has not been started. */
static int ordinal_of(gp_nvml_device_t handle)
{
	uuid_fn *ask = (uuid_fn *)loaded("nvmlDeviceGetUUID");
	char text[UUID_MAX], own[UUID_MAX];
	const char *number;
	CUuuid uuid;
	int count;

	if (gp_real()->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return -2;
	if (!ask || ask(handle, text, sizeof(text)))
		return -1;
	number = strchr(text, '-'); /* behind GPU or MIG */
	for (int i = 0; number && i < count; i++) {
		if (!uuid_of(i, &uuid))
			continue;
		spell("", &uuid, own, sizeof(own));
		if (!strcmp(own, number))
			return i;
	}
	return -1;
}

int nvmlDeviceGetMemoryInfo(gp_nvml_device_t device,
			    struct gp_nvml_memory *memory)
{
	memory_fn *real = (memory_fn *)loaded("nvmlDeviceGetMemoryInfo");
	uint64_t total, free;
	int rc;

	if (!real)
		return UNINITIALIZED;
	rc = real(device, memory);
	if (rc)
		return rc;
	total = memory->total;
	free = memory->free;
	if (gp_query_show(ordinal_of(device), &free, &total)) {
		memory->total = total;
		memory->free = free;
		memory->used = total - free;
	}
	return 0;
}

int nvmlDeviceGetMemoryInfo_v2(gp_nvml_device_t device,
			       struct gp_nvml_memory_v2 *memory)
{
	memory_v2_fn *real =
		(memory_v2_fn *)loaded("nvmlDeviceGetMemoryInfo_v2");
	uint64_t total, free;
	int rc;

	if (!real)
		return UNINITIALIZED;
	rc = real(device, memory);
	if (rc)
		return rc;
	total = memory->total;
	free = memory->free;
	if (gp_query_show(ordinal_of(device), &free, &total)) {
		/* What the driver keeps for itself is nobody's share. */
		memory->reserved = 0;
		memory->total = total;
		memory->free = free;
		memory->used = total - free;
	}
	return 0;
}

void *gp_nvml_hook_of(void *function, const char *name)
{
	if (!strcmp(name, "nvmlDeviceGetMemoryInfo"))
		return (void *)nvmlDeviceGetMemoryInfo;
	if (!strcmp(name, "nvmlDeviceGetMemoryInfo_v2"))
		return (void *)nvmlDeviceGetMemoryInfo_v2;
	return function;
}
