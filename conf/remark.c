/*
 * The sentences.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf/file.h"
#include "conf/remark.h"

#define MAX_VALUE 68

static struct gp_shown show(struct gp_span span, size_t most)
{
	struct gp_shown shown;
	const size_t len = span.len < most ? span.len : most;

	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)span.at[i];

		shown.text[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
	}
	memcpy(shown.text + len, len < span.len ? "..." : "",
	       len < span.len ? 4 : 1);
	return shown;
}

struct gp_shown gp_show(struct gp_span span)
{
	return show(span, MAX_VALUE);
}

struct gp_shown gp_show_path(struct gp_span span)
{
	return show(span, sizeof(((struct gp_shown *)0)->text) - 4);
}

void gp_say(struct gp_remarks *remarks, const char *format, ...)
{
	const size_t size = sizeof(remarks->sentence);
	size_t used = 0;
	va_list args;

	if (remarks->file[0])
		used = (size_t)snprintf(remarks->sentence, size,
					"%s:%u: ", remarks->file,
					remarks->line);
	va_start(args, format);
	vsnprintf(remarks->sentence + used, size - used, format, args);
	va_end(args);
	if (remarks->message)
		remarks->message(remarks->arg, remarks->sentence);
}

void gp_lose_limit(struct gp_remarks *remarks)
{
	struct gp_conf *conf = remarks->conf;

	if (!conf->limit_is_bad) {
		memset(conf->limit_message, 0, sizeof(conf->limit_message));
		memcpy(conf->limit_message, remarks->sentence,
		       strnlen(remarks->sentence,
			       sizeof(conf->limit_message) - 1));
	}
	conf->limit_is_bad = true;
}

static bool is_limit(const struct gp_conf_row *row)
{
	return row->type == GP_TYPE_LIMITS || row->type == GP_TYPE_SHARES ||
	       row->offset == offsetof(struct gp_conf, host_limit);
}

static bool contains(struct gp_span text, const char *word)
{
	return memmem(text.at, text.len, word, strlen(word)) != NULL;
}

/* A refused setting may have been meant as a limit if a limit's key is in it
 * or near to its key, or if its key sounds like one. */
static bool meant_as_limit(const struct gp_setting *setting)
{
	const char *end = setting->value.at + setting->value.len;
	const struct gp_span whole = {setting->key.at,
				      (size_t)(end - setting->key.at)};
	const char *near = gp_conf_suggest(setting->key);

	if (contains(setting->key, "limit") ||
	    contains(setting->key, "fraction"))
		return !near || strcmp(near, "on_bad_limit") != 0;
	for (size_t i = 0; i < gp_conf_count(); i++) {
		const char *key = gp_conf_rows[i].option.key;

		if (is_limit(&gp_conf_rows[i]) &&
		    ((near && !strcmp(near, key)) || contains(whole, key)))
			return true;
	}
	return false;
}

/* The setting before was refused; if it may have been meant as a limit, that
 * one is lost. */
static void count_refused(struct gp_remarks *remarks,
			  const struct gp_setting *setting)
{
	remarks->refused++;
	if (meant_as_limit(setting))
		gp_lose_limit(remarks);
}

static const char *reason(const struct gp_setting *setting, int error)
{
	const struct gp_span value = setting->value;
	const char first = value.len ? value.at[0] : '\0';
	const char last = value.len ? value.at[value.len - 1] : '\0';

	if (setting->open)
		return first == '[' ? " (the [ is never closed)"
				    : " (the \" is never closed)";
	if (error == -ERANGE)
		return " (out of range)";
	if (first == '[')
		return last == ']' ? "" : " (something follows the ])";
	if (first == '"')
		return last == '"' ? "" : " (something follows the \")";
	for (size_t i = 0; i < value.len; i++) {
		if (gp_is_blank(value.at[i]))
			return " (settings are separated by commas, not "
			       "blanks)";
	}
	return "";
}

void gp_refuse(struct gp_remarks *remarks, const struct gp_conf_row *row,
	       const struct gp_setting *setting, int error)
{
	char stays[64];

	gp_conf_print(row, remarks->conf, stays, sizeof(stays));
	gp_say(remarks, "%s:%s is refused%s, %s stays %s; accepted: %s",
	       row->option.key, gp_show(setting->value).text,
	       reason(setting, error), row->option.key,
	       gp_show((struct gp_span){stays, strlen(stays)}).text,
	       row->option.accepted);
	count_refused(remarks, setting);
}

void gp_refuse_empty(struct gp_remarks *remarks, const struct gp_conf_row *row,
		     const struct gp_setting *setting)
{
	gp_say(remarks, "%s is ignored: it has no value; accepted: %s",
	       row->option.key, row->option.accepted);
	count_refused(remarks, setting);
}

/* Every key, so that a person who has only the library can go on. */
static void list_keys(char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < gp_conf_count() && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s",
					 i ? ", " : "", gp_conf_option(i)->key);
}

void gp_refuse_unknown(struct gp_remarks *remarks,
		       const struct gp_setting *setting)
{
	const char *near = gp_conf_suggest(setting->key);
	const char *colon = setting->colon || setting->blank ? ":" : "";
	char text[2 * sizeof(struct gp_shown)], keys[700];

	snprintf(text, sizeof(text), "%s%s%s", gp_show(setting->key).text,
		 colon, gp_show(setting->value).text);
	list_keys(keys, sizeof(keys));
	if (memchr(setting->key.at, '=', setting->key.len))
		gp_say(remarks,
		       "%s is ignored: a setting is written key:value, with a "
		       "colon",
		       text);
	else if (near)
		gp_say(remarks,
		       "%s is ignored: no such key; the nearest known key is "
		       "%s",
		       text, near);
	else
		gp_say(remarks,
		       "%s is ignored: no such key, and none is like it (the "
		       "keys: %s)",
		       text, keys);
	count_refused(remarks, setting);
}

static const char *file_error(int error)
{
	switch (error) {
	case -EINVAL:
		return "a file's name is written @name, in double quotes if "
		       "it has blanks, commas or quotes";
	case -ENOTSUP:
		return "not a regular file";
	case -EFBIG:
		return "longer than 65536 bytes";
	case -ELOOP:
		return "a file of settings cannot name another";
	default:
		return strerrordesc_np(-error);
	}
}

void gp_refuse_file(struct gp_remarks *remarks,
		    const struct gp_setting *setting, const char *path,
		    int error)
{
	char where[PATH_MAX], place[sizeof(struct gp_shown) + 32] = "";

	if (path[0] && path[0] != '/' && getcwd(where, sizeof(where)))
		snprintf(place, sizeof(place), " (looked for in %s)",
			 gp_show_path((struct gp_span){where, strlen(where)})
				 .text);
	gp_say(remarks, "@%s cannot be read: %s%s; no setting of it holds",
	       gp_show_path(setting->value).text, file_error(error), place);
	remarks->refused++;
	gp_lose_limit(remarks); /* there may be one in it */
}

void gp_say_foreign(struct gp_remarks *remarks, const bool *given)
{
	char text[900];
	size_t used = 0;

	for (size_t i = 0; i < gp_conf_num_foreign; i++) {
		const struct gp_conf_foreign *at = &gp_conf_foreigners[i];
		size_t next = i + 1;
		bool last;

		if (!given[i])
			continue;
		while (next < gp_conf_num_foreign && !given[next])
			next++;
		last = next == gp_conf_num_foreign;
		if (used < sizeof(text))
			used += (size_t)snprintf(text + used,
						 sizeof(text) - used, "%s",
						 at->key);
		/* Rows with the same reason stand together. */
		if (used < sizeof(text) &&
		    (last ||
		     strcmp(at->why, gp_conf_foreigners[next].why) != 0))
			used += (size_t)snprintf(text + used,
						 sizeof(text) - used, " (%s)%s",
						 at->why, last ? "" : "; ");
		else if (used < sizeof(text))
			used += (size_t)snprintf(text + used,
						 sizeof(text) - used, ", ");
	}
	if (used)
		gp_say(remarks, "without effect here: %s", text);
}
