/*
 * Inside the emitter: the buffer, and the two ways out of it.
 */
#ifndef GP_STATS_EMIT_IMPL_H
#define GP_STATS_EMIT_IMPL_H

#include "stats/emit.h"

void gp_emit_put(struct gp_emit *emit, const char *data, size_t len);
void gp_emit_puts(struct gp_emit *emit, const char *text);

/* emit_json.c: comma, line, indentation and the key, as needed */
void gp_json_key(struct gp_emit *emit, const char *key);
/* A quoted string, whatever its bytes. */
void gp_json_string(struct gp_emit *emit, const char *text);

/* emit_text.c: one value at its place; spaces in it do not break. */
void gp_text_value(struct gp_emit *emit, const char *text);

#endif
