/*
 * Where one setting ends and the next begins.
 */
#include <string.h>

#include "conf/scan.h"

static bool ends_key(char c)
{
	return c == ':' || c == ',' || gp_is_blank(c);
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && gp_is_blank(*at))
		at++;
	return at;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Whether this can only be a setting: a word and a colon, or a file. No list
 * has entries like that. */
static bool is_setting(const char *at, const char *end)
{
	at = skip_blanks(at, end);
	if (at < end && *at == '@')
		return true;
	if (at == end || !is_letter(*at))
		return false;
	while (at < end && !ends_key(*at))
		at++;
	at = skip_blanks(at, end);
	return at < end && *at == ':';
}

/* The quote or bracket that closes the one at `at`, NULL if none does. A
 * second opening bracket means that the first is never closed. */
static const char *closing(const char *at, const char *end)
{
	const bool quote = *at == '"';

	for (at++; at < end; at++) {
		if (quote && *at == '\\' && at + 1 < end)
			at++;
		else if (*at == (quote ? '"' : ']'))
			return at;
		else if (!quote && *at == '[')
			return NULL;
	}
	return NULL;
}

static const char *next_comma(const char *at, const char *end)
{
	const char *comma = memchr(at, ',', (size_t)(end - at));

	return comma ? comma : end;
}

/* The value that starts at `at` ends before the next comma outside of quotes
 * and brackets. If those are never closed it ends where another setting
 * certainly begins, so that the rest of it is not taken for more mistakes,
 * and the settings behind it still count. */
static const char *value_end(const char *at, const char *end, bool *open)
{
	const char *close = at;

	if (at < end && (*at == '"' || *at == '[')) {
		close = closing(at, end);
		*open = !close;
	}
	if (!*open)
		return next_comma(close, end);
	do
		at = next_comma(at + 1, end);
	while (at < end && !is_setting(at + 1, end));
	return at;
}

struct gp_setting gp_setting_next(struct gp_span *text)
{
	const char *end = text->at + text->len;
	struct gp_setting setting = {0};
	const char *at = skip_blanks(text->at, end), *stop;

	setting.key.at = at;
	if (at < end && *at == '@') {
		at++;
		setting.key.len = 1;
		setting.colon = true;
	} else {
		while (at < end && !ends_key(*at))
			at++;
		setting.key.len = (size_t)(at - setting.key.at);
		setting.blank = at < end && gp_is_blank(*at);
		at = skip_blanks(at, end);
		if (at < end && *at == ':') {
			setting.colon = true;
			at++;
		}
		at = skip_blanks(at, end);
	}
	stop = value_end(at, end, &setting.open);
	setting.value = gp_span_trim((struct gp_span){at, (size_t)(stop - at)});
	setting.comma = stop < end;
	if (stop < end)
		stop++;
	text->len = (size_t)(end - stop);
	text->at = stop;
	return setting;
}

/* '#' starts a comment where a word could start, outside of quotes. */
static size_t comment_at(struct gp_span line)
{
	bool quoted = false;

	for (size_t i = 0; i < line.len; i++) {
		const char c = line.at[i];

		if (quoted && c == '\\')
			i++;
		else if (c == '"')
			quoted = !quoted;
		else if (c == '#' && !quoted &&
			 (!i || line.at[i - 1] == ',' ||
			  gp_is_blank(line.at[i - 1])))
			return i;
	}
	return line.len;
}

struct gp_span gp_line_next(struct gp_span *text)
{
	const char *newline = memchr(text->at, '\n', text->len);
	struct gp_span line = *text;

	if (newline)
		line.len = (size_t)(newline - text->at);
	text->at += line.len + (newline != NULL);
	text->len -= line.len + (newline != NULL);
	line.len = comment_at(line);
	line = gp_span_trim(line);
	/* A newline is a comma; one before it is no comma too many. */
	if (line.len && line.at[line.len - 1] == ',')
		line.len--;
	return line;
}
