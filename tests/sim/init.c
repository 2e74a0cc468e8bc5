/*
 * cuInit, the end of the process, and fork.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/bodies.h"
#include "tests/sim/engine.h"
#include "tests/sim/exit.h"
#include "tests/sim/gpusim.h"
#include "tests/sim/pool.h"
#include "tests/sim/share.h"
#include "tests/sim/sim.h"

struct sim sim = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
	.self_lookup = -1,
	.contexts = {&sim.contexts, &sim.contexts},
	.active = {&sim.active, &sim.active},
};

static __thread struct sim_thread this_thread;
static atomic_ulong thread_serial;

/* Settings are read once, by whoever comes first. */
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static bool settings_good;

struct sim_thread *sim_thread(void)
{
	if (!this_thread.serial)
		this_thread.serial = atomic_fetch_add(&thread_serial, 1) + 1;
	return &this_thread;
}

void sim_lock(void)
{
	pthread_mutex_lock(&sim.lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&sim.lock);
}

uint64_t sim_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sim_delay(uint64_t us)
{
	struct timespec t = {(time_t)(us / 1000000),
			     (long)(us % 1000000) * 1000};

	if (us)
		nanosleep(&t, NULL);
}

struct sim_device *sim_device_of(CUdevice dev)
{
	if (dev < 0 || dev >= sim.devices)
		return NULL;
	return &sim.device[dev];
}

static void read_settings(void)
{
	settings_good =
		sim_settings_parse(getenv("GPUPOOL_SIM"), &sim.settings) &&
		sim_log_open(sim.settings.call_log);
}

void sim_settings_read(void)
{
	pthread_once(&settings_once, read_settings);
}

/* The real driver looks up its own cuInit on its own handle while it starts,
 * and breaks if a preloaded library gives it another. */
static int look_up_self(void)
{
	Dl_info info;
	void *handle, *found;

	if (!dladdr(sim_row_find("cuInit")->door, &info))
		return 0;
	handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return 0;
	found = dlsym(handle, "cuInit");
	dlclose(handle);
	return found == sim_row_find("cuInit")->door;
}

/* The child of a process that used the driver gets nothing from it. */
static void forked(void)
{
	if (atomic_load(&sim.state) != SIM_FRESH)
		atomic_store(&sim.state, SIM_FORKED);
	pthread_mutex_init(&sim.lock, NULL);
}

/* locked */
static CUresult start(void)
{
	pthread_condattr_t attr;

	if (!settings_good)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_share_open(sim.settings.shared))
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (sim_space_init()) {
		fprintf(stderr, "gpusim: no address space for the devices\n");
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&sim.work, &attr);
	pthread_condattr_destroy(&attr);
	pthread_atfork(NULL, NULL, forked);
	sim_visible();
	for (int i = 0; i < sim.devices; i++)
		sim_pool_start(&sim.device[i]);
	return sim.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult sim_init(unsigned flags)
{
	CUresult err = CUDA_SUCCESS;
	bool first = false;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch (atomic_load(&sim.state)) {
	case SIM_FORKED:
		return CUDA_ERROR_NOT_INITIALIZED;
	case SIM_DOWN:
		return CUDA_ERROR_DEINITIALIZED;
	}
	sim_lock();
	if (atomic_load(&sim.state) == SIM_FRESH) {
		err = start();
		first = !err;
		atomic_store(&sim.state, err ? SIM_BAD : SIM_UP);
	} else if (atomic_load(&sim.state) == SIM_BAD) {
		err = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	/* Without the lock: a preloaded library's dlsym runs. */
	if (first)
		sim.self_lookup = look_up_self();
	return err;
}

CUresult sim_driver_version(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = (int)sim.settings.version;
	return CUDA_SUCCESS;
}

__attribute__((destructor)) static void finish(void)
{
	if (atomic_load(&sim.state) != SIM_UP)
		return;
	sim_engine_stop();
	atomic_store(&sim.state, SIM_DOWN);
	sim_tell();
}

__attribute__((visibility("default"))) int gpusim_self_lookup(void)
{
	return sim.self_lookup;
}
