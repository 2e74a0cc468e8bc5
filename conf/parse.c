/*
 * The grammar.
 *
 *   settings = [ setting ] { "," [ setting ] }
 *   setting  = key ":" value | "@" file
 *   value    = '"' text '"' | "[" list "]" | text without "," or white space
 *
 * White space around keys, values and separators is dropped. Strict where
 * being lenient would guess: "a:1 b:2" is a missing comma, not a value. Two
 * liberties: a blank may stand for the colon, as in tutorials; and the list of
 * `only` may stand without brackets, because an element without a colon is
 * nothing else.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/file.h"
#include "conf/remark.h"
#include "conf/scan.h"

struct parse {
	struct gp_conf *conf;
	struct gp_remarks remarks;
	bool blank_noted, empty_noted;
	bool only_goes_on; /* names may follow */
	bool only_refused; /* and are part of what was refused */
	unsigned source;   /* 1: the variable, 2 and up: files in it */
	unsigned sources;
	unsigned given[GP_CONF_MAX_ROWS]; /* in which source last; 0: never */
	bool foreign[GP_CONF_MAX_FOREIGN];
};

static void parse_settings(struct parse *parse, struct gp_span text);

static size_t row_of(struct gp_span key)
{
	size_t i = 0;

	while (i < gp_conf_count() &&
	       !gp_span_is(key, gp_conf_rows[i].option.key))
		i++;
	return i;
}

static size_t foreign_of(struct gp_span key)
{
	size_t i = 0;

	while (i < gp_conf_num_foreign &&
	       !gp_span_is(key, gp_conf_foreigners[i].key))
		i++;
	return i;
}

static void note_blank(struct parse *parse, const struct gp_setting *setting)
{
	const struct gp_shown key = gp_show(setting->key);
	const struct gp_shown value = gp_show(setting->value);

	if (setting->colon || parse->blank_noted)
		return;
	parse->blank_noted = true;
	gp_say(&parse->remarks,
	       "%s %s has a blank where the colon belongs; read as %s:%s",
	       key.text, value.text, key.text, value.text);
}

static void set(struct parse *parse, size_t index,
		const struct gp_setting *setting)
{
	const struct gp_conf_row *row = &gp_conf_rows[index];
	const bool bare = setting->value.len && setting->value.at[0] != '[';
	/* A value whose quote is open may look whole: "a\" */
	const int error =
		setting->open ? -EINVAL
			      : gp_conf_read(row, setting->value, parse->conf);

	if (row->type == GP_TYPE_ONLY) {
		parse->only_goes_on = bare;
		parse->only_refused = error != 0;
	}
	/* "report_dir:" empties it; nothing else can be empty. */
	if (error) {
		gp_refuse(&parse->remarks, row, setting, error);
		return;
	}
	note_blank(parse, setting);
	/* What comes after a file is there to change what the file says. */
	if (parse->given[index] == parse->source)
		gp_say(&parse->remarks,
		       "%s is given more than once; the last, %s:%s, holds",
		       row->option.key, row->option.key,
		       gp_show(setting->value).text);
	parse->given[index] = parse->source;
}

/* A further name after only:python*. */
static void add_name(struct parse *parse, const struct gp_setting *setting)
{
	const struct gp_conf_row *row = gp_conf_rows;
	int error;

	if (parse->only_refused)
		return;
	error = gp_only_add(setting->key, parse->conf->only);
	if (!error)
		return;
	while (row->type != GP_TYPE_ONLY)
		row++;
	gp_refuse(&parse->remarks, row,
		  &(struct gp_setting){.key = setting->key,
				       .value = setting->key},
		  error);
}

static void parse_file(struct parse *parse, const struct gp_setting *setting)
{
	struct gp_remarks *remarks = &parse->remarks;
	const unsigned source = parse->source;
	struct gp_conf_file file;
	char path[PATH_MAX] = "";
	int error = -EINVAL;

	if (!setting->open)
		error = gp_path_read(setting->value, path);
	if (!error && !path[0])
		error = -EINVAL;
	if (!error && remarks->file[0])
		error = -ELOOP;
	if (error) {
		gp_refuse_file(remarks, setting, "", error);
		return;
	}
	error = gp_conf_file_open(path, &file);
	if (error) {
		gp_refuse_file(remarks, setting, path, error);
		return;
	}
	snprintf(remarks->file, sizeof(remarks->file), "%s",
		 gp_show_path((struct gp_span){path, strlen(path)}).text);
	parse->source = ++parse->sources;
	for (remarks->line = 1; file.text.len; remarks->line++) {
		const struct gp_span line = gp_line_next(&file.text);

		if (line.len)
			parse_settings(parse, line);
	}
	parse->only_goes_on = false;
	parse->source = source;
	remarks->file[0] = '\0';
	gp_conf_file_close(&file);
}

static void apply(struct parse *parse, const struct gp_setting *setting)
{
	const size_t index = row_of(setting->key);
	const size_t foreign = foreign_of(setting->key);
	const bool word = !setting->colon && !setting->value.len;

	if (parse->only_goes_on && word && index == gp_conf_count() &&
	    gp_only_is_pattern(setting->key)) {
		add_name(parse, setting);
		return;
	}
	parse->only_goes_on = false;
	if (gp_span_is(setting->key, "@")) {
		parse_file(parse, setting);
	} else if (index < gp_conf_count() && word) {
		gp_refuse_empty(&parse->remarks, &gp_conf_rows[index], setting);
	} else if (index < gp_conf_count()) {
		set(parse, index, setting);
	} else if (foreign < gp_conf_num_foreign) {
		note_blank(parse, setting);
		parse->foreign[foreign] = true;
	} else {
		gp_refuse_unknown(&parse->remarks, setting);
	}
}

static void parse_settings(struct parse *parse, struct gp_span text)
{
	struct gp_setting setting;

	do {
		setting = gp_setting_next(&text);
		if (setting.key.len || setting.colon) {
			apply(parse, &setting);
		} else if (!parse->empty_noted) {
			parse->empty_noted = true;
			gp_say(&parse->remarks,
			       "an empty setting (a comma too many) is passed "
			       "over");
		}
	} while (setting.comma);
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

	gp_say_foreign(&parse->remarks, parse->foreign);
	if (!was_given(parse, offsetof(struct gp_conf, max_non_split_rounding)))
		conf->max_non_split_rounding = conf->large_segment_size;
	if (conf->max_split_size < conf->large_segment_size) {
		gp_size_print(conf->max_split_size, split, sizeof(split));
		gp_size_print(conf->large_segment_size, segment,
			      sizeof(segment));
		gp_say(&parse->remarks,
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
	struct parse parse = {
		.conf = conf,
		.remarks = {.conf = conf, .message = message, .arg = arg},
		.source = 1,
		.sources = 1,
	};
	struct gp_span rest = {text ? text : "", 0};

	gp_conf_defaults(conf);
	rest.len = strnlen(rest.at, GP_CONF_MAX_TEXT + 1);
	if (rest.len > GP_CONF_MAX_TEXT) {
		gp_say(&parse.remarks,
		       "the configuration %s is ignored: it is longer than %u "
		       "bytes",
		       gp_show(rest).text, GP_CONF_MAX_TEXT);
		gp_lose_limit(&parse.remarks); /* there may be one in it */
		return 1;
	}
	if (!gp_span_trim(rest).len)
		return 0;
	parse_settings(&parse, rest);
	settle(&parse);
	return parse.remarks.refused;
}
