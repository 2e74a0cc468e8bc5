/* The bell; see bell.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/bell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stats/clock.h"

static uint32_t own;
static uint32_t *bell = &own;

static long futex(const uint32_t *word, int op, uint32_t value,
		  const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void gp_bell_start(void)
{
	if (gp_file)
		__atomic_store_n(&bell, &gp_file->bell, __ATOMIC_RELEASE);
}

static uint32_t *word(void)
{
	return __atomic_load_n(&bell, __ATOMIC_ACQUIRE);
}

void gp_bell_ring(void)
{
	int saved = errno;

	__atomic_add_fetch(word(), 1, __ATOMIC_RELEASE);
	futex(word(), FUTEX_WAKE, INT_MAX, NULL);
	errno = saved;
}

uint32_t gp_bell_seen(void)
{
	return __atomic_load_n(word(), __ATOMIC_ACQUIRE);
}

void gp_bell_wait(uint32_t seen, uint64_t ns)
{
	const struct timespec timeout = gp_timespec(ns);

	futex(word(), FUTEX_WAIT, seen, &timeout);
}

/* The word is written through the descriptor, and the kernel alone looks at
 * the mapping: a file that was cut short is an error there and no SIGBUS. */
void gp_bell_ring_other(int fd)
{
	const size_t at = offsetof(struct gp_file_head, bell);
	int saved = errno;
	uint32_t value;
	char *map;

	if (pread(fd, &value, sizeof(value), (off_t)at) ==
	    (ssize_t)sizeof(value)) {
		/* Whoever else rings at once: it differs from what was seen. */
		value += 1 + ((uint32_t)gp_ticks() & 0xffff);
		if (pwrite(fd, &value, sizeof(value), (off_t)at) ==
		    (ssize_t)sizeof(value)) {
			map = mmap(NULL, GP_FILE_HEAD_BYTES,
				   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			if (map != MAP_FAILED) {
				futex((void *)(map + at), FUTEX_WAKE, INT_MAX,
				      NULL);
				munmap(map, GP_FILE_HEAD_BYTES);
			}
		}
	}
	errno = saved;
}
