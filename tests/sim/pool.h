/* Stream-ordered memory pools. All locked. */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "tests/sim/sim.h"

/* The device's default pool, at start. */
void sim_pool_start(struct sim_device *device);
/* A block came back: its memory stays reserved until the pools settle. */
void sim_pool_returned(struct sim_pool *pool, uint64_t bytes);
/* After a synchronisation: give back what is above the release threshold. */
void sim_pools_settle(void);
/* Let go of everything unused of a device's pools. True: there was some. */
bool sim_pools_trim(struct sim_device *device);

#endif
