/* Strings and line tables; see python_text.h. */
#include "shim/python_text.h"

#include <string.h>

#include "shim/peek.h"

/* ---- strings --------------------------------------------------------------------- */

static size_t put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* What a name may not hold in a line of text. */
static bool is_plain(uint32_t c)
{
	return c >= ' ' && c != 0x7f && c < 0x110000 &&
	       !(c >= 0xd800 && c < 0xe000);
}

bool gp_python_string(const struct gp_python_layout *layout, uintptr_t object,
		      char *text, size_t size)
{
	size_t head = layout->text_size, used = 0;
	uint32_t state, c;
	uint64_t length;
	unsigned kind;

	text[0] = '\0';
	if (!gp_peek(object + layout->text_length, &length, sizeof(length)) ||
	    !gp_peek(object + layout->text_state, &state, sizeof(state)))
		return false;
	state >>= layout->text_shift;
	kind = state & 7;
	if (!(state & 8) || (kind != 1 && kind != 2 && kind != 4))
		return false; /* not compact: none that a compiler makes */
	if (!(state & 16))
		head += layout->text_more; /* other forms, kept apart */
	for (uint64_t i = 0; i < length && used + 5 < size; i++) {
		c = 0;
		if (!gp_peek(object + head + i * kind, &c, kind))
			return false;
		used += put_utf8(text + used, is_plain(c) ? c : '?');
	}
	text[used] = '\0';
	return true;
}

/* ---- lines ----------------------------------------------------------------------- */

/* Of the largest functions: a table is read in pieces. */
#define MAX_TABLE (1u << 20)

struct table {
	uintptr_t at;
	uint64_t size, next;
	uint64_t from, have; /* of what is in `piece` */
	uint8_t piece[256];
};

static bool more(const struct table *t)
{
	return t->next < t->size;
}

/* The next byte, which stays the next; 0 past the end. Where memory cannot be
 * read the table ends. */
static uint8_t look(struct table *t)
{
	uint64_t at = t->next, n = t->size - at;

	if (!more(t))
		return 0;
	if (at >= t->from + t->have) {
		if (n > sizeof(t->piece))
			n = sizeof(t->piece);
		t->from = at;
		t->have = n;
		if (!gp_peek(t->at + at, t->piece, n)) {
			t->size = t->next;
			return 0;
		}
	}
	return t->piece[at - t->from];
}

static uint8_t get(struct table *t)
{
	uint8_t byte = look(t);

	t->next += more(t);
	return byte;
}

static uint32_t varint(struct table *t)
{
	uint32_t value = 0, byte;
	unsigned shift = 0;

	do {
		byte = get(t);
		if (shift < 32)
			value |= (byte & 63) << shift;
		shift += 6;
	} while ((byte & 64) && more(t));
	return value;
}

static int32_t signed_varint(struct table *t)
{
	uint32_t value = varint(t);

	return value & 1 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

/* Pairs: this many bytes of code further on, so many lines further on. */
static int64_t by_lnotab(struct table *t, int64_t line, uint64_t offset)
{
	uint64_t at = 0;

	while (more(t)) {
		at += get(t);
		if (at > offset)
			break;
		line += (int8_t)get(t);
	}
	return line;
}

/* Pairs: the next so many bytes of code are so many lines further on. */
static int64_t by_linetable(struct table *t, int64_t line, uint64_t offset)
{
	uint64_t end = 0;

	while (more(t)) {
		int8_t step;

		end += get(t);
		step = (int8_t)get(t);
		if (step != -128)
			line += step;
		if (end > offset)
			return step == -128 ? 0 : line;
	}
	return 0;
}

/* Entries of a kind, a number of instructions and what the kind asks for. */
static int64_t by_locations(struct table *t, int64_t line, uint64_t offset)
{
	uint64_t end = 0;

	while (more(t)) {
		uint8_t head = get(t);
		unsigned kind = head >> 3 & 15;

		end += 2 * ((head & 7) + 1ull);
		if (kind >= 13 && kind < 15)
			line += signed_varint(t);
		else if (kind >= 10 && kind < 13)
			line += kind - 10;
		if (end > offset)
			return kind == 15 ? 0 : line;
		/* Columns and the like: bytes without the mark of a start. */
		while (more(t) && !(look(t) & 0x80))
			get(t);
	}
	return 0;
}

uint32_t gp_python_line(const struct gp_python_layout *layout, uintptr_t table,
			uint32_t first_line, uint64_t offset)
{
	struct table t = {.at = table + layout->bytes_data};
	int64_t line = 0;

	if (!gp_peek(table + layout->bytes_size, &t.size, sizeof(t.size)) ||
	    t.size > MAX_TABLE)
		return 0;
	switch (layout->lines) {
	case GP_LINES_LNOTAB:
		line = by_lnotab(&t, first_line, offset);
		break;
	case GP_LINES_LINETABLE:
		line = by_linetable(&t, first_line, offset);
		break;
	case GP_LINES_LOCATIONS:
		line = by_locations(&t, first_line, offset);
		break;
	}
	return line > 0 && line < INT32_MAX ? (uint32_t)line : 0;
}
