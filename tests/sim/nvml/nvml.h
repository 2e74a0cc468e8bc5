/*
 * What of NVML's interface the simulator and its programs use, as NVIDIA
 * documents it; nvml.h is not on every machine.
 */
#ifndef SIM_NVML_H
#define SIM_NVML_H

#include <stdint.h>

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

typedef uintptr_t nvmlDevice_t; /* a pointer, there */

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
} nvmlProcessInfo_t;

#define NVML_MEMORY_V2 (sizeof(nvmlMemory_v2_t) | 2u << 24)

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned size);
int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t card, unsigned index,
					nvmlDevice_t *device);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
					    unsigned *count,
					    nvmlProcessInfo_t *list);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);

#endif
