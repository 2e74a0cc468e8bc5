/*
 * Names and formats of reports.
 *
 * A name is a pattern of a file name without its ending: letters, digits, . _
 * - + and %p %e %h %r %t %%.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"

static const struct {
	const char *name;
	unsigned bit;
} formats[] = {
	{"text", GP_CONF_FORMAT_TEXT},
	{"json", GP_CONF_FORMAT_JSON},
};

#define NUM_FORMATS (sizeof(formats) / sizeof(formats[0]))

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || (c && strchr("._-+", c));
}

int gp_name_read(struct gp_span text, char *name)
{
	if (!text.len || text.at[0] == '.')
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		if (is_plain(text.at[i]))
			continue;
		if (text.at[i] != '%' || ++i == text.len ||
		    !strchr("pehrt%", text.at[i]))
			return -EINVAL;
	}
	if (text.len >= GP_CONF_NAME_SIZE)
		return -ERANGE;
	/* All of it, so that equal names are equal bytes. */
	memset(name, 0, GP_CONF_NAME_SIZE);
	memcpy(name, text.at, text.len);
	return 0;
}

static int format_read(struct gp_span word, unsigned *set)
{
	for (size_t i = 0; i < NUM_FORMATS; i++) {
		if (gp_span_is_nocase(word, formats[i].name)) {
			*set |= formats[i].bit;
			return 0;
		}
	}
	return -EINVAL;
}

int gp_formats_read(struct gp_span text, unsigned *set)
{
	unsigned read = 0;
	struct gp_span word;

	gp_list_open(&text);
	while (gp_list_next(&text, &word))
		if (format_read(gp_span_trim(word), &read))
			return -EINVAL;
	*set = read;
	return 0;
}

void gp_formats_print(unsigned set, char *buf, size_t size)
{
	const bool list = (set & (set - 1)) != 0;
	size_t used = (size_t)snprintf(buf, size, "%s", list ? "[" : "");
	const char *comma = "";

	for (size_t i = 0; i < NUM_FORMATS && used < size; i++) {
		if (!(set & formats[i].bit))
			continue;
		used += (size_t)snprintf(buf + used, size - used, "%s%s", comma,
					 formats[i].name);
		comma = ",";
	}
	if (list && used < size)
		snprintf(buf + used, size - used, "]");
}
