/*
 * Text from outside (paths, names) on its way into a report.
 */
#ifndef GP_STATS_UTF8_H
#define GP_STATS_UTF8_H

#include <stddef.h>

/* The length in bytes of the well-formed UTF-8 sequence at text[0..len), 0 if
 * there is none (stray or missing continuation, overlong form, surrogate,
 * above U+10FFFF). len must not be 0. */
size_t gp_utf8_length(const char *text, size_t len);

#endif
