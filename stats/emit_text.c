/*
 * The page: running words that wrap, and rows of right-aligned columns.
 */
#include <string.h>

#include "stats/emit_impl.h"
#include "stats/utf8.h"

/* Room for a full stop behind the last word. */
#define WRAP (GP_EMIT_WIDTH - 1)

static bool shown(const struct gp_emit *emit)
{
	return !emit->json && !emit->hidden;
}

static void new_line(struct gp_emit *emit)
{
	gp_emit_put(emit, "\n", 1);
	emit->column = 0;
}

static void pad_to(struct gp_emit *emit, unsigned column)
{
	while (emit->column < column) {
		gp_emit_put(emit, " ", 1);
		emit->column++;
	}
}

static void break_line(struct gp_emit *emit)
{
	new_line(emit);
	pad_to(emit, emit->indent);
}

/* Columns that text[0..len) takes: one a character, as terminals show nearly
 * all of them. */
static unsigned width(const char *text, size_t len)
{
	unsigned columns = 0;

	while (len) {
		const size_t part = gp_utf8_length(text, len);

		columns++;
		text += part ? part : 1;
		len -= part ? part : 1;
	}
	return columns;
}

/* Characters as they are, except those that would spoil the page. What is
 * longer than a line is cut into lines. */
static void put_word(struct gp_emit *emit, const char *text, size_t len)
{
	while (len) {
		size_t part = gp_utf8_length(text, len);

		if (emit->column == GP_EMIT_WIDTH)
			break_line(emit);
		if (!part)
			gp_emit_puts(emit, "\xef\xbf\xbd"); /* U+FFFD */
		else if ((unsigned char)*text < ' ' || *text == 0x7f)
			gp_emit_put(emit, "?", 1);
		else
			gp_emit_put(emit, text, part);
		emit->column++;
		part += !part;
		text += part;
		len -= part;
	}
}

static void word(struct gp_emit *emit, const char *text, size_t len,
		 bool attach)
{
	const unsigned columns = width(text, len) + emit->open;

	/* It stays on one line with what is in it. */
	if (len == 1 && *text == '(') {
		emit->open = true;
		return;
	}
	if (!attach && emit->column > emit->indent) {
		if (emit->column + 1 + columns > WRAP)
			break_line(emit);
		else
			pad_to(emit, emit->column + 1);
	} else if (emit->column < emit->indent) {
		pad_to(emit, emit->indent);
	}
	if (emit->open)
		put_word(emit, "(", 1);
	emit->open = false;
	put_word(emit, text, len);
}

void gp_emit_words(struct gp_emit *emit, const char *words)
{
	bool attach = *words && strchr(",.;:)", *words);

	if (!shown(emit))
		return;
	while (*words) {
		const size_t len = strcspn(words, " ");

		if (len)
			word(emit, words, len, attach);
		attach = false;
		words += len;
		words += *words == ' ';
	}
}

/* At least one space before it, even if it is wider than its column. */
static void cell(struct gp_emit *emit, const char *text)
{
	const size_t len = strlen(text);
	const unsigned columns = width(text, len);

	pad_to(emit, emit->edge);
	emit->edge += emit->cell;
	if (emit->column + 1 + columns < emit->edge)
		pad_to(emit, emit->edge - columns);
	else
		pad_to(emit, emit->column + 1);
	put_word(emit, text, len);
}

void gp_text_value(struct gp_emit *emit, const char *text)
{
	if (!shown(emit))
		return;
	if (emit->in_row)
		cell(emit, text);
	else
		word(emit, text, strlen(text), false);
}

void gp_emit_cell(struct gp_emit *emit, const char *text)
{
	if (shown(emit))
		cell(emit, text);
}

void gp_emit_row(struct gp_emit *emit, const char *label, unsigned label_width,
		 unsigned cell_width)
{
	if (!shown(emit))
		return;
	if (emit->column)
		new_line(emit);
	emit->in_row = true;
	emit->edge = label_width;
	emit->cell = cell_width;
	put_word(emit, label, strlen(label));
}

void gp_emit_line(struct gp_emit *emit)
{
	if (!shown(emit))
		return;
	if (emit->column)
		new_line(emit);
	emit->in_row = false;
	emit->open = false;
	emit->indent = 0;
}

void gp_emit_gap(struct gp_emit *emit)
{
	if (!shown(emit))
		return;
	gp_emit_line(emit);
	new_line(emit);
}

void gp_emit_item(struct gp_emit *emit, const char *bullet)
{
	if (!shown(emit))
		return;
	gp_emit_line(emit);
	put_word(emit, bullet, strlen(bullet));
	emit->indent = emit->column + 1;
}

void gp_emit_tab(struct gp_emit *emit, unsigned column)
{
	if (!shown(emit))
		return;
	pad_to(emit, emit->column < column ? column : emit->column + 1);
	emit->indent = emit->column;
}

void gp_emit_heading(struct gp_emit *emit, const char *text)
{
	if (!shown(emit))
		return;
	gp_emit_gap(emit);
	put_word(emit, text, strlen(text));
	new_line(emit);
	for (size_t i = width(text, strlen(text)); i; i--)
		gp_emit_put(emit, "-", 1);
	new_line(emit);
}

void gp_emit_hide(struct gp_emit *emit, bool hidden)
{
	emit->hidden = hidden;
}
