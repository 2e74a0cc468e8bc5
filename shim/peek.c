/* Careful reading; see peek.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "shim/peek.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096u
#define KEPT 8u /* pages */
#define MANY 64u

/* Guarded by the lock of stacks.c. */
static struct {
	uintptr_t at; /* 0: none */
	char data[PAGE];
} pages[KEPT];
static unsigned next; /* to be replaced */

void gp_peek_forget(void)
{
	for (unsigned i = 0; i < KEPT; i++)
		pages[i].at = 0;
}

static bool copy(uintptr_t at, void *to, size_t size)
{
	struct iovec local = {to, size}, remote = {(void *)at, size};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) ==
	       (ssize_t)size;
}

static const char *page_of(uintptr_t at)
{
	unsigned i;

	for (i = 0; i < KEPT; i++)
		if (pages[i].at == at)
			return pages[i].data;
	i = next++ % KEPT;
	pages[i].at = 0;
	if (!copy(at, pages[i].data, PAGE))
		return NULL;
	pages[i].at = at;
	return pages[i].data;
}

bool gp_peek(uintptr_t at, void *to, size_t size)
{
	while (size) {
		uintptr_t page = at / PAGE * PAGE;
		size_t part = PAGE - (at - page);
		const char *data;

		if (!page || at + size < at)
			return false;
		if (part > size)
			part = size;
		data = page_of(page);
		if (!data)
			return false;
		memcpy(to, data + (at - page), part);
		at += part;
		to = (char *)to + part;
		size -= part;
	}
	return true;
}

void gp_peek_many(const uintptr_t *at, unsigned n, void *to, size_t size,
		  bool *ok)
{
	struct iovec local = {to, n * size}, remote[MANY];

	for (unsigned i = 0; i < n; i++) {
		remote[i] = (struct iovec){(void *)at[i], size};
		ok[i] = true;
	}
	if (process_vm_readv(getpid(), &local, 1, remote, n, 0) ==
	    (ssize_t)(n * size))
		return;
	for (unsigned i = 0; i < n; i++)
		ok[i] = copy(at[i], (char *)to + i * size, size);
}
