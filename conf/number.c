/*
 * Numbers as people write them in a configuration.
 *
 * By hand, because strtod() reads "0,8" and refuses "0.8" under half of the
 * world's locales, and the host program may set any.
 */
#include <errno.h>
#include <stdio.h>

#include "conf/value.h"

#define BILLION 1000000000u

struct decimal {
	uint64_t whole;
	uint32_t billionths;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads at the start of `text`; returns the rest, with .at NULL if there is
 * no number. */
static struct gp_span read_decimal(struct gp_span text, struct decimal *number)
{
	const struct gp_span none = {NULL, 0};
	uint64_t whole = 0;
	uint32_t billionths = 0, scale = BILLION;
	size_t i = 0;

	if (!text.len || !is_digit(text.at[0]))
		return none;
	for (; i < text.len && is_digit(text.at[i]); i++) {
		if (__builtin_mul_overflow(whole, 10u, &whole) ||
		    __builtin_add_overflow(whole, text.at[i] - '0', &whole))
			return none;
	}
	if (i < text.len && text.at[i] == '.') {
		i++;
		if (i == text.len || !is_digit(text.at[i]))
			return none;
		for (; i < text.len && is_digit(text.at[i]); i++) {
			if (scale == 1)
				return none;
			scale /= 10;
			billionths += scale * (uint32_t)(text.at[i] - '0');
		}
	}
	number->whole = whole;
	number->billionths = billionths;
	return (struct gp_span){text.at + i, text.len - i};
}

int gp_whole_read(struct gp_span text, uint64_t *number)
{
	struct decimal decimal;
	struct gp_span rest;

	for (size_t i = 0; i < text.len; i++) {
		if (!is_digit(text.at[i]))
			return -EINVAL;
	}
	rest = read_decimal(text, &decimal);
	if (!rest.at)
		return text.len ? -ERANGE : -EINVAL;
	*number = decimal.whole;
	return 0;
}

/* number * unit, rounded down; -ERANGE if it does not fit. */
static int scale(struct decimal number, uint64_t unit, uint64_t *result)
{
	unsigned __int128 value = (unsigned __int128)number.whole * unit;

	value += (unsigned __int128)number.billionths * unit / BILLION;
	if (value > UINT64_MAX)
		return -ERANGE;
	*result = (uint64_t)value;
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static int scaled_read(struct gp_span text, const struct unit *units,
		       size_t count, uint64_t *result)
{
	struct decimal number;
	struct gp_span rest = read_decimal(text, &number);

	if (!rest.at)
		return -EINVAL;
	rest = gp_span_trim(rest);
	for (size_t i = 0; i < count; i++) {
		if (gp_span_is_nocase(rest, units[i].name))
			return scale(number, units[i].factor, result);
	}
	return -EINVAL;
}

/* MB is 2^20 like MiB: the keys that end in _mb have meant that from the
 * beginning, and 512 and 512MB should not differ. */
int gp_bytes_read(struct gp_span text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1},
		{"b", 1},
		{"k", 1ull << 10},
		{"kb", 1ull << 10},
		{"kib", 1ull << 10},
		{"m", 1ull << 20},
		{"mb", 1ull << 20},
		{"mib", 1ull << 20},
		{"g", 1ull << 30},
		{"gb", 1ull << 30},
		{"gib", 1ull << 30},
		{"t", 1ull << 40},
		{"tb", 1ull << 40},
		{"tib", 1ull << 40},
	};

	return scaled_read(text, units, sizeof(units) / sizeof(units[0]),
			   bytes);
}

int gp_size_read(struct gp_span text, uint64_t *bytes)
{
	struct decimal number;
	struct gp_span unit = read_decimal(text, &number);

	if (unit.at && !gp_span_trim(unit).len)
		return scale(number, 1ull << 20, bytes);
	return gp_bytes_read(text, bytes);
}

int gp_ms_read(struct gp_span text, uint64_t *ms)
{
	static const struct unit units[] = {{"", 1}, {"ms", 1}, {"s", 1000}};

	return scaled_read(text, units, sizeof(units) / sizeof(units[0]), ms);
}

int gp_double_read(struct gp_span text, double *number)
{
	struct decimal decimal;
	struct gp_span rest = read_decimal(text, &decimal);

	if (!rest.at || rest.len)
		return -EINVAL;
	*number = (double)decimal.whole +
		  (double)decimal.billionths / (double)BILLION;
	return 0;
}

void gp_size_print(uint64_t bytes, char *buf, size_t size)
{
	static const struct unit units[] = {
		{"TiB", 1ull << 40},
		{"GiB", 1ull << 30},
		{"MiB", 1ull << 20},
		{"KiB", 1ull << 10},
		{"B", 1},
	};
	const struct unit *unit = units;

	while (unit->factor > 1 && (bytes == 0 || bytes % unit->factor))
		unit++;
	snprintf(buf, size, "%llu%s",
		 (unsigned long long)(bytes / unit->factor), unit->name);
}

/* Nine decimals are all that gp_double_read() takes, so this prints what was
 * read. */
void gp_double_print(double number, char *buf, size_t size)
{
	uint64_t billionths = (uint64_t)(number * BILLION + 0.5);
	char digits[10];
	int len;

	len = snprintf(digits, sizeof(digits), "%09u",
		       (unsigned)(billionths % BILLION));
	while (len > 1 && digits[len - 1] == '0')
		digits[--len] = '\0';
	snprintf(buf, size, "%llu.%s",
		 (unsigned long long)(billionths / BILLION), digits);
}
