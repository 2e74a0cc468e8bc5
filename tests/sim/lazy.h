/* Work without time; see lazy.c. All locked, only with schedule:N. */
#ifndef SIM_LAZY_H
#define SIM_LAZY_H

#include "tests/sim/engine.h"

/* Something was submitted: maybe do some work. */
void sim_lazy_submitted(void);
/* Somebody asked for the stream, and is told "not yet": some time has passed
 * for it. */
void sim_lazy_asked(struct sim_stream *stream);
/* Do something a waiter can hope for; may drop the lock. */
void sim_lazy_wait(void);

#endif
