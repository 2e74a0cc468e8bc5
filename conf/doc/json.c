/*
 * The table, and what a text is read as, in JSON.
 *
 *   version, enabled, limit_is_bad, limit_message, refused (a count),
 *   messages: [sentence, ...],
 *   options: [{key, value, default, is_default, accepted, help}, ...],
 *   without_effect: [{key, why}, ...]
 *
 * value and default are as they would be written in GPUPOOL_CONF. Bytes of the
 * text that are not UTF-8 stay as they are.
 */
#include <limits.h>
#include <stdio.h>

#include "conf/doc/doc.h"
#include "conf/value.h"
#include "conf/version.h"

/* Whether something stands before in this object or list. */
static bool comma;

static void put_string(const char *text)
{
	char escape[8];

	putchar('"');
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c < ' ' || c == '"' || c == '\\') {
			snprintf(escape, sizeof(escape), "\\u%04x", c);
			fputs(escape, stdout);
		} else {
			putchar(*text);
		}
	}
	putchar('"');
}

static void put_key(const char *key)
{
	if (comma)
		putchar(',');
	comma = true;
	if (key) {
		put_string(key);
		putchar(':');
	}
}

static void open_with(const char *key, char bracket)
{
	put_key(key);
	putchar(bracket);
	comma = false;
}

static void close_with(char bracket)
{
	putchar(bracket);
	comma = true;
}

static void member(const char *key, const char *text)
{
	put_key(key);
	put_string(text);
}

static void flag(const char *key, bool value)
{
	put_key(key);
	fputs(value ? "true" : "false", stdout);
}

static void message(void *arg, const char *sentence)
{
	(void)arg;
	member(NULL, sentence);
}

static void option(const struct gp_conf *conf, size_t index)
{
	const struct gp_conf_option *at = gp_conf_option(index);
	char value[2 * PATH_MAX];

	open_with(NULL, '{');
	member("key", at->key);
	member("value", gp_conf_value(conf, index, value, sizeof(value)));
	member("default", gp_conf_rows[index].initial);
	flag("is_default", gp_conf_is_default(conf, index));
	member("accepted", at->accepted);
	member("help", at->help);
	close_with('}');
}

void gp_doc_json(const char *text)
{
	struct gp_conf conf;
	char number[16];
	int refused;

	open_with(NULL, '{');
	member("version", GP_VERSION);
	open_with("messages", '[');
	refused = gp_conf_parse(text, &conf, message, NULL);
	close_with(']');
	snprintf(number, sizeof(number), "%d", refused);
	put_key("refused");
	fputs(number, stdout);
	flag("enabled", conf.enabled);
	flag("limit_is_bad", conf.limit_is_bad);
	member("limit_message", conf.limit_message);
	open_with("options", '[');
	for (size_t i = 0; i < gp_conf_count(); i++)
		option(&conf, i);
	close_with(']');
	open_with("without_effect", '[');
	for (size_t i = 0; i < gp_conf_num_foreign; i++) {
		open_with(NULL, '{');
		member("key", gp_conf_foreigners[i].key);
		member("why", gp_conf_foreigners[i].why);
		close_with('}');
	}
	close_with(']');
	close_with('}');
	putchar('\n');
}
