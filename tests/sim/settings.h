/* GPUPOOL_SIM as a struct; the keys are described in gpusim.h. */
#ifndef SIM_SETTINGS_H
#define SIM_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_DEVICES_MAX   8
#define SIM_INSTANCES_MAX 7 /* of a card, as MIG divides it */

struct sim_settings {
	uint64_t memory, memory_step, context; /* bytes */
	uint64_t mig; /* instances a card; 0: whole cards */
	uint64_t devices, version;
	uint64_t kernel_us, copy_us, host_us, alloc_us, free_us, destroy_us;
	uint64_t launch_us;
	uint64_t schedule, history; /* seed 0: in time */
	uint64_t contexts_return;
	uint64_t vmm, pools, peer, rdma, pageable, leak_report; /* 0 or 1 */
	char call_log[PATH_MAX], stats[PATH_MAX],
		shared[PATH_MAX]; /* "": none */
};

/* Parse `text` (may be NULL) over the defaults; failures that it asks for
 * are set in the table. Returns false after telling on stderr what is wrong
 * with it. Not thread-safe. */
bool sim_settings_parse(const char *text, struct sim_settings *settings);

#endif
