/*
 * One line on stderr: "gpupool: message". Through a fixed buffer and one
 * write(2), so that it is safe anywhere, also in a signal handler when the
 * format uses only %s %d %u %x %llu; a closed stderr is no error. errno is
 * preserved.
 * Rate-limited: at most GP_LOG_MAX lines a process, the last says so. A few of
 * them are kept for gp_note(), so that warnings do not use up the summary.
 */
#ifndef GP_STATS_LOG_H
#define GP_STATS_LOG_H

#include <stdbool.h>

#define GP_LOG_MAX 100

/* Something a person must know: a bad setting, an internal failure. */
void gp_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A courtesy (a report was written); nothing when quiet. */
void gp_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The summary at exit: as gp_note, once a process, beyond every limit. */
void gp_note_last(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* quiet: gp_note says nothing. Any thread, any time. */
void gp_log_quiet(bool quiet);

#endif
