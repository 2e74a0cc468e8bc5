/*
 * Reading memory that may not be there: the kernel copies it, and says so
 * instead of a fault. Pages are read whole and kept while a stack is walked:
 * what belongs together lies together.
 *
 * One caller at a time, who holds the lock of stacks.c. Errors are told by
 * false; errno is not preserved.
 */
#ifndef GP_SHIM_PEEK_H
#define GP_SHIM_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory may have changed since. */
void gp_peek_forget(void);

bool gp_peek(uintptr_t at, void *to, size_t size);

/* `size` bytes from each of `n` addresses (at most 64) into to[n][size], in one
 * call to the kernel where it goes well; ok[i]: this one was read. */
void gp_peek_many(const uintptr_t *at, unsigned n, void *to, size_t size,
		  bool *ok);

static inline bool gp_peek_pointer(uintptr_t at, uintptr_t *to)
{
	return gp_peek(at, to, sizeof(*to));
}

#endif
