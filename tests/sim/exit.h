/* What the simulator tells: the call log, and the figures at exit. */
#ifndef SIM_EXIT_H
#define SIM_EXIT_H

#include "tests/sim/table.h"

/* One line of the call log, where one is kept. */
void sim_log_call(const struct sim_row *row);
/* Open the call log that the settings name. False: it cannot be written. */
bool sim_log_open(const char *path);

/* Write what `stats` and `leak_report` ask for. */
void sim_tell(void);

#endif
