/*
 * A libnvidia-ml for the simulated driver: the cards there are and the memory
 * they have in use, by physical number. The figures are the simulated
 * driver's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/gpusim.h"
#include "tests/sim/nvml/nvml.h"

#define API              __attribute__((visibility("default")))

/* A device handle says which one it is: card and instance + 1, never 0. */
#define CARD(handle)     ((int)((handle) >> 8) - 1)
#define INSTANCE(handle) ((int)((handle)&0xff) - 1)

typedef int card_fn(int, int, struct gpusim_card *);

typedef int process_fn(int, unsigned, unsigned *, uint64_t *);

static atomic_int users;
static card_fn *ask;

static card_fn *find(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY);

	return handle ? (card_fn *)dlsym(handle, "gpusim_card") : NULL;
}

API int nvmlInit_v2(void)
{
	if (!ask)
		ask = find();
	if (!ask)
		return NVML_ERROR_LIBRARY_NOT_FOUND;
	atomic_fetch_add(&users, 1);
	return NVML_SUCCESS;
}

API int nvmlShutdown(void)
{
	if (!atomic_load(&users))
		return NVML_ERROR_UNINITIALIZED;
	atomic_fetch_sub(&users, 1);
	return NVML_SUCCESS;
}

static int look(nvmlDevice_t device, struct gpusim_card *card)
{
	if (!atomic_load(&users))
		return NVML_ERROR_UNINITIALIZED;
	return ask(CARD(device), INSTANCE(device), card)
		       ? NVML_ERROR_INVALID_ARGUMENT
		       : NVML_SUCCESS;
}

static nvmlDevice_t handle_of(int card, int instance)
{
	return (nvmlDevice_t)(card + 1) << 8 | (unsigned)(instance + 1);
}

API int nvmlDeviceGetCount_v2(unsigned *count)
{
	struct gpusim_card card;

	if (!atomic_load(&users))
		return NVML_ERROR_UNINITIALIZED;
	for (*count = 0; !ask((int)*count, -1, &card);)
		++*count;
	return NVML_SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	struct gpusim_card card;

	*device = handle_of((int)index, -1);
	return look(*device, &card);
}

static void spell(const struct gpusim_card *card, int instance, char *text,
		  size_t size)
{
	const unsigned char *b = card->uuid;

	snprintf(text, size,
		 "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 instance < 0 ? "GPU" : "MIG", b[0], b[1], b[2], b[3], b[4],
		 b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}

API int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned size)
{
	struct gpusim_card card;
	int rc = look(device, &card);

	if (!rc)
		spell(&card, INSTANCE(device), text, size);
	return rc;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	struct gpusim_card card;
	char text[96];

	if (!atomic_load(&users))
		return NVML_ERROR_UNINITIALIZED;
	for (int i = 0; !ask(i, -1, &card); i++)
		for (int instance = -1; !ask(i, instance, &card); instance++) {
			spell(&card, instance, text, sizeof(text));
			*device = handle_of(i, instance);
			if (!strcmp(text, uuid))
				return NVML_SUCCESS;
		}
	return NVML_ERROR_NOT_FOUND;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t card, unsigned index,
					    nvmlDevice_t *device)
{
	struct gpusim_card data;

	*device = handle_of(CARD(card), (int)index);
	return look(*device, &data) ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
						unsigned *count,
						nvmlProcessInfo_t *list)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY);
	process_fn *process =
		handle ? (process_fn *)dlsym(handle, "gpusim_process") : NULL;
	uint64_t bytes;
	unsigned pid;

	if (!atomic_load(&users) || !process)
		return NVML_ERROR_UNINITIALIZED;
	for (unsigned i = 0;; i++) {
		if (process(CARD(device), i, &pid, &bytes)) {
			*count = i;
			return NVML_SUCCESS;
		}
		if (i == *count)
			return NVML_ERROR_INSUFFICIENT_SIZE;
		list[i] = (nvmlProcessInfo_t){.pid = pid, .bytes = bytes};
	}
}

API int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct gpusim_card card;
	int rc = look(device, &card);

	if (rc)
		return rc;
	memory->total = card.total;
	memory->used = card.used;
	memory->free = card.total - card.used;
	return rc;
}

API int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	struct gpusim_card card;
	int rc = look(device, &card);

	if (rc)
		return rc;
	if (memory->version != NVML_MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memory->total = card.total;
	memory->reserved = 0;
	memory->used = card.used;
	memory->free = card.total - card.used;
	return rc;
}
