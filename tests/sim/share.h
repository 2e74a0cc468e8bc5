/*
 * Processes that share the simulated devices (shared:PATH): a file says what
 * each of them takes. Its lock goes with whoever holds it, and a process that
 * is gone takes nothing.
 */
#ifndef SIM_SHARE_H
#define SIM_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Once, before the devices start. False after telling why on stderr. */
bool sim_share_open(const char *path);
bool sim_share_is_on(void);

/* What the other processes take of a device; 0 without a file. */
uint64_t sim_share_others(int device);

/* This process takes `bytes` of it from now on, all told. False, and nothing
 * changes, if that and what the others take is more than `total`. */
bool sim_share_take(int device, uint64_t bytes, uint64_t total);

/* The i-th of the processes that share the file, this one among them, and what
 * it takes of a device. False: there are no more. */
bool sim_share_process(unsigned i, int device, unsigned *pid, uint64_t *bytes);

/* The same for all who share the file, and for nobody else. */
uint64_t sim_share_name(void);

#endif
