/*
 * Names of report files.
 */
#ifndef GP_STATS_REPORT_NAME_H
#define GP_STATS_REPORT_NAME_H

#include <stddef.h>
#include <stdint.h>

#define GP_REPORT_BASE 192 /* room for a name without .exit.txt */

/* What the letters of a pattern stand for. */
struct gp_report_words {
	const char *exe;  /* %e, a path or a name */
	int pid;          /* %p */
	const char *host; /* %h; NULL, "": not known */
	const char *rank; /* %r; NULL, "": the process has none */
	uint64_t unix_ns; /* %t */
};

/* `pattern` with its letters replaced, by what is safe in a file's name. */
void gp_report_name(const char *pattern, const struct gp_report_words *words,
		    char base[GP_REPORT_BASE]);

/* The executable's name without directories, " (deleted)" dropped; "unknown" if
 * there is none. */
const char *gp_report_exe(const char *exe, char *buf, size_t size);

/* Of the reports in a directory, the newest `files` are kept, and no more than
 * `bytes` of them. Looks at a bounded number. Preserves errno. */
void gp_report_keep(int dir, uint64_t files, uint64_t bytes);

#endif
