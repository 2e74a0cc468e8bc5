/*
 * The option table as data, and what follows from it: defaults, printing.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"

/* A row whose type does not match its field does not build. */
#define X(type_, ctype) typedef __typeof__(ctype) type_of_##type_;
GP_CONF_TYPES(X)
#undef X
#define GP_OPTION(key_, type_, field_, initial_, low_, high_, accepted_,  \
		  help_)                                                  \
	_Static_assert(__builtin_types_compatible_p(                      \
			       __typeof__(((struct gp_conf *)0)->field_), \
			       type_of_##type_),                          \
		       "type of option " #key_);
#include "conf/options.def"

const struct gp_conf_row gp_conf_rows[] = {
#define GP_OPTION(key_, type_, field_, initial_, low_, high_, accepted_, \
		  help_)                                                 \
	{                                                                \
		.option = {.key = #key_,                                 \
			   .accepted = accepted_,                        \
			   .help = help_},                               \
		.initial = initial_,                                     \
		.type = GP_TYPE_##type_,                                 \
		.offset = offsetof(struct gp_conf, field_),              \
		.size = sizeof(((struct gp_conf *)0)->field_),           \
		.low = low_,                                             \
		.high = high_,                                           \
	},
#include "conf/options.def"
};

#define NUM_ROWS (sizeof(gp_conf_rows) / sizeof(gp_conf_rows[0]))
_Static_assert(NUM_ROWS <= GP_CONF_MAX_ROWS, "raise GP_CONF_MAX_ROWS");

const struct gp_conf_foreign gp_conf_foreigners[] = {
#define GP_FOREIGN(key_, why_) {.key = #key_, .why = why_},
#include "conf/options.def"
};
const size_t gp_conf_num_foreign =
	sizeof(gp_conf_foreigners) / sizeof(gp_conf_foreigners[0]);
_Static_assert(sizeof(gp_conf_foreigners) / sizeof(gp_conf_foreigners[0]) <=
		       GP_CONF_MAX_FOREIGN,
	       "raise GP_CONF_MAX_FOREIGN");

/* Cannot fail: a unit test reads every default. */
static void read_default(const struct gp_conf_row *row, struct gp_conf *conf)
{
	gp_conf_read(row, (struct gp_span){row->initial, strlen(row->initial)},
		     conf);
}

void gp_conf_defaults(struct gp_conf *conf)
{
	memset(conf, 0, sizeof(*conf));
	for (size_t i = 0; i < NUM_ROWS; i++)
		read_default(&gp_conf_rows[i], conf);
}

size_t gp_conf_count(void)
{
	return NUM_ROWS;
}

const struct gp_conf_option *gp_conf_option(size_t index)
{
	return index < NUM_ROWS ? &gp_conf_rows[index].option : NULL;
}

const char *gp_conf_value(const struct gp_conf *conf, size_t index, char *buf,
			  size_t size)
{
	if (size)
		buf[0] = '\0';
	if (index < NUM_ROWS)
		gp_conf_print(&gp_conf_rows[index], conf, buf, size);
	return buf;
}

const char *gp_conf_plain(const struct gp_conf *conf, size_t index, char *buf,
			  size_t size)
{
	if (size)
		buf[0] = '\0';
	if (index < NUM_ROWS)
		gp_conf_print_plain(&gp_conf_rows[index], conf, buf, size);
	return buf;
}

/* The rows' defaults: too large for the stack of any thread of a program. */
static struct gp_conf defaults;
static pthread_once_t defaults_read = PTHREAD_ONCE_INIT;

static void read_defaults(void)
{
	gp_conf_defaults(&defaults);
}

bool gp_conf_is_default(const struct gp_conf *conf, size_t index)
{
	const struct gp_conf_row *row;
	const void *initial;

	if (index >= NUM_ROWS)
		return true;
	pthread_once(&defaults_read, read_defaults);
	row = &gp_conf_rows[index];
	initial = (const char *)&defaults + row->offset;
	/* This default follows another option. */
	if (row->offset == offsetof(struct gp_conf, max_non_split_rounding))
		initial = &conf->large_segment_size;
	return !memcmp((const char *)conf + row->offset, initial, row->size);
}
