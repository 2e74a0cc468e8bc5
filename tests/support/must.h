/*
 * For programs of the driver API: calls that must succeed, or the program says
 * which one did not and ends.
 */
#ifndef GP_TESTS_MUST_H
#define GP_TESTS_MUST_H

#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

static inline void must(CUresult rc, const char *what)
{
	if (rc == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", what, (int)rc);
	exit(1);
}

#define MUST(call) must(call, #call)

#endif
