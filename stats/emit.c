#include <stdio.h>
#include <string.h>

#include "stats/emit_impl.h"
#include "stats/format.h"
#include "stats/output.h"
#include "stats/report.h"

/* What fits, and how much it was. */
static void keep(struct gp_emit *emit)
{
	size_t room = emit->length < emit->room ? emit->room - emit->length : 0;

	if (room)
		memcpy(emit->text + emit->length, emit->buf,
		       emit->used < room ? emit->used : room);
	emit->length += emit->used;
}

static void flush(struct gp_emit *emit)
{
	if (emit->in_memory)
		keep(emit);
	else if (!emit->error && emit->used)
		emit->error = gp_write_all(emit->fd, emit->buf, emit->used);
	emit->used = 0;
}

void gp_emit_put(struct gp_emit *emit, const char *data, size_t len)
{
	while (len) {
		size_t room = sizeof(emit->buf) - emit->used;
		const size_t part = len < room ? len : room;

		memcpy(emit->buf + emit->used, data, part);
		emit->used += part;
		data += part;
		len -= part;
		if (emit->used == sizeof(emit->buf))
			flush(emit);
	}
}

void gp_emit_puts(struct gp_emit *emit, const char *text)
{
	gp_emit_put(emit, text, strlen(text));
}

void gp_emit_init(struct gp_emit *emit, int fd, bool json)
{
	memset(emit, 0, sizeof(*emit));
	emit->fd = fd;
	emit->json = json;
}

void gp_emit_init_memory(struct gp_emit *emit, char *text, size_t size,
			 bool json)
{
	gp_emit_init(emit, -1, json);
	emit->in_memory = true;
	emit->text = text;
	emit->room = size;
}

long gp_emit_finish_memory(struct gp_emit *emit)
{
	flush(emit);
	if (emit->room)
		emit->text[emit->length < emit->room ? emit->length
						     : emit->room - 1] = '\0';
	return emit->error ? emit->error : (long)emit->length;
}

int gp_emit_finish(struct gp_emit *emit)
{
	flush(emit);
	return emit->error;
}

uint64_t gp_percent(uint64_t part, uint64_t whole)
{
	if (!whole)
		return GP_UNKNOWN;
	return (uint64_t)(((unsigned __int128)part * 1000 + whole / 2) / whole);
}

static const char *text_number(enum gp_unit unit, uint64_t value, char *buf,
			       size_t size)
{
	switch (unit) {
	case GP_UNIT_BYTES:
		return gp_format_bytes(value, buf, size);
	case GP_UNIT_COUNT:
		return gp_format_count(value, buf, size);
	case GP_UNIT_NS:
		return gp_format_ns(value, buf, size);
	case GP_UNIT_TIME:
		return gp_format_time(value, buf, size);
	case GP_UNIT_PERCENT:
		if (value == GP_UNKNOWN)
			return "-";
		gp_format_tenths(value, buf, size - 2);
		return strcat(buf, " %");
	case GP_UNIT_ADDRESS:
		snprintf(buf, size, "0x%llx", (unsigned long long)value);
		return buf;
	case GP_UNIT_PLAIN:
		break;
	}
	snprintf(buf, size, "%llu", (unsigned long long)value);
	return buf;
}

static void json_number(struct gp_emit *emit, enum gp_unit unit, uint64_t value)
{
	char buf[GP_FORMAT_MAX];

	if (value == GP_UNKNOWN &&
	    (unit == GP_UNIT_BYTES || unit == GP_UNIT_PERCENT)) {
		gp_emit_puts(emit, "null");
	} else if (unit == GP_UNIT_PERCENT) {
		gp_emit_puts(emit, gp_format_tenths(value, buf, sizeof(buf)));
	} else if (unit == GP_UNIT_ADDRESS) {
		gp_json_string(emit,
			       text_number(unit, value, buf, sizeof(buf)));
	} else {
		snprintf(buf, sizeof(buf), "%llu", (unsigned long long)value);
		gp_emit_puts(emit, buf);
	}
}

void gp_emit_number(struct gp_emit *emit, const char *key, enum gp_unit unit,
		    uint64_t value)
{
	if (emit->json) {
		gp_json_key(emit, key);
		json_number(emit, unit, value);
	} else {
		gp_emit_again(emit, unit, value);
	}
}

void gp_emit_numbers(struct gp_emit *emit, const char *key,
		     const uint64_t *values, size_t n, size_t step)
{
	if (!emit->json)
		return;
	gp_json_key(emit, key);
	gp_emit_puts(emit, "[");
	for (size_t i = 0; i < n; i++) {
		if (i)
			gp_emit_puts(emit, ", ");
		json_number(emit, GP_UNIT_PLAIN, values[i * step]);
	}
	gp_emit_puts(emit, "]");
}

void gp_emit_again(struct gp_emit *emit, enum gp_unit unit, uint64_t value)
{
	char buf[GP_FORMAT_MAX];

	if (!emit->json)
		gp_text_value(emit, text_number(unit, value, buf, sizeof(buf)));
}

void gp_emit_string(struct gp_emit *emit, const char *key, const char *value)
{
	if (emit->json) {
		gp_json_key(emit, key);
		gp_json_string(emit, value);
	} else {
		gp_text_value(emit, value);
	}
}

void gp_emit_bool(struct gp_emit *emit, const char *key, bool value)
{
	if (emit->json) {
		gp_json_key(emit, key);
		gp_emit_puts(emit, value ? "true" : "false");
	} else {
		gp_text_value(emit, value ? "yes" : "no");
	}
}
