/*
 * Values: the text of one setting <-> one field of struct gp_conf.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"

struct choice {
	const char *name;
	int value;
};

static const struct choice backends[] = {
	{"native", GP_BACKEND_NATIVE},
	{"passthrough", GP_BACKEND_PASSTHROUGH},
	{"cudaMallocAsync", GP_BACKEND_CUDA_MALLOC_ASYNC},
	{NULL, 0},
};

static const struct choice cache_policies[] = {
	{"keep", GP_CONF_KEEP},
	{"decay", GP_CONF_DECAY},
	{"none", GP_CONF_NONE},
	{NULL, 0},
};

static const struct choice reuses[] = {
	{"auto", GP_CONF_REUSE_AUTO},
	{"sync", GP_CONF_REUSE_SYNC},
	{NULL, 0},
};

static const struct choice free_orders[] = {
	{"auto", GP_CONF_ORDER_AUTO},
	{"full", GP_CONF_ORDER_FULL},
	{"reuse", GP_CONF_ORDER_REUSE},
	{NULL, 0},
};

static const struct choice barriers[] = {
	{"auto", GP_CONF_BARRIER_AUTO},
	{"always", GP_CONF_BARRIER_ALWAYS},
	{"never", GP_CONF_BARRIER_NEVER},
	{NULL, 0},
};

static const struct choice stacks[] = {
	{"off", GP_CONF_STACKS_OFF},
	{"oom", GP_CONF_STACKS_OOM},
	{"sample", GP_CONF_STACKS_SAMPLE},
	{"all", GP_CONF_STACKS_ALL},
	{NULL, 0},
};

static const struct choice bad_limits[] = {
	{"refuse", GP_CONF_BAD_LIMIT_REFUSE},
	{"continue", GP_CONF_BAD_LIMIT_CONTINUE},
	{NULL, 0},
};

bool gp_is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

bool gp_span_is(struct gp_span span, const char *word)
{
	return strlen(word) == span.len && !memcmp(span.at, word, span.len);
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool gp_span_is_nocase(struct gp_span span, const char *word)
{
	if (strlen(word) != span.len)
		return false;
	for (size_t i = 0; i < span.len; i++) {
		if (lower(span.at[i]) != lower(word[i]))
			return false;
	}
	return true;
}

struct gp_span gp_span_trim(struct gp_span span)
{
	while (span.len && gp_is_blank(span.at[0])) {
		span.at++;
		span.len--;
	}
	while (span.len && gp_is_blank(span.at[span.len - 1]))
		span.len--;
	return span;
}

bool gp_list_open(struct gp_span *text)
{
	if (text->len < 2 || text->at[0] != '[' ||
	    text->at[text->len - 1] != ']')
		return false;
	text->at++;
	text->len -= 2;
	return true;
}

bool gp_list_next(struct gp_span *list, struct gp_span *entry)
{
	const char *comma;

	if (!list->at)
		return false;
	*entry = *list;
	comma = memchr(list->at, ',', list->len);
	if (!comma) {
		list->at = NULL;
		return true;
	}
	entry->len = (size_t)(comma - list->at);
	list->len -= entry->len + 1;
	list->at = comma + 1;
	return true;
}

static int bool_read(struct gp_span text, bool *value)
{
	if (gp_span_is_nocase(text, "true") || gp_span_is(text, "1"))
		*value = true;
	else if (gp_span_is_nocase(text, "false") || gp_span_is(text, "0"))
		*value = false;
	else
		return -EINVAL;
	return 0;
}

static int choice_read(struct gp_span text, const struct choice *choices,
		       int *value)
{
	for (; choices->name; choices++) {
		if (gp_span_is_nocase(text, choices->name)) {
			*value = choices->value;
			return 0;
		}
	}
	return -EINVAL;
}

static const char *choice_name(const struct choice *choices, int value)
{
	while (choices->name && choices->value != value)
		choices++;
	return choices->name ? choices->name : "?";
}

static int whole_in_bounds(uint64_t number, const struct gp_conf_row *row,
			   uint64_t *field)
{
	if (number < row->low || number > row->high)
		return -ERANGE;
	*field = number;
	return 0;
}

static int size_in_bounds(const struct gp_conf_row *row, struct gp_span text,
			  int (*read)(struct gp_span, uint64_t *),
			  uint64_t *bytes)
{
	uint64_t number;
	int error;

	/* Only a row without an upper bound can be unlimited. */
	if (row->high == UINT64_MAX && gp_span_is_nocase(text, "unlimited")) {
		*bytes = UINT64_MAX;
		return 0;
	}
	error = read(text, &number);
	return error ? error : whole_in_bounds(number, row, bytes);
}

int gp_limit_read(const struct gp_conf_row *row, struct gp_span text,
		  uint64_t *bytes)
{
	return size_in_bounds(row, text, gp_bytes_read, bytes);
}

void gp_limit_print(uint64_t bytes, char *buf, size_t size)
{
	if (bytes == UINT64_MAX)
		snprintf(buf, size, "unlimited");
	else
		gp_size_print(bytes, buf, size);
}

int gp_share_read(struct gp_span text, double *share)
{
	double number;
	int error = gp_double_read(text, &number);

	if (error)
		return error;
	if (number > 1)
		return -ERANGE;
	*share = number;
	return 0;
}

static int ms_field_read(const struct gp_conf_row *row, struct gp_span text,
			 uint64_t *field)
{
	uint64_t ms;
	int error = gp_ms_read(text, &ms);

	return error ? error : whole_in_bounds(ms, row, field);
}

static int count_read(const struct gp_conf_row *row, struct gp_span text,
		      uint64_t *field)
{
	uint64_t number;
	int error = gp_whole_read(text, &number);

	return error ? error : whole_in_bounds(number, row, field);
}

static int factor_read(const struct gp_conf_row *row, struct gp_span text,
		       double *field)
{
	double number;
	int error = gp_double_read(text, &number);

	if (error)
		return error;
	if (number < (double)row->low || number > (double)row->high)
		return -ERANGE;
	*field = number;
	return 0;
}

static int fraction_read(struct gp_span text, double *field)
{
	double number;
	int error;

	if (gp_span_is_nocase(text, "off")) {
		*field = 0;
		return 0;
	}
	error = gp_double_read(text, &number);
	if (error)
		return error;
	if (number <= 0 || number >= 1)
		return -ERANGE;
	*field = number;
	return 0;
}

int gp_conf_read(const struct gp_conf_row *row, struct gp_span value,
		 struct gp_conf *conf)
{
	void *field = (char *)conf + row->offset;
	int chosen, error;

	switch (row->type) {
	case GP_TYPE_BOOL:
		return bool_read(value, field);
	case GP_TYPE_BACKEND:
		error = choice_read(value, backends, &chosen);
		if (!error)
			conf->backend = (enum gp_backend)chosen;
		return error;
	case GP_TYPE_ONLY:
		return gp_only_read(value, field);
	case GP_TYPE_CACHE:
		error = choice_read(value, cache_policies, &chosen);
		if (!error)
			conf->cache_policy = (enum gp_conf_cache)chosen;
		return error;
	case GP_TYPE_REUSE:
		error = choice_read(value, reuses, &chosen);
		if (!error)
			conf->reuse = (enum gp_conf_reuse)chosen;
		return error;
	case GP_TYPE_FREE_ORDER:
		error = choice_read(value, free_orders, &chosen);
		if (!error)
			conf->free_order = (enum gp_conf_free_order)chosen;
		return error;
	case GP_TYPE_BARRIER:
		error = choice_read(value, barriers, &chosen);
		if (!error)
			conf->free_barrier = (enum gp_conf_barrier)chosen;
		return error;
	case GP_TYPE_STACKS:
		error = choice_read(value, stacks, &chosen);
		if (!error)
			conf->stacks = (enum gp_conf_stacks)chosen;
		return error;
	case GP_TYPE_PATH:
		return gp_path_read(value, field);
	case GP_TYPE_NAME:
		return gp_name_read(value, field);
	case GP_TYPE_FORMATS:
		return gp_formats_read(value, field);
	case GP_TYPE_SIGNAL:
		return gp_signal_read(value, field);
	case GP_TYPE_COUNT:
		return count_read(row, value, field);
	case GP_TYPE_MS:
		return ms_field_read(row, value, field);
	case GP_TYPE_FACTOR:
		return factor_read(row, value, field);
	case GP_TYPE_SIZE:
		return size_in_bounds(row, value, gp_size_read, field);
	case GP_TYPE_FRACTION:
		return fraction_read(value, field);
	case GP_TYPE_DIVISIONS:
		return gp_divisions_read(value, field);
	case GP_TYPE_BYTES:
		return gp_limit_read(row, value, field);
	case GP_TYPE_SHARES:
	case GP_TYPE_LIMITS:
		return gp_devices_read(row, value, field);
	case GP_TYPE_BAD_LIMIT:
		error = choice_read(value, bad_limits, &chosen);
		if (!error)
			conf->on_bad_limit = (enum gp_conf_bad_limit)chosen;
		return error;
	}
	return -EINVAL;
}

static void print_field(const struct gp_conf_row *row,
			const struct gp_conf *conf, char *buf, size_t size)
{
	const void *field = (const char *)conf + row->offset;

	switch (row->type) {
	case GP_TYPE_BOOL:
		snprintf(buf, size, "%s",
			 *(const bool *)field ? "True" : "False");
		break;
	case GP_TYPE_BACKEND:
		snprintf(buf, size, "%s",
			 choice_name(backends, (int)conf->backend));
		break;
	case GP_TYPE_ONLY:
		gp_only_print(field, buf, size);
		break;
	case GP_TYPE_CACHE:
		snprintf(buf, size, "%s",
			 choice_name(cache_policies, (int)conf->cache_policy));
		break;
	case GP_TYPE_REUSE:
		snprintf(buf, size, "%s",
			 choice_name(reuses, (int)conf->reuse));
		break;
	case GP_TYPE_FREE_ORDER:
		snprintf(buf, size, "%s",
			 choice_name(free_orders, (int)conf->free_order));
		break;
	case GP_TYPE_BARRIER:
		snprintf(buf, size, "%s",
			 choice_name(barriers, (int)conf->free_barrier));
		break;
	case GP_TYPE_STACKS:
		snprintf(buf, size, "%s",
			 choice_name(stacks, (int)conf->stacks));
		break;
	case GP_TYPE_PATH:
		gp_path_print(field, buf, size);
		break;
	case GP_TYPE_NAME:
		snprintf(buf, size, "%s", (const char *)field);
		break;
	case GP_TYPE_FORMATS:
		gp_formats_print(*(const unsigned *)field, buf, size);
		break;
	case GP_TYPE_SIGNAL:
		gp_signal_print(*(const int *)field, buf, size);
		break;
	case GP_TYPE_COUNT:
	case GP_TYPE_MS:
		snprintf(buf, size, "%llu",
			 (unsigned long long)*(const uint64_t *)field);
		break;
	case GP_TYPE_FACTOR:
		gp_double_print(*(const double *)field, buf, size);
		break;
	case GP_TYPE_SIZE:
	case GP_TYPE_BYTES:
		gp_limit_print(*(const uint64_t *)field, buf, size);
		break;
	case GP_TYPE_FRACTION:
		if (*(const double *)field > 0)
			gp_double_print(*(const double *)field, buf, size);
		else
			snprintf(buf, size, "off");
		break;
	case GP_TYPE_DIVISIONS:
		gp_divisions_print(field, buf, size);
		break;
	case GP_TYPE_SHARES:
	case GP_TYPE_LIMITS:
		gp_devices_print(row, field, buf, size);
		break;
	case GP_TYPE_BAD_LIMIT:
		snprintf(buf, size, "%s",
			 choice_name(bad_limits, (int)conf->on_bad_limit));
		break;
	}
}

/* A path or a list can be longer than any sensible buffer. */
static void mark_cut(char *buf, size_t size)
{
	if (size > 4 && strlen(buf) == size - 1)
		memcpy(buf + size - 4, "...", 3);
}

void gp_conf_print_plain(const struct gp_conf_row *row,
			 const struct gp_conf *conf, char *buf, size_t size)
{
	if (row->type != GP_TYPE_PATH) {
		gp_conf_print(row, conf, buf, size);
		return;
	}
	if (!size)
		return;
	snprintf(buf, size, "%s", (const char *)conf + row->offset);
	mark_cut(buf, size);
}

void gp_conf_print(const struct gp_conf_row *row, const struct gp_conf *conf,
		   char *buf, size_t size)
{
	if (!size)
		return;
	buf[0] = '\0';
	print_field(row, conf, buf, size);
	mark_cut(buf, size);
}
