/*
 * Figures as a person reads them. Integer arithmetic only, no locale, no
 * allocation; gp_format_bytes() is in report.h. Each returns buf.
 */
#ifndef GP_STATS_FORMAT_H
#define GP_STATS_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* Long enough for any of them. */
#define GP_FORMAT_MAX 32

/* "1,234,567"; from ten thousand million on "12,346 M". */
const char *gp_format_count(uint64_t count, char *buf, size_t size);
/* "123 ns", "4.56 us", "78.90 ms", "12.34 s", "3 min 05 s", "2 h 03 min" */
const char *gp_format_ns(uint64_t ns, char *buf, size_t size);
/* "2025-11-02 10:11:12 UTC" */
const char *gp_format_time(uint64_t unix_ns, char *buf, size_t size);
/* "12.3" from 123 */
const char *gp_format_tenths(uint64_t tenths, char *buf, size_t size);

#endif
