/*
 * Who a process is, beyond its number: numbers come round again. Any thread.
 */
#ifndef GP_STATS_PROCESS_ID_H
#define GP_STATS_PROCESS_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_process_id {
	uint32_t pid;
	uint32_t uid;     /* effective */
	uint64_t start;   /* clock ticks since boot, as in /proc/PID/stat */
	uint64_t pid_ns;  /* inode of its pid namespace, 0: unknown */
	char boot_id[40]; /* of the kernel it runs under, "" : unknown */
};

enum gp_life {
	GP_ALIVE,
	GP_DEAD,
	GP_ELSEWHERE, /* in another pid namespace: not to be told from here */
};

/* The calling process. Preserves errno; allocates nothing. */
void gp_process_self(struct gp_process_id *id);

/* Does the process of `id` still run, seen from `self`? A zombie does not. */
enum gp_life gp_process_life(const struct gp_process_id *id,
			     const struct gp_process_id *self);

/* When a process was started, as in gp_process_id; 0: it is gone or a zombie,
 * or /proc does not say. */
uint64_t gp_process_start(uint32_t pid);

#endif
