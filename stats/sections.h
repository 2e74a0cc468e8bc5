/*
 * Sections of a program's run, named by the program, and the highest that each
 * took of a device's memory. One at a time in the whole process.
 *
 * All functions are thread-safe: the lock inside is taken last of all, and for
 * a few instructions.
 */
#ifndef GP_STATS_SECTIONS_H
#define GP_STATS_SECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_SECTIONS     64  /* different names */
#define GP_SECTION_ROWS 128 /* names by device */
#define GP_SECTION_NAME 48  /* bytes of a name, the final 0 included */

struct gp_section_row {
	char name[GP_SECTION_NAME];
	int device;
	bool open;                    /* the program is in it */
	uint64_t times;               /* entered */
	uint64_t ns;                  /* spent in it, all times together */
	uint64_t allocated, reserved; /* highest, bytes */
};

/* The present section ends and this one begins, or goes on if there was one of
 * that name; NULL or "": none begins. Names are copied, long ones cut. 0, or
 * -ENOSPC when there are GP_SECTIONS names already: none begins then. */
int gp_sections_enter(const char *name, uint64_t now_ns);

/* In the present section, if there is one, a device's memory was this high. */
void gp_sections_note(int device, uint64_t allocated, uint64_t reserved);

/* All rows into rows[0..GP_SECTION_ROWS), in order of first use. */
size_t gp_sections_get(struct gp_section_row *rows, uint64_t now_ns);

#endif
