/*
 * Limits by device: one value for all of them, or a list by ordinal.
 *
 * In a list each device stands once, in any order; ">", at the end, stands for
 * all above the highest. What no entry names has no limit.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"

/* A slot as its bits: both kinds of value have 64. */
static uint64_t bits_of(double share)
{
	uint64_t bits;

	memcpy(&bits, &share, sizeof(bits));
	return bits;
}

static uint64_t no_limit(const struct gp_conf_row *row)
{
	return row->type == GP_TYPE_SHARES ? bits_of(1.0) : UINT64_MAX;
}

static int slot_read(const struct gp_conf_row *row, struct gp_span text,
		     uint64_t *slot)
{
	double share;
	int error;

	if (row->type == GP_TYPE_LIMITS)
		return gp_limit_read(row, text, slot);
	error = gp_share_read(text, &share);
	if (!error)
		*slot = bits_of(share);
	return error;
}

static void slot_print(const struct gp_conf_row *row, uint64_t slot, char *buf,
		       size_t size)
{
	double share;

	if (row->type == GP_TYPE_LIMITS) {
		gp_limit_print(slot, buf, size);
		return;
	}
	memcpy(&share, &slot, sizeof(share));
	gp_double_print(share, buf, size);
}

struct list {
	uint64_t slots[GP_CONF_DEVICES];
	bool named[GP_CONF_DEVICES];
	size_t above; /* one more than the highest device named */
	bool closed;  /* ">" was read */
};

static int entry_read(const struct gp_conf_row *row, struct gp_span entry,
		      struct list *list)
{
	const char *colon = memchr(entry.at, ':', entry.len);
	struct gp_span key, value;
	uint64_t device, slot;
	int error;

	if (!colon || list->closed)
		return -EINVAL;
	key = gp_span_trim((struct gp_span){entry.at, colon - entry.at});
	value = gp_span_trim((struct gp_span){
		colon + 1, entry.len - (size_t)(colon + 1 - entry.at)});
	error = slot_read(row, value, &slot);
	if (error)
		return error;
	if (gp_span_is(key, ">")) {
		for (size_t i = list->above; i < GP_CONF_DEVICES; i++)
			list->slots[i] = slot;
		list->closed = true;
		return 0;
	}
	error = gp_whole_read(key, &device);
	if (error)
		return error;
	if (device >= GP_CONF_DEVICES)
		return -ERANGE;
	if (list->named[device])
		return -EINVAL;
	list->named[device] = true;
	list->slots[device] = slot;
	if (device >= list->above)
		list->above = device + 1;
	return 0;
}

static int list_read(const struct gp_conf_row *row, struct gp_span text,
		     struct list *list)
{
	struct gp_span entry;
	int error = 0;

	while (!error && gp_list_next(&text, &entry))
		error = entry_read(row, entry, list);
	return error;
}

static void fill(struct list *list, uint64_t slot)
{
	for (size_t i = 0; i < GP_CONF_DEVICES; i++)
		list->slots[i] = slot;
}

int gp_devices_read(const struct gp_conf_row *row, struct gp_span text,
		    void *slots)
{
	struct list list = {.above = 0};
	uint64_t all = 0;
	int error;

	if (gp_list_open(&text)) {
		fill(&list, no_limit(row));
		error = list_read(row, text, &list);
	} else {
		error = slot_read(row, text, &all);
		fill(&list, all);
	}
	if (!error)
		memcpy(slots, list.slots, sizeof(list.slots));
	return error;
}

/* Devices without a limit are left out, but for the one below ">". */
void gp_devices_print(const struct gp_conf_row *row, const void *slots,
		      char *buf, size_t size)
{
	const uint64_t none = no_limit(row);
	uint64_t slot[GP_CONF_DEVICES];
	size_t tail = GP_CONF_DEVICES - 1, used;
	char value[32];

	memcpy(slot, slots, sizeof(slot));
	while (tail && slot[tail - 1] == slot[GP_CONF_DEVICES - 1])
		tail--;
	if (!tail) {
		slot_print(row, slot[0], buf, size);
		return;
	}
	used = (size_t)snprintf(buf, size, "[");
	for (size_t i = 0; i < tail && used < size; i++) {
		if (slot[i] == none && (slot[tail] == none || i + 1 < tail))
			continue;
		slot_print(row, slot[i], value, sizeof(value));
		used += (size_t)snprintf(buf + used, size - used, "%s%zu:%s",
					 used > 1 ? "," : "", i, value);
	}
	if (slot[tail] != none && used < size) {
		slot_print(row, slot[tail], value, sizeof(value));
		used += (size_t)snprintf(buf + used, size - used, ",>:%s",
					 value);
	}
	if (used < size)
		snprintf(buf + used, size - used, "]");
}
