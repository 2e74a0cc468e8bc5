#define _GNU_SOURCE
#include "shim/wide.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)

/* In wide.S: calls function(arg) with the stack pointer at `top`, which is
 * aligned to 16 bytes. */
void gp_call_on(void (*function)(void *), void *arg, void *top);

/* Sanitizers know of a thread's own stack only. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static __thread bool is_wide;

/* NULL: no memory. Below it lies a page that is no memory. */
static char *make(size_t guard)
{
	char *stack = mmap(NULL, guard + STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return NULL;
	mprotect(stack, guard, PROT_NONE);
	return stack;
}

__attribute__((noinline, cold)) void gp_wide(void (*function)(void *),
					     void *arg)
{
	const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
	char *stack = is_wide ? NULL : make(guard);
	int left;

	if (!stack) {
		function(arg);
		return;
	}
	is_wide = true;
	gp_call_on(function, arg, stack + guard + STACK_BYTES);
	is_wide = false;
	left = errno;
	munmap(stack, guard + STACK_BYTES);
	errno = left;
}

#else

void gp_wide(void (*function)(void *), void *arg)
{
	function(arg);
}

#endif
