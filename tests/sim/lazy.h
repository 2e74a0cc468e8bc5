/* Work without time; see lazy.c. All locked, only with schedule:N. */
#ifndef SIM_LAZY_H
#define SIM_LAZY_H

/* Something was submitted: maybe do some work. */
void sim_lazy_submitted(void);
/* Do something a waiter can hope for; may drop the lock. */
void sim_lazy_wait(void);

#endif
