/*
 * Inside conf/: rows of the option table, and reading and printing of values.
 *
 * Readers take a span of the text, never allocate, do not depend on the
 * locale, and leave the field alone when they refuse. Thread-safe.
 */
#ifndef GP_CONF_VALUE_H
#define GP_CONF_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"

/* A piece of text that belongs to somebody else; not terminated. */
struct gp_span {
	const char *at;
	size_t len;
};

bool gp_span_is(struct gp_span span, const char *word);        /* exactly */
bool gp_span_is_nocase(struct gp_span span, const char *word); /* ASCII case */
bool gp_is_blank(char c);
/* Without the white space at both ends. */
struct gp_span gp_span_trim(struct gp_span span);
/* Is it a list, in [ and ]? Then they are taken off. */
bool gp_list_open(struct gp_span *text);
/* Takes an entry off the front of *list, up to a comma, into *entry. False
 * behind the last one. Between two commas, and in nothing, is an empty one. */
bool gp_list_next(struct gp_span *list, struct gp_span *entry);

/* type -> the C type of the field */
#define GP_CONF_TYPES(X)                                                    \
	X(BOOL, bool)                                                       \
	X(BACKEND, enum gp_backend)                                         \
	X(CACHE, enum gp_conf_cache)                                        \
	X(REUSE, enum gp_conf_reuse)                                        \
	X(FREE_ORDER, enum gp_conf_free_order)                              \
	X(BARRIER, enum gp_conf_barrier)                                    \
	X(STACKS, enum gp_conf_stacks)                                      \
	X(PATH, char[PATH_MAX])                                             \
	X(NAME, char[GP_CONF_NAME_SIZE])                                    \
	X(FORMATS, unsigned)                                                \
	X(SIGNAL, int)      /* number, 0 = none */                          \
	X(COUNT, uint64_t)  /* a whole number */                            \
	X(MS, uint64_t)     /* milliseconds; bare, ms or s */               \
	X(FACTOR, double)   /* up to nine decimals */                       \
	X(SIZE, uint64_t)   /* bytes; bare: MiB; keys in _mb */             \
	X(FRACTION, double) /* above 0, below 1; 0 = off */                 \
	X(DIVISIONS, uint32_t[GP_CONF_DIVISIONS])                           \
	X(BYTES, uint64_t)                   /* bytes; a bare number too */ \
	X(SHARES, double[GP_CONF_DEVICES])   /* 0 to 1 */                   \
	X(LIMITS, uint64_t[GP_CONF_DEVICES]) /* as BYTES */                 \
	X(BAD_LIMIT, enum gp_conf_bad_limit)                                \
	X(ONLY, char[GP_CONF_ONLY_SIZE])

enum gp_conf_type {
#define X(type, ctype) GP_TYPE_##type,
	GP_CONF_TYPES(X)
#undef X
};

struct gp_conf_row {
	struct gp_conf_option option;
	const char *initial;
	enum gp_conf_type type;
	size_t offset, size; /* of the field in struct gp_conf */
	uint64_t low, high;
};

struct gp_conf_foreign {
	const char *key, *why;
};

/* conf/table.c */
extern const struct gp_conf_row gp_conf_rows[];
extern const struct gp_conf_foreign gp_conf_foreigners[];
extern const size_t gp_conf_num_foreign;
#define GP_CONF_MAX_ROWS    64
#define GP_CONF_MAX_FOREIGN 32

/* Read `value` into row's field of conf. 0; -EINVAL: not such a value;
 * -ERANGE: outside the bounds. */
int gp_conf_read(const struct gp_conf_row *row, struct gp_span value,
		 struct gp_conf *conf);
/* Print row's field so that gp_conf_read() reads it again. If it does not fit
 * it ends in "...". */
void gp_conf_print(const struct gp_conf_row *row, const struct gp_conf *conf,
		   char *buf, size_t size);
/* The same for people and JSON: a path without quotes. */
void gp_conf_print_plain(const struct gp_conf_row *row,
			 const struct gp_conf *conf, char *buf, size_t size);

/* conf/number.c: plain decimals, "12", "0.5", "1.25", at most nine digits
 * after the point and no sign or exponent. Each takes the whole text. */
/* A whole number and nothing else. 0, -EINVAL, -ERANGE. */
int gp_whole_read(struct gp_span text, uint64_t *number);
int gp_size_read(struct gp_span text, uint64_t *bytes);  /* bare: MiB */
int gp_bytes_read(struct gp_span text, uint64_t *bytes); /* bare: bytes */
int gp_ms_read(struct gp_span text, uint64_t *ms);
int gp_double_read(struct gp_span text, double *number);
void gp_size_print(uint64_t bytes, char *buf, size_t size);
void gp_double_print(double number, char *buf, size_t size);

/* conf/report.c: a pattern of a report's name, GP_CONF_NAME_SIZE bytes, cleared
 * behind it; and a list of formats. */
int gp_name_read(struct gp_span text, char *name);
int gp_formats_read(struct gp_span text, unsigned *set);
void gp_formats_print(unsigned set, char *buf, size_t size);

/* conf/signals.c */
int gp_signal_read(struct gp_span text, int *number);
void gp_signal_print(int number, char *buf, size_t size);

/* conf/divisions.c */
int gp_divisions_read(struct gp_span text, uint32_t *slots);
void gp_divisions_print(const uint32_t *slots, char *buf, size_t size);

/* conf/devices.c: one value for all devices, or a list by ordinal. */
int gp_devices_read(const struct gp_conf_row *row, struct gp_span text,
		    void *slots);
void gp_devices_print(const struct gp_conf_row *row, const void *slots,
		      char *buf, size_t size);

/* conf/value.c, for devices.c: one BYTES, and one share from 0 to 1. */
int gp_limit_read(const struct gp_conf_row *row, struct gp_span text,
		  uint64_t *bytes);
int gp_share_read(struct gp_span text, double *share);
void gp_limit_print(uint64_t bytes, char *buf, size_t size);

/* conf/only.c: a list of patterns, "python*,train". `only` holds
 * GP_CONF_ONLY_SIZE bytes, cleared behind the text. */
bool gp_only_is_pattern(struct gp_span text);
int gp_only_add(struct gp_span pattern, char *only);
int gp_only_read(struct gp_span text, char *only);
void gp_only_print(const char *only, char *buf, size_t size);

/* conf/path.c: quoted or as it is; PATH_MAX bytes, cleared behind the text. */
int gp_path_read(struct gp_span text, char *path);
void gp_path_print(const char *path, char *buf, size_t size);

/* conf/suggest.c: the known key nearest to `key`, NULL if none is near. */
const char *gp_conf_suggest(struct gp_span key);

#endif
