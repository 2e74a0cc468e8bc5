/*
 * The figures of one device, or of all, for the program itself: as JSON, and
 * as a page that looks like PyTorch's. Any thread.
 */
#ifndef GP_STATS_DEVICE_H
#define GP_STATS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "stats/kinds.h"
#include "stats/pool_stats.h"

struct gp_device_figures {
	int device;                 /* -1: all */
	uint64_t total_bytes;       /* physical memory; 0: not known */
	uint64_t limit_bytes;       /* the process's; UINT64_MAX: none */
	struct gp_pool_stats stats; /* of all its pools together */
	struct gp_kind_stats kinds[GP_KIND_COUNT]; /* of all devices */
};

/* As much as fits into text[0..size), ended with a 0 if there is room for one.
 * The length of the whole, or -errno. Nothing is allocated. */
long gp_device_json(const struct gp_device_figures *figures, char *text,
		    size_t size);
long gp_device_summary(const struct gp_device_figures *figures, char *text,
		       size_t size);

#endif
