/*
 * A report with a different figure in every place, for tests.
 */
#ifndef GP_TESTS_SAMPLE_REPORT_H
#define GP_TESTS_SAMPLE_REPORT_H

#include "stats/report.h"

/* Static data, filled anew: a training run's, with one pool. */
struct gp_report *sample_report(enum gp_report_reason reason);
/* One more pool, on device 1. */
void sample_add_pool(struct gp_report *report);

#endif
