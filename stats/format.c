#include <stdio.h>

#include "stats/format.h"
#include "stats/report.h"

/* value / unit with two digits behind the point, rounded, in hundredths. */
static uint64_t hundredths(uint64_t value, uint64_t unit)
{
	return (uint64_t)(((unsigned __int128)value * 100 + unit / 2) / unit);
}

const char *gp_format_bytes(uint64_t bytes, char *buf, size_t size)
{
	static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
					    "TiB", "PiB", "EiB"};
	uint64_t value;
	unsigned unit = 0;

	if (bytes == GP_UNKNOWN) {
		snprintf(buf, size, "unknown");
		return buf;
	}
	if (bytes < 1024) {
		snprintf(buf, size, "%u B", (unsigned)bytes);
		return buf;
	}
	/* The rounded figure decides: 1024.00 KiB is 1.00 MiB. */
	do {
		unit++;
		value = hundredths(bytes, 1ull << (10 * unit));
	} while (value >= 102400 && unit < 6);
	snprintf(buf, size, "%u.%02u %s", (unsigned)(value / 100),
		 (unsigned)(value % 100), units[unit]);
	return buf;
}

const char *gp_format_count(uint64_t count, char *buf, size_t size)
{
	static const char *const prefixes[] = {"", " M", " G", " T"};
	unsigned groups[7], n = 0, prefix = 0;
	size_t used;

	if (count >= 10000000000ull) {
		count = count / 1000000 + (count % 1000000 >= 500000);
		prefix = 1;
	}
	while (count >= 10000000000ull && prefix < 3) {
		count = count / 1000 + (count % 1000 >= 500);
		prefix++;
	}
	do {
		groups[n++] = (unsigned)(count % 1000);
		count /= 1000;
	} while (count);
	used = (size_t)snprintf(buf, size, "%u", groups[--n]);
	while (n && used < size)
		used += (size_t)snprintf(buf + used, size - used, ",%03u",
					 groups[--n]);
	if (used < size)
		snprintf(buf + used, size - used, "%s", prefixes[prefix]);
	return buf;
}

const char *gp_format_ns(uint64_t ns, char *buf, size_t size)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	const uint64_t s = ns / 1000000000;
	uint64_t factor = 1, value;
	unsigned unit = 0;

	if (s >= 3600) {
		snprintf(buf, size, "%llu h %02u min",
			 (unsigned long long)(s / 3600),
			 (unsigned)(s % 3600 / 60));
	} else if (s >= 60) {
		snprintf(buf, size, "%u min %02u s", (unsigned)(s / 60),
			 (unsigned)(s % 60));
	} else if (ns < 1000) {
		snprintf(buf, size, "%u ns", (unsigned)ns);
	} else {
		do {
			unit++;
			factor *= 1000;
			value = hundredths(ns, factor);
		} while (value >= 100000 && unit < 3);
		snprintf(buf, size, "%u.%02u %s", (unsigned)(value / 100),
			 (unsigned)(value % 100), units[unit]);
	}
	return buf;
}

/* gmtime_r() takes the C library's time zone lock, which a forked child may
 * have inherited held. This is the civil calendar from days since 1970, by
 * years that begin in March so that the leap day comes last. */
const char *gp_format_time(uint64_t unix_ns, char *buf, size_t size)
{
	const uint64_t s = unix_ns / 1000000000;
	const unsigned days = (unsigned)(s / 86400) + 719468;
	const unsigned era = days / 146097, day_of_era = days % 146097;
	const unsigned year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 -
		 day_of_era / 146096) /
		365;
	const unsigned day_of_year =
		day_of_era -
		(365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	const unsigned month = (5 * day_of_year + 2) / 153; /* 0 is March */
	const unsigned day = day_of_year - (153 * month + 2) / 5 + 1;
	const unsigned year = era * 400 + year_of_era + (month >= 10);

	snprintf(buf, size, "%04u-%02u-%02u %02u:%02u:%02u UTC", year,
		 month < 10 ? month + 3 : month - 9, day,
		 (unsigned)(s % 86400 / 3600), (unsigned)(s % 3600 / 60),
		 (unsigned)(s % 60));
	return buf;
}

const char *gp_format_tenths(uint64_t tenths, char *buf, size_t size)
{
	snprintf(buf, size, "%llu.%u", (unsigned long long)(tenths / 10),
		 (unsigned)(tenths % 10));
	return buf;
}
