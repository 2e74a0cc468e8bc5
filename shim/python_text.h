/*
 * Names and lines of Python's code objects.
 */
#ifndef GP_SHIM_PYTHON_TEXT_H
#define GP_SHIM_PYTHON_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "shim/python_layout.h"

/* A string object as UTF-8, cut to what fits. False if it could not be read. */
bool gp_python_string(const struct gp_python_layout *layout, uintptr_t object,
		      char *text, size_t size);

/* The line of the instruction at `offset` bytes in the code; 0: not known. */
uint32_t gp_python_line(const struct gp_python_layout *layout, uintptr_t table,
			uint32_t first_line, uint64_t offset);

#endif
