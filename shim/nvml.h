/*
 * NVML, NVIDIA's management library: what gpupool asks of it, and what a
 * program that asks it for the memory of a device is told (queries.h).
 *
 * nvml.h is not on every machine that builds this: the few types are declared
 * here, from NVIDIA's documentation.
 */
#ifndef GP_SHIM_NVML_H
#define GP_SHIM_NVML_H

#include "shim/hooks.h"

typedef struct gp_nvml_device *gp_nvml_device_t; /* nvmlDevice_t */

struct gp_nvml_memory { /* nvmlMemory_t */
	unsigned long long total, free, used;
};

struct gp_nvml_memory_v2 { /* nvmlMemory_v2_t */
	unsigned version;
	unsigned long long total, reserved, free, used;
};

#pragma GCC visibility push(default)
int nvmlDeviceGetMemoryInfo(gp_nvml_device_t device,
			    struct gp_nvml_memory *memory);
int nvmlDeviceGetMemoryInfo_v2(gp_nvml_device_t device,
			       struct gp_nvml_memory_v2 *memory);
#pragma GCC visibility pop

/* What dlsym is to answer for `name` in place of `function`, NVML's own; or
 * `function` itself. */
void *gp_nvml_hook_of(void *function, const char *name);

/* Load and start NVML for gpupool's own questions; false: there is none. Each
 * success is to be closed. Thread-safe. */
bool gp_nvml_open(void);
void gp_nvml_close(void);

/* Bytes in use on a CUDA device, by all processes. False: NVML does not say.
 * NVML must be open. */
bool gp_nvml_used(CUdevice device, uint64_t *bytes);

struct gp_nvml_process {
	uint32_t pid;   /* as the driver numbers it */
	uint64_t bytes; /* UINT64_MAX: not told */
};

/* The processes that compute on a CUDA device, into list[0..max). Their number;
 * 0 also where NVML does not say. NVML must be open. */
size_t gp_nvml_processes(CUdevice device, struct gp_nvml_process *list,
			 size_t max);

#endif
