/*
 * Writing to a file descriptor on behalf of a program that did not ask for it.
 */
#ifndef GP_STATS_OUTPUT_H
#define GP_STATS_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

/* Writes all of it: short writes and EINTR are continued. A broken pipe or a
 * file size limit is an error here and no signal for the host program, which
 * it would kill. 0 or -errno. Preserves errno; safe in a signal handler. */
int gp_write_all(int fd, const void *data, size_t size);

/* Makes a file of that size whose blocks are all there: a store into it, once
 * mapped, does not fail. As careful as gp_write_all(). 0 or -errno. */
int gp_allocate(int fd, uint64_t size);

#endif
