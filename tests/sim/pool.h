/* Stream-ordered memory pools. All functions: locked. */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "tests/sim/sim.h"

/* What came back, and is handed out again as it is: the same address, the old
 * contents. */
struct sim_kept {
	struct sim_phys *phys;
	CUdeviceptr va;
	uint64_t span, align;
	struct sim_list link;
};

/* Guarded by sim.lock. */
struct sim_pool {
	struct sim_device *device;
	uint64_t used, used_high, reserved, reserved_high, threshold;
	int reuse_event, reuse_opportunistic, reuse_internal;
	bool dying; /* destroyed by the program, still in use */
	CUmemAllocationHandleType exported_as;
	unsigned access;      /* devices that may use it, a bit each */
	struct sim_list kept; /* the oldest first */
	uint64_t kept_bytes;  /* at most what is reserved and not used */
	struct sim_list link;
};

struct sim_pool *sim_pool_new(struct sim_device *device);
/* Give the device what is beyond `keep` bytes and not in use. True: some. */
bool sim_pool_give_back(struct sim_pool *pool, uint64_t keep);
/* Free a pool that nobody uses. */
void sim_pool_bury(struct sim_pool *pool);

/* The device's default pool, at start. */
void sim_pool_start(struct sim_device *device);
/* A block came back: its memory stays reserved until the pools settle. True: the
 * pool has kept its contents and address, too. */
bool sim_pool_returned(const struct sim_region *region);
/* After a synchronisation: give back what is above the release threshold. */
void sim_pools_settle(void);
/* Let go of everything unused of a device's pools. True: there was some. */
bool sim_pools_trim(struct sim_device *device);

#endif
