/*
 * The grammar, and what is said about text that does not follow it.
 *
 *   settings = [ setting ] { "," [ setting ] }
 *   setting  = key ":" value
 *   value    = '"' text '"' | "[" list "]" | text without "," or white space
 *
 * White space around keys, values and separators is dropped. Strict where
 * being lenient would guess: "a:1 b:2" is a missing comma, not a value.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"

#define MAX_TEXT (64u << 10)

struct parse {
	struct gp_conf *conf;
	gp_conf_message *message;
	void *arg;
	int refused;
	bool blank_noted, empty_noted;
	char sentence[1024]; /* the last one said */
	bool given[GP_CONF_MAX_ROWS];
};

struct setting {
	struct gp_span key, value;
	bool colon, blank; /* what stood between key and value */
};

/* Enough of a span for a message, on one line. */
struct shown {
	char text[72];
};

static struct shown show(struct gp_span span)
{
	struct shown shown;
	size_t len = span.len;

	if (len > sizeof(shown.text) - 4)
		len = sizeof(shown.text) - 4;
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)span.at[i];

		shown.text[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
	}
	memcpy(shown.text + len, len < span.len ? "..." : "",
	       len < span.len ? 4 : 1);
	return shown;
}

__attribute__((format(printf, 2, 3))) static void say(struct parse *parse,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(parse->sentence, sizeof(parse->sentence), format, args);
	va_end(args);
	if (parse->message)
		parse->message(parse->arg, parse->sentence);
}

static bool ends_key(char c)
{
	return c == ':' || c == ',' || gp_is_blank(c);
}

/* The value that starts at *at ends before the next comma outside of quotes
 * and brackets. A quote or bracket that is never closed is an ordinary
 * character, so that the settings behind it still count. */
static const char *value_end(const char *at, const char *end)
{
	const char *close = at;

	if (at < end && *at == '"') {
		for (close++; close < end && *close != '"'; close++) {
			if (*close == '\\' && close + 1 < end)
				close++;
		}
	} else if (at < end && *at == '[') {
		close = memchr(at, ']', (size_t)(end - at));
		if (!close)
			close = end;
	}
	if (close < end)
		at = close;
	close = memchr(at, ',', (size_t)(end - at));
	return close ? close : end;
}

/* Takes one setting off the front of *text, with the comma behind it. */
static struct setting next_setting(struct gp_span *text)
{
	const char *end = text->at + text->len;
	struct setting setting = {0};
	const char *at = text->at, *stop;

	while (at < end && gp_is_blank(*at))
		at++;
	setting.key.at = at;
	while (at < end && !ends_key(*at))
		at++;
	setting.key.len = (size_t)(at - setting.key.at);
	while (at < end && gp_is_blank(*at)) {
		setting.blank = true;
		at++;
	}
	if (at < end && *at == ':') {
		setting.colon = true;
		at++;
	}
	while (at < end && gp_is_blank(*at))
		at++;
	stop = value_end(at, end);
	setting.value = gp_span_trim((struct gp_span){at, (size_t)(stop - at)});
	if (stop < end)
		stop++;
	text->len = (size_t)(end - stop);
	text->at = stop;
	return setting;
}

static bool has_blank(struct gp_span value)
{
	for (size_t i = 0; i < value.len; i++) {
		if (gp_is_blank(value.at[i]))
			return true;
	}
	return false;
}

static bool is_limit(const struct gp_conf_row *row)
{
	return row->type == GP_TYPE_LIMITS || row->type == GP_TYPE_SHARES ||
	       row->type == GP_TYPE_BYTES;
}

/* Whether the text of a refused setting may have been meant as a limit: it
 * has a limit's key in it, or its key is near one. */
static bool meant_as_limit(const struct setting *setting)
{
	const char *end = setting->value.at + setting->value.len;
	const size_t len = (size_t)(end - setting->key.at);
	const char *near = gp_conf_suggest(setting->key);

	if (memmem(setting->key.at, setting->key.len, "limit", 5) ||
	    memmem(setting->key.at, setting->key.len, "fraction", 8))
		return true;
	for (size_t i = 0; i < gp_conf_count(); i++) {
		const char *key = gp_conf_rows[i].option.key;

		if (is_limit(&gp_conf_rows[i]) &&
		    ((near && !strcmp(near, key)) ||
		     memmem(setting->key.at, len, key, strlen(key))))
			return true;
	}
	return false;
}

/* The sentence just said is about a limit that does not hold. */
static void lose_limit(struct parse *parse)
{
	struct gp_conf *conf = parse->conf;

	if (!conf->limit_is_bad) {
		memset(conf->limit_message, 0, sizeof(conf->limit_message));
		memcpy(conf->limit_message, parse->sentence,
		       strnlen(parse->sentence,
			       sizeof(conf->limit_message) - 1));
	}
	conf->limit_is_bad = true;
}

/* After the sentence about it. */
static void count_refused(struct parse *parse, const struct setting *setting)
{
	parse->refused++;
	if (meant_as_limit(setting))
		lose_limit(parse);
}

static void refuse(struct parse *parse, const struct gp_conf_row *row,
		   const struct setting *setting, int error)
{
	const char first = setting->value.len ? setting->value.at[0] : '\0';
	const char *why = "";
	char stays[64];

	if (error == -ERANGE)
		why = " (out of range)";
	else if (first != '[' && first != '"' && has_blank(setting->value))
		why = " (settings are separated by commas, not blanks)";
	gp_conf_print(row, parse->conf, stays, sizeof(stays));
	say(parse, "%s:%s is refused%s, %s stays %s; accepted: %s",
	    row->option.key, show(setting->value).text, why, row->option.key,
	    stays, row->option.accepted);
	count_refused(parse, setting);
}

static void set(struct parse *parse, size_t index,
		const struct setting *setting)
{
	const struct gp_conf_row *row = &gp_conf_rows[index];
	int error = gp_conf_read(row, setting->value, parse->conf);

	/* "report_dir:" empties it; nothing else can be empty. */
	if (error) {
		refuse(parse, row, setting, error);
		return;
	}
	if (parse->given[index])
		say(parse, "%s is given more than once; the last, %s:%s, holds",
		    row->option.key, row->option.key,
		    show(setting->value).text);
	parse->given[index] = true;
}

/* Every key, so that a person who has only the library can go on. */
static void list_keys(char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < gp_conf_count() && used < size; i++) {
		int n = snprintf(buf + used, size - used, "%s%s", i ? ", " : "",
				 gp_conf_option(i)->key);

		used += n > 0 ? (size_t)n : 0;
	}
}

static void unknown(struct parse *parse, const struct setting *setting)
{
	const char *near = gp_conf_suggest(setting->key);
	const char *colon = setting->colon || setting->blank ? ":" : "";
	char keys[1024];

	if (!*colon && memchr(setting->key.at, '=', setting->key.len)) {
		say(parse,
		    "%s is ignored: a setting is written key:value, with a "
		    "colon",
		    show(setting->key).text);
		count_refused(parse, setting);
		return;
	}
	if (near) {
		say(parse,
		    "%s%s%s is ignored: no such key; the nearest known key is "
		    "%s",
		    show(setting->key).text, colon, show(setting->value).text,
		    near);
		count_refused(parse, setting);
		return;
	}
	list_keys(keys, sizeof(keys));
	say(parse,
	    "%s%s%s is ignored: no such key, and none is like it (the keys: "
	    "%s)",
	    show(setting->key).text, colon, show(setting->value).text, keys);
	count_refused(parse, setting);
}

static const struct gp_conf_foreign *foreign(struct gp_span key)
{
	for (size_t i = 0; i < gp_conf_num_foreign; i++) {
		if (gp_span_is(key, gp_conf_foreigners[i].key))
			return &gp_conf_foreigners[i];
	}
	return NULL;
}

static void apply(struct parse *parse, const struct setting *setting)
{
	const struct gp_conf_foreign *other;

	if (!setting->colon && setting->blank && setting->value.len &&
	    !parse->blank_noted) {
		parse->blank_noted = true;
		say(parse,
		    "%s %s has a blank where the colon belongs; read as "
		    "%s:%s",
		    show(setting->key).text, show(setting->value).text,
		    show(setting->key).text, show(setting->value).text);
	}
	for (size_t i = 0; i < gp_conf_count(); i++) {
		if (!gp_span_is(setting->key, gp_conf_rows[i].option.key))
			continue;
		if (!setting->colon && !setting->value.len) {
			say(parse,
			    "%s is ignored: it has no value; accepted: "
			    "%s",
			    gp_conf_rows[i].option.key,
			    gp_conf_rows[i].option.accepted);
			count_refused(parse, setting);
			return;
		}
		set(parse, i, setting);
		return;
	}
	other = foreign(setting->key);
	if (other)
		say(parse, "%s:%s has no effect: %s", other->key,
		    show(setting->value).text, other->why);
	else
		unknown(parse, setting);
}

static bool was_given(const struct parse *parse, size_t offset)
{
	for (size_t i = 0; i < gp_conf_count(); i++) {
		if (gp_conf_rows[i].offset == offset)
			return parse->given[i];
	}
	return false;
}

/* What depends on more than one setting. */
static void settle(struct parse *parse)
{
	struct gp_conf *conf = parse->conf;
	char split[32], segment[32];

	if (!was_given(parse, offsetof(struct gp_conf, max_non_split_rounding)))
		conf->max_non_split_rounding = conf->large_segment_size;
	if (conf->max_split_size < conf->large_segment_size) {
		gp_size_print(conf->max_split_size, split, sizeof(split));
		gp_size_print(conf->large_segment_size, segment,
			      sizeof(segment));
		say(parse,
		    "max_split_size_mb:%s is taken, though PyTorch accepts "
		    "only %s (large_segment_size_mb) or more",
		    split, segment);
	}
	if (!conf->enabled ||
	    conf->on_bad_limit == GP_CONF_BAD_LIMIT_CONTINUE) {
		conf->limit_is_bad = false;
		memset(conf->limit_message, 0, sizeof(conf->limit_message));
	}
}

int gp_conf_parse(const char *text, struct gp_conf *conf,
		  gp_conf_message *message, void *arg)
{
	struct parse parse = {.conf = conf, .message = message, .arg = arg};
	struct gp_span rest = {text ? text : "", 0};

	gp_conf_defaults(conf);
	rest.len = strnlen(rest.at, MAX_TEXT + 1);
	if (rest.len > MAX_TEXT) {
		say(&parse,
		    "the configuration %s is ignored: it is longer than %u "
		    "bytes",
		    show(rest).text, MAX_TEXT);
		lose_limit(&parse); /* there may be one in it */
		return 1;
	}
	if (!gp_span_trim(rest).len)
		return 0;
	for (bool more = true; more;) {
		const struct gp_span whole = rest;
		const struct setting setting = next_setting(&rest);

		/* A comma was taken: something, maybe nothing, follows it. */
		more = rest.at > whole.at && rest.at[-1] == ',';
		if (setting.key.len || setting.colon) {
			apply(&parse, &setting);
		} else if (!parse.empty_noted) {
			parse.empty_noted = true;
			say(&parse, "an empty setting (a comma too many) is "
				    "passed over");
		}
	}
	settle(&parse);
	return parse.refused;
}
