/*
 * The emitter: one set of calls, a page of text or JSON.
 *
 * A value is emitted once, with its JSON key and its unit; the text shows it
 * where the layout is at that moment (in running words, or in a table's next
 * column), the JSON under the key. So a figure on the page that the JSON lacks
 * cannot be written by accident.
 *
 * Output goes through a small buffer inside the struct and write(2). The first
 * error is kept and everything after it dropped. Not thread-safe; an emitter
 * belongs to its caller's stack. Allocates nothing, takes no lock.
 */
#ifndef GP_STATS_EMIT_H
#define GP_STATS_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_EMIT_WIDTH     80
#define GP_EMIT_MAX_DEPTH 8

enum gp_unit {
	GP_UNIT_BYTES,   /* GP_UNKNOWN: "unknown", null */
	GP_UNIT_COUNT,   /* with separators in the text */
	GP_UNIT_PLAIN,   /* a number that is a name: pid, ordinal */
	GP_UNIT_NS,      /* duration */
	GP_UNIT_TIME,    /* ns since 1970 */
	GP_UNIT_PERCENT, /* in tenths; GP_UNKNOWN: "-", null */
	GP_UNIT_ADDRESS, /* "0x7f..", a string in JSON */
};

struct gp_emit {
	int fd;
	bool in_memory; /* not to fd, but into text */
	char *text;     /* not owned */
	size_t room;    /* of it, the final 0 included */
	size_t length;  /* of all, also of what did not fit */
	int error;      /* the first, -errno */
	bool json;
	char buf[2048];
	size_t used;

	/* JSON */
	unsigned depth;
	bool is_list[GP_EMIT_MAX_DEPTH];
	bool comma; /* something stands before in this object or list */

	/* text */
	bool hidden;     /* nothing is shown: gp_emit_hide() */
	bool open;       /* a parenthesis waits for the word behind it */
	bool in_row;     /* values go to columns, else into running words */
	unsigned column; /* where the line is, from 0 */
	unsigned indent; /* of continuation lines */
	unsigned edge;   /* in_row: where the last cell ended */
	unsigned cell;   /* in_row: width of a column */
};

void gp_emit_init(struct gp_emit *emit, int fd, bool json);
/* Into text[0..size) instead of a file. */
void gp_emit_init_memory(struct gp_emit *emit, char *text, size_t size,
			 bool json);
/* Ends the text with a 0. The length of the whole, which is `size` or more when
 * it was cut; or -errno. */
long gp_emit_finish_memory(struct gp_emit *emit);
/* Flush. 0 or the first error, -errno. */
int gp_emit_finish(struct gp_emit *emit);

/* Structure of the JSON, not seen in the text. key is NULL in a list and at
 * the top. */
void gp_emit_object(struct gp_emit *emit, const char *key);
void gp_emit_list(struct gp_emit *emit, const char *key);
void gp_emit_close(struct gp_emit *emit);

/* Layout of the text, not seen in the JSON. Words wrap before the 80th column;
 * words whose first is punctuation follow without a space, and so does what
 * comes after an opening parenthesis. */
void gp_emit_heading(struct gp_emit *emit, const char *text);
void gp_emit_words(struct gp_emit *emit, const char *words);
/* Start an item: "bullet" then words, continuation lines indented under it. */
void gp_emit_item(struct gp_emit *emit, const char *bullet);
/* What follows starts at that column (or one further on), and continuation
 * lines too. */
void gp_emit_tab(struct gp_emit *emit, unsigned column);
/* Start a table row: the label, then values right-aligned in columns of
 * `cell`, the first ending at label_width + cell. */
void gp_emit_row(struct gp_emit *emit, const char *label, unsigned label_width,
		 unsigned cell);
/* The next column of a row, words instead of a value; the row of names above
 * a table is made of these. */
void gp_emit_cell(struct gp_emit *emit, const char *text);
/* End the line (also of words or a row); then an empty one. */
void gp_emit_line(struct gp_emit *emit);
void gp_emit_gap(struct gp_emit *emit);
/* While hidden, values and words are kept out of the text, not of the JSON. */
void gp_emit_hide(struct gp_emit *emit, bool hidden);

/* Values, in both. */
void gp_emit_number(struct gp_emit *emit, const char *key, enum gp_unit unit,
		    uint64_t value);
void gp_emit_string(struct gp_emit *emit, const char *key, const char *value);
void gp_emit_bool(struct gp_emit *emit, const char *key, bool value);
/* A list of numbers, in the JSON alone, on one line: values[0], values[step]
 * and so on, `n` of them. */
void gp_emit_numbers(struct gp_emit *emit, const char *key,
		     const uint64_t *values, size_t n, size_t step);
/* A value that was emitted before under its own key: the text alone. */
void gp_emit_again(struct gp_emit *emit, enum gp_unit unit, uint64_t value);

/* part of whole for GP_UNIT_PERCENT, rounded; GP_UNKNOWN if whole is 0. */
uint64_t gp_percent(uint64_t part, uint64_t whole);

#endif
