/*
 * JSON: two spaces a level, one member a line, so that two reports can be
 * compared with diff.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stats/emit_impl.h"
#include "stats/utf8.h"

static void new_line(struct gp_emit *emit)
{
	gp_emit_put(emit, "\n", 1);
	for (unsigned i = 0; i < emit->depth; i++)
		gp_emit_put(emit, "  ", 2);
}

void gp_json_key(struct gp_emit *emit, const char *key)
{
	if (emit->comma)
		gp_emit_put(emit, ",", 1);
	if (emit->depth)
		new_line(emit);
	if (key) {
		gp_json_string(emit, key);
		gp_emit_put(emit, ": ", 2);
	}
	emit->comma = true;
}

/* Calls that do not pair are a mistake of ours; the host must not die of it,
 * and no broken report may be written. */
static void fail(struct gp_emit *emit)
{
	if (!emit->error)
		emit->error = -EPROTO;
}

static void open(struct gp_emit *emit, const char *key, bool is_list)
{
	if (!emit->json)
		return;
	if (emit->depth == GP_EMIT_MAX_DEPTH) {
		fail(emit);
		return;
	}
	gp_json_key(emit, key);
	gp_emit_puts(emit, is_list ? "[" : "{");
	emit->is_list[emit->depth++] = is_list;
	emit->comma = false;
}

void gp_emit_object(struct gp_emit *emit, const char *key)
{
	open(emit, key, false);
}

void gp_emit_list(struct gp_emit *emit, const char *key)
{
	open(emit, key, true);
}

void gp_emit_close(struct gp_emit *emit)
{
	const bool empty = !emit->comma;

	if (!emit->json)
		return;
	if (!emit->depth) {
		fail(emit);
		return;
	}
	emit->depth--;
	if (!empty)
		new_line(emit);
	gp_emit_puts(emit, emit->is_list[emit->depth] ? "]" : "}");
	if (!emit->depth)
		gp_emit_put(emit, "\n", 1);
	emit->comma = true;
}

static void escape(struct gp_emit *emit, char c)
{
	char buf[8];

	switch (c) {
	case '"':
		gp_emit_puts(emit, "\\\"");
		break;
	case '\\':
		gp_emit_puts(emit, "\\\\");
		break;
	case '\n':
		gp_emit_puts(emit, "\\n");
		break;
	case '\t':
		gp_emit_puts(emit, "\\t");
		break;
	default:
		snprintf(buf, sizeof(buf), "\\u%04x", (unsigned char)c);
		gp_emit_puts(emit, buf);
	}
}

void gp_json_string(struct gp_emit *emit, const char *text)
{
	size_t len = strlen(text);

	gp_emit_put(emit, "\"", 1);
	while (len) {
		size_t part = gp_utf8_length(text, len);

		if (!part) {
			gp_emit_puts(emit, "\\ufffd");
			part = 1;
		} else if ((unsigned char)*text < ' ' || *text == '"' ||
			   *text == '\\' || *text == 0x7f) {
			escape(emit, *text);
		} else {
			gp_emit_put(emit, text, part);
		}
		text += part;
		len -= part;
	}
	gp_emit_put(emit, "\"", 1);
}
