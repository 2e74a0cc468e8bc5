/*
 * Sections that the program marks: the pools' peaks go to the section in which
 * they were.
 */
#ifndef GP_SHIM_MARK_H
#define GP_SHIM_MARK_H

#include <stddef.h>

#include "stats/sections.h"

/* The program enters this section and leaves the one before; NULL or "": it
 * only leaves. 0, or -ENOSPC as gp_sections_enter(). Thread-safe. */
int gp_mark(const char *name);

/* All sections, the present one up to now, into rows[0..GP_SECTION_ROWS).
 * Returns their number. Thread-safe. */
size_t gp_mark_sections(struct gp_section_row *rows);

#endif
