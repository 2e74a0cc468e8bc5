/*
 * roundup_power2_divisions: one number for all sizes, or a list by size.
 *
 * Slot k stands for requests of [2^k, 2^(k+1)) MiB. In a list, the first key
 * also fills every slot below its own, ">" every slot above the last key, and
 * what no key names stays off: PyTorch's reading of the same text.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"

#define MAX_DIVISIONS 65536u

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static int count_read(struct gp_span text, uint32_t *divisions)
{
	uint64_t number;
	int error = gp_whole_read(text, &number);

	if (error)
		return error;
	if (number > MAX_DIVISIONS)
		return -ERANGE;
	if (number && !is_power_of_two(number))
		return -EINVAL;
	*divisions = (uint32_t)number;
	return 0;
}

static void fill(uint32_t *slots, size_t from, size_t to, uint32_t divisions)
{
	for (size_t i = from; i < to; i++)
		slots[i] = divisions;
}

/* One "key:divisions" of a list. *next is the slot after the last key's; a
 * ">" closes the list by setting it past the end. */
static int entry_read(struct gp_span entry, uint32_t *slots, size_t *next)
{
	const char *colon = memchr(entry.at, ':', entry.len);
	struct gp_span key, value;
	uint32_t divisions = 0;
	uint64_t mib = 0;
	size_t slot;
	int error;

	if (!colon || *next > GP_CONF_DIVISIONS)
		return -EINVAL;
	key = gp_span_trim((struct gp_span){entry.at, colon - entry.at});
	value = gp_span_trim((struct gp_span){
		colon + 1, entry.len - (size_t)(colon + 1 - entry.at)});
	error = count_read(value, &divisions);
	if (error)
		return error;
	if (gp_span_is(key, ">")) {
		fill(slots, *next, GP_CONF_DIVISIONS, divisions);
		*next = GP_CONF_DIVISIONS + 1;
		return 0;
	}
	error = gp_whole_read(key, &mib);
	if (error)
		return error;
	if (!is_power_of_two(mib))
		return -EINVAL;
	slot = (size_t)__builtin_ctzll(mib);
	if (slot >= GP_CONF_DIVISIONS)
		return -ERANGE;
	if (slot < *next)
		return -EINVAL; /* keys rise, each once */
	fill(slots, *next ? slot : 0, slot + 1, divisions);
	*next = slot + 1;
	return 0;
}

static int list_read(struct gp_span list, uint32_t *slots)
{
	struct gp_span entry;
	size_t next = 0;
	int error = 0;

	while (!error && gp_list_next(&list, &entry))
		error = entry_read(entry, slots, &next);
	return error;
}

int gp_divisions_read(struct gp_span text, uint32_t *slots)
{
	uint32_t read[GP_CONF_DIVISIONS] = {0};
	int error = 0;

	if (gp_span_is_nocase(text, "off")) {
		/* all zero */
	} else if (gp_list_open(&text)) {
		error = list_read(text, read);
	} else {
		error = count_read(text, &read[0]);
		fill(read, 1, GP_CONF_DIVISIONS, read[0]);
	}
	if (!error)
		memcpy(slots, read, sizeof(read));
	return error;
}

/* The shortest list that reads back: the first key as high as it can stand
 * for all below, slots that are off left out, ">" for an even end (which must
 * follow its last other slot, so that one is named even if off). */
void gp_divisions_print(const uint32_t *slots, char *buf, size_t size)
{
	size_t first = 0, last = GP_CONF_DIVISIONS - 1, used;
	const uint32_t end = slots[GP_CONF_DIVISIONS - 1];

	while (first < last && slots[first + 1] == slots[0])
		first++;
	if (first == last) {
		if (slots[0])
			snprintf(buf, size, "%u", slots[0]);
		else
			snprintf(buf, size, "off");
		return;
	}
	while (slots[last - 1] == end)
		last--;
	used = (size_t)snprintf(buf, size, "[");
	for (size_t i = first; i < last && used < size; i++) {
		if (i == first || slots[i] || (end && i == last - 1))
			used += (size_t)snprintf(
				buf + used, size - used, "%s%u:%u",
				i > first ? "," : "", 1u << i, slots[i]);
	}
	if (used < size && end)
		used += (size_t)snprintf(buf + used, size - used, ",>:%u", end);
	if (used < size)
		snprintf(buf + used, size - used, "]");
}
