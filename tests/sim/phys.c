/*
 * Physical memory: what it costs the device, and where its contents are.
 * Fresh memory reads as zero, as the card's does. What can be exported is a
 * file of its own, so that it can be mapped in other processes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sim/backing.h"
#include "tests/sim/oracle.h"
#include "tests/sim/share.h"
#include "tests/sim/sim.h"

CUresult sim_charge(struct sim_device *device, uint64_t bytes)
{
	uint64_t mine = device->used + device->context_used;

	if (bytes > device->total - mine ||
	    !sim_share_take(device->ordinal, mine + bytes, device->total))
		return CUDA_ERROR_OUT_OF_MEMORY;
	device->used += bytes;
	if (device->used > device->peak)
		device->peak = device->used;
	return CUDA_SUCCESS;
}

void sim_uncharge(struct sim_device *device, uint64_t bytes)
{
	device->used -= bytes;
	sim_share_take(device->ordinal, device->used + device->context_used,
		       device->total);
}

/* What this process made to be shared; guarded by sim.lock. */
static struct sim_list shared = {&shared, &shared};

/* The file's name says whose memory it is: card, and instance of it. */
#define NAME "gpusim-%d-%d"

/* The device of this process behind a descriptor; NULL: it sees no such. */
static struct sim_device *device_behind(int fd)
{
	char path[64], name[128] = "";
	int card, instance;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0 ||
	    sscanf(name, "/memfd:" NAME, &card, &instance) != 2)
		return NULL;
	for (int i = 0; i < sim.devices; i++)
		if (sim.device[i].card == card &&
		    sim.device[i].instance == instance)
			return &sim.device[i];
	return NULL;
}

static bool contents(struct sim_phys *phys, bool shareable)
{
	char name[64];

	if (!shareable) {
		phys->at = sim_backing_take(phys->bytes);
		return phys->at;
	}
	snprintf(name, sizeof(name), NAME,
		 phys->device ? phys->device->card : -1,
		 phys->device ? phys->device->instance : -1);
	phys->fd = memfd_create(name, MFD_CLOEXEC);
	if (phys->fd < 0 || ftruncate(phys->fd, (off_t)phys->bytes))
		return false;
	phys->at = mmap(NULL, phys->bytes, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE, phys->fd, 0);
	if (phys->at == MAP_FAILED)
		phys->at = NULL;
	return phys->at;
}

static void phys_free(struct sim_phys *phys)
{
	sim_list_del(&phys->link);
	sim_oracle_phys_free(phys);
	if (phys->charged)
		sim_uncharge(phys->device, phys->bytes);
	if (phys->at && phys->fd < 0)
		sim_backing_give(phys->at, phys->bytes);
	else if (phys->at)
		munmap(phys->at, phys->bytes);
	if (phys->fd >= 0)
		close(phys->fd);
	free(phys);
}

CUresult sim_phys_create(struct sim_device *device, uint64_t bytes,
			 bool shareable, bool charge, struct sim_phys **out)
{
	struct sim_phys *phys;
	CUresult err;

	if (charge) {
		err = sim_charge(device, bytes);
		if (err)
			return err;
	}
	phys = calloc(1, sizeof(*phys));
	if (!phys) {
		if (charge)
			sim_uncharge(device, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	phys->device = device;
	phys->bytes = bytes;
	phys->fd = -1;
	phys->refs = 1;
	phys->charged = charge;
	sim_list_init(&phys->link);
	if (!contents(phys, shareable)) {
		phys_free(phys);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (shareable)
		sim_list_add(&shared, &phys->link);
	*out = phys;
	return CUDA_SUCCESS;
}

static bool same_file(int fd, const struct stat *st)
{
	struct stat own;

	return !fstat(fd, &own) && own.st_dev == st->st_dev &&
	       own.st_ino == st->st_ino;
}

CUresult sim_phys_import(int fd, struct sim_phys **out)
{
	struct sim_device *device;
	struct sim_phys *phys;
	struct sim_list *l;
	struct stat st;

	if (fstat(fd, &st) || st.st_size <= 0 ||
	    (uint64_t)st.st_size % SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	for (l = shared.next; l != &shared; l = l->next) {
		phys = sim_entry(l, struct sim_phys, link);
		if (!same_file(phys->fd, &st))
			continue;
		sim_phys_ref(phys);
		*out = phys;
		return CUDA_SUCCESS;
	}
	device = device_behind(fd);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	phys = calloc(1, sizeof(*phys));
	if (!phys)
		return CUDA_ERROR_OUT_OF_MEMORY;
	phys->device = device;
	phys->bytes = (uint64_t)st.st_size;
	phys->refs = 1;
	phys->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	phys->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	phys->prop.location.id = device->ordinal;
	phys->prop.requestedHandleTypes =
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	phys->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	phys->at = mmap(NULL, phys->bytes, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE, fd, 0);
	sim_list_init(&phys->link);
	if (phys->at == MAP_FAILED || phys->fd < 0) {
		if (phys->at == MAP_FAILED)
			phys->at = NULL;
		phys_free(phys);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	sim_list_add(&shared, &phys->link);
	*out = phys;
	return CUDA_SUCCESS;
}

void sim_phys_ref(struct sim_phys *phys)
{
	phys->refs++;
}

void sim_phys_unref(struct sim_phys *phys)
{
	if (!--phys->refs)
		phys_free(phys);
}
