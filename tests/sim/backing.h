/* Host memory behind device memory. All locked. */
#ifndef SIM_BACKING_H
#define SIM_BACKING_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed; aligned to its size up to a page. NULL: there is no more. */
char *sim_backing_take(uint64_t bytes);
/* With the size it was taken with. */
void sim_backing_give(char *at, uint64_t bytes);

#endif
