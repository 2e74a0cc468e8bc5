/*
 * What a report says, and where it goes.
 */
#ifndef GP_SHIM_REPORT_WRITE_H
#define GP_SHIM_REPORT_WRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/report.h"

/* What a report is about, beside the figures. */
struct gp_report_about {
	enum gp_report_reason reason;
	unsigned sequence;  /* N of its name */
	bool asked;         /* the driver was, and has answered */
	bool silent;        /* it was asked, and did not answer in time */
	struct gp_oom *oom; /* GP_REPORT_OOM; NULL else */
	int warn_device;    /* GP_REPORT_WARN: these three */
	uint64_t warn_used, warn_of;
	const struct gp_stack *stack; /* of the request; NULL: not kept */
};

/* Decides how report files are called. Once, at start: the program may change
 * its environment later. */
void gp_report_names_start(void);

/* Writes it. Calls no driver. Thread-safe: one at a time. Preserves errno. 0 or
 * -errno; *path (may be NULL) as in gp_report_write(). */
int gp_write_report(const struct gp_report_about *about, char *path,
		    size_t path_size);

#endif
