/*
 * only: the programs that gpupool acts in, as patterns of their names.
 *
 * Kept as the patterns with commas between them. A pattern is a name in which
 * * stands for anything and ? for one character.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"

bool gp_only_is_pattern(struct gp_span text)
{
	for (size_t i = 0; i < text.len; i++) {
		const char c = text.at[i];

		if (gp_is_blank(c) || (unsigned char)c < ' ' || c == 0x7f ||
		    strchr(",:[]\"=@/", c))
			return false;
	}
	return text.len > 0;
}

int gp_only_add(struct gp_span pattern, char *only)
{
	const size_t used = strlen(only);

	if (!gp_only_is_pattern(pattern))
		return -EINVAL;
	if (used + (used > 0) + pattern.len >= GP_CONF_ONLY_SIZE)
		return -ERANGE;
	if (used)
		only[used] = ',';
	memcpy(only + used + (used > 0), pattern.at, pattern.len);
	return 0;
}

int gp_only_read(struct gp_span text, char *only)
{
	char read[GP_CONF_ONLY_SIZE] = "";
	struct gp_span pattern;

	gp_list_open(&text);
	while (gp_list_next(&text, &pattern)) {
		int error = gp_only_add(gp_span_trim(pattern), read);

		if (error)
			return error;
	}
	/* All of it, so that equal lists are equal bytes. */
	memcpy(only, read, sizeof(read));
	return 0;
}

void gp_only_print(const char *only, char *buf, size_t size)
{
	const bool list = strchr(only, ',') != NULL;

	snprintf(buf, size, "%s%s%s", list ? "[" : "", only, list ? "]" : "");
}

/* Goes back to the last * only, which is enough: an earlier one cannot do
 * better. */
static bool matches(struct gp_span pattern, const char *name)
{
	const char *p = pattern.at, *end = p + pattern.len;
	const char *star = NULL, *retry = NULL;

	while (*name) {
		if (p < end && *p == '*') {
			star = p++;
			retry = name;
		} else if (p < end && (*p == '?' || *p == *name)) {
			p++;
			name++;
		} else if (star) {
			p = star + 1;
			name = ++retry;
		} else {
			return false;
		}
	}
	while (p < end && *p == '*')
		p++;
	return p == end;
}

bool gp_conf_is_for(const struct gp_conf *conf, const char *name)
{
	const char *at = conf->only;

	for (;;) {
		const char *comma = strchrnul(at, ',');

		if (matches((struct gp_span){at, (size_t)(comma - at)}, name))
			return true;
		if (!*comma)
			return false;
		at = comma + 1;
	}
}
